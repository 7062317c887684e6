//! When a relist has ended, which is when everything that it led to has.

use std::collections::BTreeSet;

use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use super::{Core, Effect, Measure, News};
use crate::clock::{Now, Stamp};
use crate::records::Inspection;

/// A full list, with the pods that were to be inspected because of it and have not been yet.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) started: Stamp,
    pub(super) succeeded: bool,
    pub(super) open: BTreeSet<PodUid>,
}

impl Core {
    /// Makes the newest round wait for the inspection of this pod, if one is wanted.
    pub(super) fn open_in_round(&mut self, uid: PodUid) {
        let is_idle =
            self.records.get(&uid).is_none_or(|record| matches!(record.inspection, Inspection::Idle));
        if is_idle || self.rounds.iter().any(|round| round.open.contains(&uid)) {
            return;
        }
        if let Some(round) = self.rounds.back_mut() {
            round.open.insert(uid);
        }
    }

    /// Makes no round wait for this pod any longer: it was inspected, is gone, or has turned out to be slow.
    pub(super) fn close_in_round(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        for round in &mut self.rounds {
            round.open.remove(uid);
        }
        self.finish_rounds(now, out);
    }

    /// Ends rounds in order, so that the end of one means that all before it have ended.
    pub(super) fn finish_rounds(&mut self, now: Now, out: &mut Vec<Effect>) {
        while self.rounds.front().is_some_and(|round| round.open.is_empty()) {
            if let Some(round) = self.rounds.pop_front() {
                let took = round.started.until(now.stamp);
                let asked = round.succeeded.then_some(round.started);
                out.push(Effect::Publish(News::Measure(Measure::Relist { took, asked })));
            }
        }
    }
}
