//! The whole agent, on paused time, with a runtime in memory.

mod ends;
mod faults;
mod images;
mod lives;
mod probes;
mod resize;
mod room;
mod scene;
mod sidecars;
mod starts;
mod survival;
mod told;
mod upheaval;
mod users;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, Lifecycle, LifecycleHandler, Pod, SleepAction};

use super::PodSelector;
use crate::board::{PodView, Stage};
use crate::event::Severity;
use crate::merge::Operation;
use crate::pod::testkit;
use crate::testkit::FakeRuntime;
use scene::{PATIENCE, Scene, folder, pod, told, waits_for};
