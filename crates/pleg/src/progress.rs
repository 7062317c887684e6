//! Which calls are being waited for, right now.
//!
//! Kept apart from everything else, so that it can be read while everything else hangs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Stamp};
use crate::go_duration::GoDuration;
use crate::observe::Call;

/// What a call is made for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    /// The list of all pods.
    List,
    /// The list of one pod.
    Look(PodUid),
    /// The inspection of one pod.
    Inspect(PodUid),
}

/// A call that has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallInFlight {
    /// Which call.
    pub call: Call,
    /// About which container or sandbox; nothing for a list.
    pub target: Option<Arc<str>>,
    /// Since when.
    pub since: Stamp,
}

impl CallInFlight {
    /// In words, as of `now`.
    #[must_use]
    pub(crate) fn describe(&self, now: Stamp) -> String {
        let age = GoDuration::in_millis(self.since.until(now));
        match &self.target {
            Some(target) => format!("{} of {target} in flight for {age}", self.call),
            None => format!("{} in flight for {age}", self.call),
        }
    }

    /// As of `now`, with an age in place of a moment.
    #[must_use]
    pub(crate) fn report(&self, now: Stamp) -> CallReport {
        CallReport { call: self.call, target: self.target.clone(), age: self.since.until(now) }
    }
}

/// A call that has not answered, as a report shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReport {
    /// Which call.
    pub call: Call,
    /// About which container or sandbox; nothing for a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<str>>,
    /// For how long.
    #[serde(rename = "ageSeconds", with = "crate::go_duration::seconds")]
    pub age: Duration,
}

/// A stage, which of the tries at it, and which of its calls.
type Key = (Stage, u64, u64);

/// Every call that is waited for. Written by the observers, read by health.
#[derive(Clone, Debug)]
pub(crate) struct CallBoard {
    clock: Clock,
    calls: Arc<Mutex<BTreeMap<Key, CallInFlight>>>,
}

impl CallBoard {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, calls: Arc::default() }
    }

    /// Announces a stage. `ticket` tells apart two that overlap for the same pod, when the first was given up.
    pub(crate) fn begin(&self, stage: Stage, ticket: u64) -> Progress {
        Progress { board: self.clone(), stage, ticket, calls: AtomicU64::new(0) }
    }

    /// The calls in flight, by stage, those of one stage in the order in which they were made.
    pub(crate) fn calls(&self) -> Vec<(Stage, CallInFlight)> {
        self.calls.lock().iter().map(|((stage, ..), call)| (stage.clone(), call.clone())).collect()
    }
}

/// Where an observer says which calls it waits for.
#[derive(Debug)]
pub struct Progress {
    board: CallBoard,
    stage: Stage,
    ticket: u64,
    /// How many calls have been made.
    calls: AtomicU64,
}

impl Progress {
    /// A progress that nobody reads, for using an [`Observe`](crate::Observe) on its own.
    #[must_use]
    pub fn unwatched() -> Self {
        CallBoard::new(Clock::start()).begin(Stage::List, 0)
    }

    /// A call begins; it is waited for until the returned value is dropped.
    #[must_use = "the call ends when this is dropped"]
    pub fn calling(&self, call: Call, target: Option<&str>) -> Calling<'_> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let key = (self.stage.clone(), self.ticket, number);
        let call = CallInFlight { call, target: target.map(Arc::from), since: self.board.clock.stamp() };
        self.board.calls.lock().insert(key.clone(), call);
        Calling { board: &self.board, key }
    }
}

/// A call that is waited for.
#[derive(Debug)]
pub struct Calling<'a> {
    board: &'a CallBoard,
    key: Key,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.board.calls.lock().remove(&self.key);
    }
}
