//! When to list, and what a list says.

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

/// What a full list says of how things went before it.
struct Findings {
    /// Nothing had to be asked for again.
    were_calm: bool,
    /// Every change had been announced.
    were_announced: bool,
}

impl Core {
    /// Starts the full list when it is due, else the looks that were asked for.
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
            // The full list that comes serves them all.
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

    /// Puts the next full list forward.
    pub(super) fn list_no_later_than(&mut self, wanted: Stamp) {
        match &mut self.full_list {
            FullList::DueAt(due) => *due = wanted.min(*due),
            FullList::InFlight { .. } => {
                self.list_wanted = Some(self.list_wanted.map_or(wanted, |other| wanted.min(other)));
            }
        }
    }

    /// From now on, all pods are listed as often as if nothing else told of changes.
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

    /// When a full list starts if nothing else tells of changes.
    pub(super) fn frequent_list(&self, now: Now) -> Stamp {
        now.stamp.max(self.list_ended.plus(self.period.shortest()))
    }

    /// When a full list may start for which somebody cannot wait.
    pub(super) fn soonest_list(&self, now: Now) -> Stamp {
        now.stamp.max(self.list_ended.plus(SHORTEST_PERIOD))
    }

    pub(super) fn start_full_list(&mut self, now: Now, out: &mut Vec<Effect>) {
        if let Some(last) = self.list_facts.last_success {
            out.push(Effect::Publish(News::Measure(Measure::RelistInterval(last.until(now.stamp)))));
        }
        // Whoever is being looked at is in the full list too.
        for (pod, look) in std::mem::take(&mut self.looks) {
            tracing::debug!(%pod, "the look at it is given up: all pods are listed instead");
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
        // One that was asked for sooner than usual proves nothing about waiting longer.
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

    /// Whether nobody knows whose these containers are: they have no labels, so only their sandbox says it, which a runtime that
    /// has just started may not remember yet.
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
            // However rare lists are, the one that confirms this one is waited for by all.
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
            // Of what is gone, an earlier list has proved it, and a word is waited for: without a proof, nothing is added.
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

        // Running pods first: after a start there may be thousands of dead ones to inspect. Else by UID: the order of
        // a hash map, or that in which a runtime lists, is not for others to see.
        let runs = |uid: &PodUid| self.records.get(uid).is_some_and(runs_something);
        changed.sort_by(|a, b| runs(b).cmp(&runs(a)).then_with(|| a.cmp(b)));
        let were_announced = changed.iter().all(|uid| self.is_announced(uid));
        for uid in changed {
            self.adopt_early_reinspect(&uid);
            self.reconcile(&uid, now, out);
            self.open_in_round(uid);
        }
        if !reconnected {
            // Who asked has waited for a list. Should the pod come yet, it is inspected because it is new.
            self.early_reinspects.retain(|_, wished| *wished > asked);
            self.weigh_announcements(Scope::All, asked, absence_is_proof, now, out);
        }
        self.stream_baseline(asked, !reconnected, now);
        // What a runtime lists right after it came back may not be all that it will remember, so it proves nothing
        // of what it does not show. This is also why such a list leaves `listed_at` alone.
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
                tracing::debug!(pod = %uid, %error, "could not look at the pod");
                self.list_no_later_than(self.frequent_list(now));
                return;
            }
        };
        self.last_look = self.last_look.max(Some(asked));
        let found = listing.pods.into_iter().find(|pod| pod.pod.uid == *uid);
        let known = self.records.contains(uid);
        let reconnected = self.epoch.is_some_and(|before| before != listing.epoch);
        if reconnected || listing.unreadable > 0 || (found.is_none() && !known) {
            // Not enough to go by: only the full list can tell what is gone, or that nobody has heard of it.
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
        // Nothing else tells the cache of a look that found nothing new.
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
