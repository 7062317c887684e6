//! What others ask of the core.

use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use super::{Core, Effect, FullList};
use crate::clock::{Now, Stamp};
use crate::event::Trigger;
use crate::records::Inspection;

/// A look that is wanted, or in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wish {
    /// When it was asked for.
    pub(super) at: Stamp,
    /// What led to it.
    pub(super) trigger: Trigger,
}

impl Core {
    pub(super) fn nudge(&mut self, pod: PodUid, at: Stamp, trigger: Trigger) {
        let list_under_way = match self.full_list {
            FullList::InFlight { asked } => Some(asked),
            FullList::DueAt(_) => None,
        };
        let looked_at = self.records.get(&pod).map(|record| record.listed_at);
        let newest_look =
            [list_under_way, self.list_facts.last_success, looked_at].into_iter().flatten().max();
        if newest_look.is_some_and(|asked| asked > at) {
            return;
        }
        let wish = self.nudges.entry(pod).or_insert(Wish { at, trigger });
        wish.at = at.max(wish.at);
    }

    pub(super) fn reinspect(&mut self, pod: PodUid, at: Stamp, now: Now) {
        self.list_no_later_than(self.frequent_list(now));
        match self.records.get_mut(&pod) {
            Some(record) => record.reinspect = record.reinspect.max(Some(at)),
            None => {
                self.early_reinspects.insert(pod, at);
            }
        }
    }

    pub(super) fn interrupted(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.full_list = FullList::DueAt(now.stamp);
        self.list_wanted = None;
        self.forget_stream(out);
        self.looks.clear();
        self.lanes.clear();
        self.rounds.clear();
        for record in self.records.values_mut() {
            record.inspection = Inspection::Idle;
        }
    }
}
