//! What follows from announcements: looks, short lives, doubts, and the period between full lists.

mod ends;
mod last_words;
mod looks;
mod period;
mod short_lives;
mod withheld;

use std::time::Duration;

use EventKind::{ContainerDied as Died, ContainerRemoved as Removed, ContainerStarted as Started, PodSync};
use LifeStep::{Created as WasCreated, Deleted, Started as WasStarted, Stopped};

use rubelet_model::{ContainerState, RuntimePod};

use super::harness::{Created, Exited, Harness, Ready, Running, announcement, pod, sandbox, told};
use super::*;
use crate::announce::{Announcement, LifeStep, StreamError};
use crate::event::{EventKind, Exit, PodEvent, Subject};

fn exit(code: i32, reason: &str) -> Exit {
    Exit { code, reason: reason.into(), oom_killed: reason == "OOMKilled" }
}

/// A node with a pod A, whose container c1 is running, and with an open stream.
fn listening() -> Harness {
    listening_with(Config::default())
}

fn listening_with(config: Config) -> Harness {
    let mut pleg = Harness::with(config);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.step(Input::StreamOpened);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.take_told();
    pleg
}

fn announce(pleg: &mut Harness, announcements: impl IntoIterator<Item = Announcement>) {
    let at = pleg.now().stamp;
    pleg.step(Input::Announced { announcements: announcements.into_iter().collect(), at });
}

fn unannounced(pleg: &Harness) -> u64 {
    pleg.core.stream_facts().unannounced
}
