//! Pods that are held back: something older than this agent still runs, and a source that has not been read yet may
//! want it. What ran keeps running, whichever source is read first.

use std::collections::BTreeMap;

use rubelet_model::PodUid;

use super::{Command, Facts, Routes};
use crate::pod::pod_ref;

/// How many surveys to wait for a source, two seconds apart. A URL gets ten seconds to answer before it counts as
/// silent.
const PATIENCE: u64 = 8;

/// The pods that are held back, and until which survey.
#[derive(Debug, Default)]
pub(super) struct Held {
    until: BTreeMap<PodUid, u64>,
    surveys: u64,
}

impl Held {
    pub(super) fn hold(&mut self, uid: PodUid) {
        self.until.insert(uid, self.surveys + PATIENCE);
    }

    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.until.remove(uid);
    }

    pub(super) fn survey(&mut self) {
        self.surveys += 1;
    }

    pub(super) fn count(&self) -> usize {
        self.until.len()
    }

    /// Whether a pod has been held back for as long as is allowed.
    fn is_over(&self, uid: &PodUid) -> bool {
        self.until.get(uid).is_some_and(|until| *until <= self.surveys)
    }
}

impl Routes {
    /// Lets in pods that have nothing left to wait for, or have waited long enough.
    pub(in crate::sync_loop) fn let_in(&mut self, facts: &Facts) -> Vec<Command> {
        let mut commands = Vec::new();
        let held: Vec<PodUid> = self.held.until.keys().cloned().collect();
        for uid in held {
            let waits = self.wants.of(&uid).is_some_and(|want| self.must_wait(&pod_ref(&want.pod)));
            if !waits || self.held.is_over(&uid) {
                self.held.forget(&uid);
                self.take_in(&uid, facts, &mut commands);
            }
        }
        commands
    }
}
