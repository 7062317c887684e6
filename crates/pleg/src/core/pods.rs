//! What follows from a new view of a pod: an inspection, a commit, events.

use std::sync::Arc;

use rubelet_model::{PodStatus, PodUid, RuntimePod};

use super::telling::Telling;
use super::{Ask, Core, Effect, News};
use crate::clock::{Now, Stamp};
use crate::event::Trigger;
use crate::observe::ObserveError;
use crate::records::{Found, Inspection, Latest, Snapshot, Trouble};

impl Core {
    /// Compares the newest view of a pod with the committed one, and queues an inspection if they differ.
    pub(super) fn reconcile(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        if let Latest::Gone(trigger) = *record.latest() {
            if self.waits_for_last_words(uid, None, now) {
                self.hold(uid, out);
            } else if self.commit_withheld_before(uid, None, now, out) {
                self.reconcile(uid, now, out);
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
            record.forget_awaited();
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
            out.push(Effect::Publish(News::Hold { pod: uid.clone() }));
        }
        if !hold && record.held {
            out.push(Effect::Publish(News::Settle { pod: uid.clone(), asked: record.listed_at }));
        }
        record.held = hold;
        if settled {
            out.extend(record.end_look(now.stamp));
        }
        if was_withdrawn {
            self.close_in_round(uid, now, out);
        }
    }

    /// Holds the pod: the global time does not vouch for it until it is settled.
    fn hold(&mut self, uid: &PodUid, out: &mut Vec<Effect>) {
        if let Some(record) = self.records.get_mut(uid)
            && !record.held
        {
            record.held = true;
            out.push(Effect::Publish(News::Hold { pod: uid.clone() }));
        }
    }

    pub(super) fn remove(&mut self, uid: &PodUid, trigger: Trigger, now: Now, out: &mut Vec<Effect>) {
        let Some(mut record) = self.records.remove(uid) else { return };
        out.extend(record.end_look(now.stamp));
        match record.inspection {
            Inspection::InFlight { ticket, .. } => {
                out.push(Effect::Ask(Ask::Abandon { ticket }));
                self.lanes.finish(uid);
            }
            Inspection::Queued { .. } => self.lanes.withdraw(uid),
            Inspection::Idle => {}
        }
        self.close_in_round(uid, now, out);
        out.push(Effect::Publish(News::Forget { pod: uid.clone() }));
        let changes = record.changes(None);
        let (asked, ends) = (record.listed_at, &record.untold_ends);
        let telling = Telling { pod: &record.pod, trigger, asked, status: None, corrected: &[], ends };
        self.tell(&telling, changes, record.reinspect.is_some(), now, out);
        if record.held {
            out.push(Effect::Publish(News::Settle { pod: uid.clone(), asked: record.listed_at }));
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
            out.push(Effect::Ask(Ask::Inspect { snapshot, ticket }));
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
            Ok(status) => {
                record.trouble = None;
                record.note_ends(&status);
                let found = Found { snapshot, started, status: Arc::new(status) };
                if !self.withholds(uid, &found, now) {
                    self.commit(uid, found, now, out);
                } else if let Some(record) = self.records.get_mut(uid) {
                    record.withhold(found);
                }
            }
            Err(error) => self.could_not_inspect(uid, &snapshot, started, error, now, out),
        }
        self.close_in_round(uid, now, out);
    }

    /// Whether to withhold what was found, since more may be known in a moment.
    fn withholds(&mut self, uid: &PodUid, found: &Found, now: Now) -> bool {
        let Some(record) = self.records.get(uid) else { return false };
        if record.is_doubtful(&found.status, found.started) {
            self.doubt(uid, &found.status, now);
            return true;
        }
        self.waits_for_last_words(uid, Some(&found.snapshot.pod), now)
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
        record.reinspect = record.reinspect.max(Some(started));
        let trouble = record.trouble.get_or_insert_with(|| {
            Box::new(Trouble { since: started, failures: 0, last_error: error.clone() })
        });
        trouble.failures += 1;
        trouble.last_error = error.clone();
        out.extend(record.end_look(now.stamp));
        self.list_no_later_than(self.frequent_list(now));
        out.push(Effect::Publish(News::Store {
            pod: uid.clone(),
            status: Err(error),
            asked: snapshot.asked,
        }));
    }

    /// Commits what was found, and before it those withheld findings that would otherwise be lost.
    pub(super) fn commit(&mut self, uid: &PodUid, found: Found, now: Now, out: &mut Vec<Effect>) {
        self.commit_withheld_before(uid, Some(&found.snapshot.pod), now, out);
        self.commit_one(uid, found, now, out);
        self.reconcile(uid, now, out);
    }

    /// Commits the withheld findings that must come before `next`. Returns whether there were any.
    fn commit_withheld_before(
        &mut self,
        uid: &PodUid,
        next: Option<&RuntimePod>,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> bool {
        let Some(record) = self.records.get_mut(uid) else { return false };
        let before = record.take_withheld_before(next);
        let is_any = !before.is_empty();
        for found in before {
            self.commit_one(uid, found, now, out);
        }
        is_any
    }

    fn commit_one(&mut self, uid: &PodUid, found: Found, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        let Found { snapshot, started, status } = found;
        self.last_inspection = self.last_inspection.max(Some(started));
        record.last_success = Some(started);
        let mut status = Arc::unwrap_or_clone(status);
        record.keep_addresses(&mut status);
        let status = Arc::new(status);
        record.doubt = None;
        record.awaited_ends.clear();
        record.patience_ends = None;
        let corrected = record.corrected_by(&status);
        if let Some(due) = record.note_incomplete_ends(&status, started, now.stamp) {
            self.agenda.inspect(uid.clone(), due);
        }
        record.recheck = record.next_recheck(now.stamp);
        let changes = record.changes(Some(&snapshot.pod));
        // A reinspection that was asked for after this inspection began is still due.
        let asked_for = record.reinspect.take_if(|at| *at <= started).is_some();
        let (asked, trigger, pod) = (snapshot.asked, snapshot.trigger, snapshot.pod.pod.clone());
        let ends = record.untold_ends.clone();
        self.records.commit(snapshot, status.clone());
        out.push(Effect::Publish(News::Store { pod: uid.clone(), status: Ok(status.clone()), asked }));
        let (corrected, ends) = (&corrected[..], &ends);
        let telling = Telling { pod: &pod, trigger, asked, status: Some(&status), corrected, ends };
        self.tell(&telling, changes, asked_for, now, out);
        self.settle_announcements(uid);
    }
}
