//! What others ask of the core.

use rubelet_model::PodUid;

use super::{Core, FullList};
use crate::clock::{Now, Stamp};
use crate::records::Inspection;

impl Core {
    pub(super) fn nudge(&mut self, pod: PodUid, at: Stamp) {
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
        let newest = self.nudges.entry(pod).or_insert(at);
        *newest = at.max(*newest);
    }

    pub(super) fn reinspect(&mut self, pod: PodUid, at: Stamp) {
        match self.records.get_mut(&pod) {
            Some(record) => record.reinspect = record.reinspect.max(Some(at)),
            None => {
                self.early_reinspects.insert(pod, at);
            }
        }
    }

    pub(super) fn interrupted(&mut self, now: Now) {
        self.full_list = FullList::DueAt(now.stamp);
        self.looks.clear();
        self.lanes.clear();
        self.rounds.clear();
        for record in self.records.values_mut() {
            record.inspection = Inspection::Idle;
        }
    }
}
