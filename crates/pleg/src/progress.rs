//! The calls in progress.
//!
//! They are kept apart from everything else, so that they can be read while everything else hangs.

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

/// The purpose of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    /// A list of all pods.
    List,
    /// A list of one pod.
    Look(PodUid),
    /// An inspection of one pod.
    Inspect(PodUid),
}

/// A call that has not been answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallInFlight {
    /// The call.
    pub call: Call,
    /// The id of the container or sandbox that it is about; `None` for a list.
    pub target: Option<Arc<str>>,
    /// When it was made.
    pub since: Stamp,
}

impl CallInFlight {
    /// Describes the call in words, as of `now`.
    #[must_use]
    pub(crate) fn describe(&self, now: Stamp) -> String {
        let age = GoDuration::in_millis(self.since.until(now));
        match &self.target {
            Some(target) => format!("{} of {target} in flight for {age}", self.call),
            None => format!("{} in flight for {age}", self.call),
        }
    }

    /// The call as of `now`, with its age.
    #[must_use]
    pub(crate) fn report(&self, now: Stamp) -> CallReport {
        CallReport { call: self.call, target: self.target.clone(), age: self.since.until(now) }
    }
}

/// A call that has not been answered yet, as a report shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReport {
    /// The call.
    pub call: Call,
    /// The id of the container or sandbox that it is about; `None` for a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<str>>,
    /// How long ago it was made.
    #[serde(rename = "ageSeconds", with = "crate::go_duration::seconds")]
    pub age: Duration,
}

/// A stage, the number of its attempt, and the number of the call in that attempt.
type Key = (Stage, u64, u64);

/// All calls in progress. Written by the observers, read by health.
#[derive(Clone, Debug)]
pub(crate) struct CallBoard {
    clock: Clock,
    calls: Arc<Mutex<BTreeMap<Key, CallInFlight>>>,
}

impl CallBoard {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, calls: Arc::default() }
    }

    /// Begins a stage. `ticket` distinguishes attempts that overlap because an earlier one was given up.
    pub(crate) fn begin(&self, stage: Stage, ticket: u64) -> Progress {
        Progress { board: self.clone(), stage, ticket, calls: AtomicU64::new(0) }
    }

    /// The calls in progress by stage; within a stage, in the order in which they were made.
    pub(crate) fn calls(&self) -> Vec<(Stage, CallInFlight)> {
        self.calls.lock().iter().map(|((stage, ..), call)| (stage.clone(), call.clone())).collect()
    }
}

/// Lets an observer report which calls it is waiting for.
#[derive(Debug)]
pub struct Progress {
    board: CallBoard,
    stage: Stage,
    ticket: u64,
    /// How many calls have been made.
    calls: AtomicU64,
}

impl Progress {
    /// Progress that nobody reads, for calling an [`Observe`](crate::Observe) outside of a [`Pleg`](crate::Pleg).
    #[must_use]
    pub fn unwatched() -> Self {
        CallBoard::new(Clock::start()).begin(Stage::List, 0)
    }

    /// Reports that a call begins. The call counts as in progress until the returned value is dropped.
    #[must_use = "the call ends when this is dropped"]
    pub fn calling(&self, call: Call, target: Option<&str>) -> Calling<'_> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let key = (self.stage.clone(), self.ticket, number);
        let call = CallInFlight { call, target: target.map(Arc::from), since: self.board.clock.stamp() };
        self.board.calls.lock().insert(key.clone(), call);
        Calling { board: &self.board, key }
    }
}

/// A call in progress. The call ends when this is dropped.
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
