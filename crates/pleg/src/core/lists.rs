//! When to list, and what follows from a list.

use std::collections::BTreeSet;
use std::sync::Arc;

use rubelet_model::{ContainerState, PodUid, RuntimePod, SandboxState};

use super::period::PeriodReason;
use super::rounds::Round;
use super::stream::Scope;
use super::wishes::Wish;
use super::{Ask, Core, Effect, FullList, Measure, News, SHORTEST_PERIOD, Tally};
use crate::clock::{Now, Stamp};
use crate::event::Trigger;
use crate::go_duration::GoDuration;
use crate::observe::{Listing, ObserveError};
use crate::records::{Latest, Record, Snapshot};

/// What a full list says about the time before it.
struct Findings {
    /// Nothing had failed or was missing, so nothing has to be asked again.
    were_calm: bool,
    /// Every change had been announced.
    were_announced: bool,
}

impl Core {
    /// Starts the full list if it is due, otherwise the looks that are wanted.
    pub(super) fn start_lists(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some(mut due) = self.list_due() else { return };
        let more = self.nudges.keys().filter(|pod| !self.looks.contains_key(*pod)).count();
        let too_many = more > 0 && self.looks.len() + more > self.config.look_limit;
        let only_a_full_list_shows_it =
            |pod: &PodUid| self.records.get(pod).is_some_and(|record| !record.is_selectable());
        if too_many || self.nudges.keys().any(only_a_full_list_shows_it) {
            due = due.min(self.soonest_list(now));
            self.full_list = FullList::DueAt(due);
        }
        if due <= now.stamp {
            self.start_full_list(now, out);
            return;
        }
        if self.unconfirmed || too_many {
            // The full list that is about to come serves them all.
            return;
        }
        let is_startable = |pod: &&PodUid| {
            let record = self.records.get(pod);
            !self.looks.contains_key(*pod) && record.is_none_or(Record::is_selectable)
        };
        let startable: Vec<PodUid> = self.nudges.keys().filter(is_startable).cloned().collect();
        for pod in startable {
            let Some(wish) = self.nudges.remove(&pod) else { continue };
            self.looks.insert(pod.clone(), Wish { at: now.stamp, ..wish });
            out.push(Effect::Ask(Ask::Look { pod, asked: now.stamp }));
        }
    }

    /// Brings the next full list forward to `wanted`, if it would come later.
    pub(super) fn list_no_later_than(&mut self, wanted: Stamp) {
        match &mut self.full_list {
            FullList::DueAt(due) => *due = wanted.min(*due),
            FullList::InFlight { .. } => {
                self.list_wanted = Some(self.list_wanted.map_or(wanted, |other| wanted.min(other)));
            }
        }
    }

    /// Returns to the shortest period, as if there were no other source of changes than lists.
    pub(super) fn list_often(&mut self, reason: PeriodReason, now: Now, out: &mut Vec<Effect>) {
        if self.period.reset(reason) {
            self.tell_period(out);
        }
        self.list_no_later_than(self.frequent_list(now));
    }

    pub(super) fn tell_period(&self, out: &mut Vec<Effect>) {
        let Some(reason) = self.period.reason() else { return };
        let period = self.period.now();
        tracing::info!(target: "pleg::period", "from now on all pods are listed every {}: {reason}", GoDuration(period));
        out.push(Effect::Publish(News::Measure(Measure::Period { period, reason })));
    }

    /// When the next full list starts in the shortest period.
    pub(super) fn frequent_list(&self, now: Now) -> Stamp {
        now.stamp.max(self.list_ended.plus(self.period.shortest()))
    }

    /// When the next full list may start if somebody cannot wait for it.
    pub(super) fn soonest_list(&self, now: Now) -> Stamp {
        now.stamp.max(self.list_ended.plus(SHORTEST_PERIOD))
    }

    pub(super) fn start_full_list(&mut self, now: Now, out: &mut Vec<Effect>) {
        if let Some(last) = self.list_facts.last_success {
            out.push(Effect::Publish(News::Measure(Measure::RelistInterval(last.until(now.stamp)))));
        }
        // The pods that are being looked at are in the full list as well.
        for (pod, look) in std::mem::take(&mut self.looks) {
            tracing::debug!(%pod, "single-pod list abandoned: listing all pods instead");
            self.silences.given_up(pod.clone(), look.at, now.stamp);
            out.push(Effect::Ask(Ask::AbandonLook { pod, asked: look.at }));
        }
        self.nudges.clear();
        self.full_list = FullList::InFlight { asked: now.stamp };
        out.push(Effect::Ask(Ask::List { asked: now.stamp }));
    }

    pub(super) fn listed(
        &mut self,
        asked: Stamp,
        answer: Result<Listing, ObserveError>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        match self.full_list {
            FullList::InFlight { asked: expected } if expected == asked => {}
            FullList::InFlight { .. } | FullList::DueAt(_) => return,
        }
        let waited = self.list_ended.until(asked);
        self.list_ended = now.stamp;
        let was_confirmed = !self.unconfirmed;
        // A list that came sooner than usual is no evidence that a longer period is safe.
        let may_be_rarer = self.stream_is_complete(now.stamp) && waited >= self.period.now();
        self.full_list = FullList::DueAt(now.stamp.plus(self.period.longest()));
        if let Some(wanted) = self.list_wanted.take() {
            self.list_no_later_than(wanted.max(self.soonest_list(now)));
        }
        self.rounds.push_back(Round { started: asked, succeeded: answer.is_ok(), open: BTreeSet::new() });
        let findings = match answer {
            Ok(listing) => {
                self.list_facts.succeeded(asked, listing.unreadable);
                Some(self.apply_full_list(listing, asked, now, out))
            }
            Err(error) => {
                self.list_facts.failed(now.stamp, error);
                None
            }
        };
        let has_changed = match findings {
            Some(findings) if was_confirmed && findings.were_calm => {
                may_be_rarer && findings.were_announced && self.period.grow()
            }
            Some(_) | None => self.period.reset(PeriodReason::CallFailed),
        };
        if has_changed {
            self.tell_period(out);
        }
        self.list_no_later_than(now.stamp.plus(self.period.now()));
        self.finish_rounds(now, out);
    }

    /// Whether it is unknown to which pod these containers belong: they have no labels, so only their sandbox says it,
    /// and a runtime that has just started may not remember the sandbox yet.
    fn is_nobodys(&self, pod: &RuntimePod) -> bool {
        !pod.selectable && pod.sandboxes.is_empty() && !self.records.contains(&pod.pod.uid)
    }

    fn apply_full_list(
        &mut self,
        listing: Listing,
        asked: Stamp,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Findings {
        let reconnected = self.epoch.is_some_and(|before| before != listing.epoch);
        let may_have_just_started = self.epoch.is_none_or(|before| before != listing.epoch);
        let skips_something = may_have_just_started && listing.pods.iter().any(|pod| self.is_nobodys(pod));
        let absence_is_proof = !reconnected && listing.unreadable == 0 && !skips_something;
        self.epoch = Some(listing.epoch);
        self.unconfirmed = reconnected;
        if reconnected || skips_something {
            // Everything waits for the list that confirms this one, so it comes soon, however rare lists are.
            self.list_no_later_than(self.frequent_list(now));
        }
        self.list_number += 1;
        self.records.make_room(listing.pods.len());
        let mut tally = Tally::default();
        let mut changed = Vec::new();
        let mut were_calm = true;
        let mut named = 0;
        for pod in listing.pods {
            if skips_something && self.is_nobodys(&pod) {
                continue;
            }
            let record = self.records.get_or_add(&pod.pod, self.list_number == 1);
            if record.named_by != self.list_number {
                record.named_by = self.list_number;
                named += 1;
                were_calm &= record.is_calm();
            }
            tally += record.tally(&pod);
            if !reconnected {
                record.listed_at = asked;
            }
            if record.is_quiet() && record.confirms_committed(&pod) {
                continue;
            }
            let completed = if absence_is_proof { None } else { record.with_missing(&pod) };
            record.parts_missing = completed.is_some();
            let uid = pod.pod.uid.clone();
            let pod = completed.map_or(pod, Arc::new);
            let snapshot = Snapshot { pod, asked: record.listed_at, trigger: Trigger::Relist };
            self.records.list(&uid, snapshot);
            changed.push(uid);
        }
        let mut missing = Vec::new();
        let unnamed = self.records.len() - named;
        let is_unnamed = |record: &&mut Record| record.named_by != self.list_number;
        for record in self.records.values_mut().filter(is_unnamed).take(unnamed) {
            were_calm &= record.is_calm();
            if !reconnected {
                record.listed_at = asked;
            }
            record.parts_missing = !absence_is_proof;
            // A pod that is `Gone` was proved gone by an earlier list, and only last words are awaited. A list that
            // proves nothing adds nothing to that.
            if absence_is_proof || !matches!(record.latest(), Latest::Gone(_)) {
                missing.push(record.pod.uid.clone());
            }
        }
        if absence_is_proof {
            for uid in &missing {
                self.records.lose(uid, Trigger::Relist);
            }
        }
        changed.append(&mut missing);
        if !reconnected {
            out.push(Effect::Publish(News::Measure(Measure::Running(tally))));
        }

        // Running pods come first: after a start there may be thousands of dead ones to inspect. Then by UID, so that
        // neither the order of a hash map nor the order in which a runtime lists becomes visible.
        let runs = |uid: &PodUid| self.records.get(uid).is_some_and(runs_something);
        changed.sort_by(|a, b| runs(b).cmp(&runs(a)).then_with(|| a.cmp(b)));
        let were_announced = changed.iter().all(|uid| self.is_announced(uid));
        for uid in changed {
            self.adopt_early_reinspect(&uid);
            self.reconcile(&uid, now, out);
            self.open_in_round(uid);
        }
        if !reconnected {
            // Whoever asked has had a list to wait for. If the pod comes later, it is inspected because it is new.
            self.early_reinspects.retain(|_, wished| *wished > asked);
            self.weigh_announcements(Scope::All, asked, absence_is_proof, now, out);
        }
        self.stream_baseline(asked, !reconnected, now);
        // What a runtime lists right after it came back may not be everything that it will remember, so it proves
        // nothing about what it does not show. For the same reason such a list leaves `listed_at` alone.
        if !reconnected {
            out.push(Effect::Publish(News::Advance { asked, proves_absence: absence_is_proof }));
        }
        Findings { were_calm, were_announced }
    }

    pub(super) fn looked(
        &mut self,
        uid: &PodUid,
        asked: Stamp,
        answer: Result<Listing, ObserveError>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(look) = self.looks.get(uid).copied().filter(|look| look.at == asked) else { return };
        self.looks.remove(uid);
        self.silences.answered(uid);
        let listing = match answer {
            Ok(listing) => listing,
            Err(error) => {
                tracing::debug!(pod = %uid, %error, "cannot list the pod");
                self.list_no_later_than(self.frequent_list(now));
                return;
            }
        };
        self.last_look = self.last_look.max(Some(asked));
        let found = listing.pods.into_iter().find(|pod| pod.pod.uid == *uid);
        let known = self.records.contains(uid);
        let reconnected = self.epoch.is_some_and(|before| before != listing.epoch);
        if reconnected || listing.unreadable > 0 || (found.is_none() && !known) {
            // Not enough to go by: only a full list can show what is gone, or that the runtime does not know the pod.
            self.list_no_later_than(self.soonest_list(now));
            return;
        }
        match found {
            Some(pod) => {
                self.records.get_or_add(&pod.pod, self.list_number == 0);
                self.records.list(uid, Snapshot { pod, asked, trigger: look.trigger });
            }
            None => self.records.lose(uid, look.trigger),
        }
        let Some(record) = self.records.get_mut(uid) else { return };
        record.listed_at = asked;
        record.looked_since.get_or_insert(asked);
        record.parts_missing = false;
        // Nothing else would tell the cache about a look that found nothing new.
        record.held = true;
        out.push(Effect::Publish(News::Hold { pod: uid.clone() }));
        self.adopt_early_reinspect(uid);
        self.reconcile(uid, now, out);
        self.weigh_announcements(Scope::Pod(uid), asked, true, now, out);
    }

    pub(super) fn adopt_early_reinspect(&mut self, uid: &PodUid) {
        if let Some(at) = self.early_reinspects.remove(uid)
            && let Some(record) = self.records.get_mut(uid)
        {
            record.reinspect = Some(at);
        }
    }
}

fn runs_something(record: &Record) -> bool {
    let Latest::Listed(snapshot) = record.latest() else { return false };
    snapshot.pod.containers.iter().any(|container| container.state == ContainerState::Running)
        || snapshot.pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
}
