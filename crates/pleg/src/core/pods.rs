//! What is made of a new view of a pod: an inspection, a commit, events.

use std::sync::Arc;

use rubelet_model::{PodStatus, PodUid};

use super::doubt::Left;
use super::telling::Telling;
use super::{Core, Effect};
use crate::clock::{Now, Stamp};
use crate::event::Trigger;
use crate::observe::ObserveError;
use crate::records::{Inspection, Latest, Recheck, Snapshot, Trouble};

impl Core {
    /// Compares the newest view of a pod with the committed one, and wants it inspected if they differ.
    pub(super) fn reconcile(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        if let Latest::Gone(trigger) = *record.latest() {
            if self.waits_for_last_words(uid, None, now) {
                self.hold(uid, out);
            } else {
                self.remove(uid, trigger, now, out);
            }
            return;
        }
        let is_asked_about =
            record.wants_inspection() || matches!(record.inspection, Inspection::InFlight { .. });
        if !is_asked_about {
            record.settle_latest();
        }
        let mut was_withdrawn = false;
        let settled = !is_asked_about && matches!(record.latest(), Latest::AsCommitted);
        if settled {
            if matches!(record.inspection, Inspection::Queued { .. }) {
                record.inspection = Inspection::Idle;
                self.lanes.withdraw(uid);
                was_withdrawn = true;
            }
        } else if matches!(record.inspection, Inspection::Idle) {
            record.inspection = Inspection::Queued { since: now.stamp };
            self.lanes.enqueue(uid.clone(), record.trouble.is_some());
        }
        let hold = !settled || record.parts_missing;
        if hold && !record.held {
            out.push(Effect::Hold { pod: uid.clone() });
        }
        if !hold && record.held {
            out.push(Effect::Settle { pod: uid.clone(), asked: record.listed_at });
        }
        record.held = hold;
        if settled {
            out.extend(record.end_look(now.stamp));
        }
        if was_withdrawn {
            self.close_in_round(uid, now, out);
        }
    }

    /// The cache does not vouch for this pod until it is settled.
    fn hold(&mut self, uid: &PodUid, out: &mut Vec<Effect>) {
        if let Some(record) = self.records.get_mut(uid)
            && !record.held
        {
            record.held = true;
            out.push(Effect::Hold { pod: uid.clone() });
        }
    }

    pub(super) fn remove(&mut self, uid: &PodUid, trigger: Trigger, now: Now, out: &mut Vec<Effect>) {
        let Some(mut record) = self.records.remove(uid) else { return };
        out.extend(record.end_look(now.stamp));
        match record.inspection {
            Inspection::InFlight { ticket, .. } => {
                out.push(Effect::Abandon { ticket });
                self.lanes.finish(uid);
            }
            Inspection::Queued { .. } => self.lanes.withdraw(uid),
            Inspection::Idle => {}
        }
        self.close_in_round(uid, now, out);
        out.push(Effect::Forget { pod: uid.clone() });
        let changes = record.changes(None);
        // What was doubted was the last word after all.
        let before = record.doubt.take().map(|doubt| doubt.status).or(record.status.take());
        let asked = record.listed_at;
        let telling = Telling { pod: &record.pod, trigger, asked, status: None, before: &before };
        self.tell(&telling, changes, record.reinspect.is_some(), now, out);
        if record.held {
            out.push(Effect::Settle { pod: uid.clone(), asked: record.listed_at });
        }
    }

    pub(super) fn start_inspections(&mut self, now: Now, out: &mut Vec<Effect>) {
        for slow in self.lanes.demote_slow(now.stamp) {
            self.close_in_round(&slow, now, out);
        }
        while let Some(uid) = self.lanes.start_next(now.stamp) {
            let Some(record) = self.records.get_mut(&uid) else {
                self.lanes.finish(&uid);
                continue;
            };
            let snapshot = match record.latest() {
                Latest::Listed(snapshot) => Some(snapshot.clone()),
                Latest::AsCommitted => record.committed_snapshot(),
                Latest::Gone(_) => None,
            };
            let Some(snapshot) = snapshot else {
                record.inspection = Inspection::Idle;
                self.lanes.finish(&uid);
                continue;
            };
            self.last_ticket += 1;
            let ticket = self.last_ticket;
            record.inspection =
                Inspection::InFlight { ticket, started: now.stamp, snapshot: snapshot.clone() };
            out.push(Effect::Inspect { snapshot, ticket });
        }
    }

    pub(super) fn inspected(
        &mut self,
        uid: &PodUid,
        ticket: u64,
        answer: Result<PodStatus, ObserveError>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(record) = self.records.get_mut(uid) else { return };
        let (started, snapshot) = match &record.inspection {
            Inspection::InFlight { ticket: expected, started, snapshot } if *expected == ticket => {
                (*started, snapshot.clone())
            }
            Inspection::InFlight { .. } | Inspection::Queued { .. } | Inspection::Idle => return,
        };
        record.inspection = Inspection::Idle;
        self.lanes.finish(uid);
        match answer {
            Ok(status) if record.is_doubtful(&status, now.stamp) => self.doubt(uid, status, now),
            Ok(status)
                if self.waits_for_last_words(
                    uid,
                    Some(Left { pod: &snapshot.pod, status: &status }),
                    now,
                ) => {}
            Ok(status) => self.commit(uid, snapshot, started, status, now, out),
            Err(error) => self.could_not_inspect(uid, &snapshot, started, error, now, out),
        }
        self.close_in_round(uid, now, out);
    }

    fn could_not_inspect(
        &mut self,
        uid: &PodUid,
        snapshot: &Snapshot,
        started: Stamp,
        error: ObserveError,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(record) = self.records.get_mut(uid) else { return };
        record.reinspect = record.reinspect.or(Some(Stamp::ZERO));
        let trouble = record.trouble.get_or_insert_with(|| {
            Box::new(Trouble { since: started, failures: 0, last_error: error.clone() })
        });
        trouble.failures += 1;
        trouble.last_error = error.clone();
        out.extend(record.end_look(now.stamp));
        self.list_no_later_than(self.frequent_list(now));
        out.push(Effect::Store { pod: uid.clone(), status: Err(error), asked: snapshot.asked });
    }

    pub(super) fn commit(
        &mut self,
        uid: &PodUid,
        snapshot: Arc<Snapshot>,
        started: Stamp,
        mut status: PodStatus,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(record) = self.records.get_mut(uid) else { return };
        record.trouble = None;
        self.last_inspection = self.last_inspection.max(Some(started));
        record.keep_addresses(&mut status);
        let status = Arc::new(status);
        let before = record.status.clone();
        record.doubt = None;
        record.awaited_ends.clear();
        record.patience_ends = None;
        let is_corrected = record.recheck == Recheck::Due && before.as_ref() != Some(&status);
        if let Some(due) = record.note_incomplete_ends(&status, started, now.stamp) {
            self.agenda.inspect(uid.clone(), due);
        }
        record.recheck = if record.incomplete_ends.is_empty() { Recheck::No } else { Recheck::Later };
        let changes = record.changes(Some(&snapshot.pod));
        // A wish that came after the inspection had begun is not fulfilled by it.
        let asked_for = record.reinspect.take_if(|at| *at <= started).is_some();
        let (asked, trigger, pod) = (snapshot.asked, snapshot.trigger, snapshot.pod.pod.clone());
        self.records.commit(snapshot, status.clone());
        out.push(Effect::Store { pod: uid.clone(), status: Ok(status.clone()), asked });
        let telling = Telling { pod: &pod, trigger, asked, status: Some(&status), before: &before };
        self.tell(&telling, changes, asked_for || is_corrected, now, out);
        self.settle_announcements(uid);
        self.reconcile(uid, now, out);
    }
}
