//! What is to be done later.

use std::collections::BTreeSet;

use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Task {
    /// Look at the pod.
    Look,
    /// Inspect it, as it was listed.
    Inspect,
}

/// Tasks by when they are due. What is there already, for the same moment, is not added twice.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Agenda(BTreeSet<(Stamp, PodUid, Task)>);

impl Agenda {
    pub(super) fn look(&mut self, pod: PodUid, at: Stamp) {
        self.0.insert((at, pod, Task::Look));
    }

    pub(super) fn inspect(&mut self, pod: PodUid, at: Stamp) {
        self.0.insert((at, pod, Task::Inspect));
    }

    pub(super) fn next(&self) -> Option<Stamp> {
        self.0.first().map(|(at, ..)| *at)
    }

    pub(super) fn take_due(&mut self, now: Stamp) -> Option<(PodUid, Task)> {
        if self.0.first()?.0 > now {
            return None;
        }
        self.0.pop_first().map(|(_, pod, task)| (pod, task))
    }
}
