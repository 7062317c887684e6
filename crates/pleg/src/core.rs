//! The PLEG as a pure state machine: an input and a moment go in, effects come out.
//!
//! It does not wait, read a clock or talk to anyone, so any history can be played to it, and the same history
//! always gives the same effects. What it decides:
//!
//! - *when to list*: all pods every period, one pod when somebody asks. Lists never overlap in effect: a list
//!   of all supersedes the looks at single pods that are under way, and no look starts while it runs. A view is
//!   thus never older than one that was applied before it;
//! - *whom to inspect*: whoever changed, in parallel, within the limits of [`Config`];
//! - *what to publish*: the cache entry first, then its events, then the time as of which everything is known.
//!   A pod that is not settled is *held*: the global time does not vouch for it, so the others need not wait.

mod config;
mod protocol;
mod tally;
mod telling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use rubelet_model::{ContainerState, PodStatus, PodUid, RuntimePod, SandboxState};

use telling::Telling;

pub use config::Config;
pub use protocol::{Effect, Input, Measure};
pub use tally::Tally;

use crate::clock::{Now, Stamp};
use crate::event::Trigger;
use crate::health::{ListFacts, PodFacts};
use crate::lanes::{LaneLimits, Lanes};
use crate::observe::{Listing, ObserveError};
use crate::records::{Inspection, Latest, Record, Snapshot, Trouble};

#[derive(Debug)]
enum FullList {
    DueAt(Stamp),
    InFlight { asked: Stamp },
}

/// A full list, with the pods that it wants inspected and that have not been yet.
#[derive(Debug)]
struct Round {
    started: Stamp,
    succeeded: bool,
    open: BTreeSet<PodUid>,
}

/// The least time between two full lists, even if somebody cannot wait for the next one.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// The state machine.
#[derive(Debug)]
pub struct Core {
    config: Config,
    records: HashMap<PodUid, Record>,
    full_list: FullList,
    /// Looks under way, by when they were asked for.
    looks: BTreeMap<PodUid, Stamp>,
    /// Looks wanted, by when somebody asked.
    nudges: BTreeMap<PodUid, Stamp>,
    /// Asked for before the pod had a record.
    early_reinspects: BTreeMap<PodUid, Stamp>,
    lanes: Lanes,
    /// Rounds that have not ended, oldest first. A pod is in one at most, so there are no more of them than pods.
    rounds: VecDeque<Round>,
    /// The connection that answered the last full list.
    epoch: Option<u64>,
    /// It was the first over its connection, and the next one has yet to agree.
    unconfirmed: bool,
    /// When the last full list was answered.
    list_ended: Stamp,
    list_number: u64,
    last_ticket: u64,
    last_seq: u64,
    list_facts: ListFacts,
    last_inspection: Option<Stamp>,
}

impl Core {
    /// A PLEG that knows nothing and lists at once.
    #[must_use]
    pub fn new(config: Config, now: Stamp) -> Self {
        Self {
            config,
            records: HashMap::default(),
            full_list: FullList::DueAt(now),
            looks: BTreeMap::new(),
            nudges: BTreeMap::new(),
            early_reinspects: BTreeMap::new(),
            lanes: Lanes::new(LaneLimits {
                fast: config.inspect_limit.max(1),
                slow: config.slow_limit.max(1),
                slow_after: config.slow_after,
            }),
            rounds: VecDeque::new(),
            epoch: None,
            unconfirmed: false,
            list_ended: Stamp::ZERO,
            list_number: 0,
            last_ticket: 0,
            last_seq: 0,
            list_facts: ListFacts::default(),
            last_inspection: None,
        }
    }

    /// Takes one input and says what to do about it.
    #[must_use]
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            Input::Tick => {}
            Input::Listed { asked, answer } => self.listed(asked, answer, now, &mut out),
            Input::Looked { pod, asked, answer } => self.looked(&pod, asked, answer, now, &mut out),
            Input::Inspected { pod, ticket, answer } => self.inspected(&pod, ticket, answer, now, &mut out),
            Input::Nudge { pod, at } => self.nudge(pod, at),
            Input::Reinspect { pod, at } => self.reinspect(pod, at),
            Input::Interrupted => {
                self.interrupted(now);
                return out;
            }
        }
        self.start_lists(now, &mut out);
        self.start_inspections(now, &mut out);
        out
    }

    /// When [`Input::Tick`] has something to do, if ever.
    #[must_use]
    pub fn next_tick(&self) -> Option<Stamp> {
        let list = match self.full_list {
            FullList::DueAt(due) => Some(due),
            FullList::InFlight { .. } => None,
        };
        list.into_iter().chain(self.lanes.next_demotion()).min()
    }

    /// How the listing of all pods goes.
    #[must_use]
    pub fn list_facts(&self) -> &ListFacts {
        &self.list_facts
    }

    /// When the last inspection that succeeded was begun.
    #[must_use]
    pub fn last_inspection(&self) -> Option<Stamp> {
        self.last_inspection
    }

    /// The pods whose inspection fails, or has been under way for longer than it should.
    #[must_use]
    pub fn troubled_pods(&self, now: Stamp) -> Vec<PodFacts> {
        self.records.values().filter_map(|record| self.trouble_of(record, now)).collect()
    }

    /// How many pods are known.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.records.len()
    }

    /// How many inspections are under way.
    #[must_use]
    pub fn inspections_in_flight(&self) -> usize {
        self.lanes.in_flight()
    }

    /// The list view of a pod that the last good inspection was made of.
    #[must_use]
    pub fn committed(&self, pod: &PodUid) -> Option<&RuntimePod> {
        self.records.get(pod)?.committed().map(Arc::as_ref)
    }

    fn trouble_of(&self, record: &Record, now: Stamp) -> Option<PodFacts> {
        let waiting_since = match &record.inspection {
            Inspection::InFlight { started: since, .. } | Inspection::Queued { since }
                if since.plus(self.config.slow_after) <= now =>
            {
                Some(*since)
            }
            Inspection::InFlight { .. } | Inspection::Queued { .. } | Inspection::Idle => None,
        };
        let trouble = record.trouble.as_deref();
        if waiting_since.is_none() && trouble.is_none() {
            return None;
        }
        let since = trouble.map(|trouble| trouble.since).into_iter().chain(waiting_since).min()?;
        Some(PodFacts {
            pod: record.pod.clone(),
            since,
            failures: trouble.map_or(0, |trouble| trouble.failures),
            last_error: trouble.map(|trouble| trouble.last_error.clone()),
        })
    }

    // === requests ===

    fn nudge(&mut self, pod: PodUid, at: Stamp) {
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

    fn reinspect(&mut self, pod: PodUid, at: Stamp) {
        match self.records.get_mut(&pod) {
            Some(record) => record.reinspect = record.reinspect.max(Some(at)),
            None => {
                self.early_reinspects.insert(pod, at);
            }
        }
    }

    fn interrupted(&mut self, now: Now) {
        self.full_list = FullList::DueAt(now.stamp);
        self.looks.clear();
        self.lanes.clear();
        self.rounds.clear();
        for record in self.records.values_mut() {
            record.inspection = Inspection::Idle;
        }
    }

    // === lists ===

    /// Starts the full list when it is due, else the looks that were asked for.
    fn start_lists(&mut self, now: Now, out: &mut Vec<Effect>) {
        let FullList::DueAt(mut due) = self.full_list else { return };
        let too_many = self.nudges.len() > self.config.look_limit;
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
            let record = self.records.get(*pod);
            !self.looks.contains_key(*pod) && record.is_none_or(Record::is_selectable)
        };
        let startable: Vec<PodUid> = self.nudges.keys().filter(is_startable).cloned().collect();
        for pod in startable {
            self.nudges.remove(&pod);
            self.looks.insert(pod.clone(), now.stamp);
            out.push(Effect::Look { pod, asked: now.stamp });
        }
    }

    /// When a full list may start for which somebody cannot wait.
    fn soonest_list(&self, now: Now) -> Stamp {
        now.stamp.max(self.list_ended.plus(SHORTEST_PERIOD))
    }

    fn start_full_list(&mut self, now: Now, out: &mut Vec<Effect>) {
        if let Some(last) = self.list_facts.last_success {
            out.push(Effect::Measure(Measure::RelistInterval(last.until(now.stamp))));
        }
        // Whoever is being looked at is in the full list too.
        self.looks.clear();
        self.nudges.clear();
        self.full_list = FullList::InFlight { asked: now.stamp };
        out.push(Effect::List { asked: now.stamp });
    }

    fn listed(
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
        self.full_list = FullList::DueAt(now.stamp.plus(self.config.relist_period));
        self.list_ended = now.stamp;
        self.rounds.push_back(Round { started: asked, succeeded: answer.is_ok(), open: BTreeSet::new() });
        match answer {
            Ok(listing) => {
                self.list_facts.succeeded(asked, listing.unreadable);
                self.apply_full_list(listing, asked, now, out);
            }
            Err(error) => self.list_facts.failed(now.stamp, error),
        }
        self.finish_rounds(now, out);
    }

    fn apply_full_list(&mut self, listing: Listing, asked: Stamp, now: Now, out: &mut Vec<Effect>) {
        let reconnected = self.epoch.is_some_and(|before| before != listing.epoch);
        let absence_is_proof = !reconnected && listing.unreadable == 0;
        self.epoch = Some(listing.epoch);
        self.unconfirmed = reconnected;
        self.list_number += 1;
        let mut tally = Tally::default();
        let mut changed = Vec::new();
        for pod in listing.pods {
            // Nearly all are known, so this is a look-up; `entry` would clone the key.
            let record = match self.records.get_mut(&pod.pod.uid) {
                Some(record) => record,
                None => {
                    self.records.entry(pod.pod.uid.clone()).or_insert_with(|| Record::new(pod.pod.clone()))
                }
            };
            record.named_by = self.list_number;
            tally += record.tally(&pod);
            if !reconnected {
                record.listed_at = asked;
            }
            if record.is_quiet() && record.confirms_committed(&pod) {
                continue;
            }
            let completed = if absence_is_proof { None } else { record.with_missing(&pod) };
            record.parts_missing = completed.is_some();
            changed.push(pod.pod.uid.clone());
            let pod = completed.map_or(pod, Arc::new);
            let snapshot = Snapshot { pod, asked: record.listed_at, trigger: Trigger::Relist };
            record.latest = Latest::Listed(Arc::new(snapshot));
        }
        let mut missing = Vec::new();
        for (uid, record) in &mut self.records {
            if record.named_by == self.list_number {
                continue;
            }
            if !reconnected {
                record.listed_at = asked;
            }
            record.parts_missing = !absence_is_proof;
            if absence_is_proof {
                record.latest = Latest::Gone(Trigger::Relist);
            }
            missing.push(uid.clone());
        }
        changed.append(&mut missing);
        if !reconnected {
            out.push(Effect::Measure(Measure::Running(tally)));
        }

        // Running pods first: after a start there may be thousands of dead ones to inspect. Else by UID: the order of
        // a hash map, or that in which a runtime lists, is not for others to see.
        let runs = |uid: &PodUid| self.records.get(uid).is_some_and(runs_something);
        changed.sort_by(|a, b| runs(b).cmp(&runs(a)).then_with(|| a.cmp(b)));
        for uid in changed {
            self.adopt_early_reinspect(&uid);
            self.reconcile(&uid, now, out);
            self.open_in_round(uid);
        }
        // What a runtime lists right after it came back may not be all that it will remember, so it proves nothing
        // of what it does not show. This is also why such a list leaves `listed_at` alone.
        if !reconnected {
            out.push(Effect::Advance { asked, proves_absence: absence_is_proof });
        }
    }

    fn looked(
        &mut self,
        uid: &PodUid,
        asked: Stamp,
        answer: Result<Listing, ObserveError>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        if self.looks.get(uid) != Some(&asked) {
            return;
        }
        self.looks.remove(uid);
        let listing = match answer {
            Ok(listing) => listing,
            Err(error) => {
                tracing::debug!(pod = %uid, %error, "could not look at the pod");
                return;
            }
        };
        let found = listing.pods.into_iter().find(|pod| pod.pod.uid == *uid);
        let known = self.records.contains_key(uid);
        let reconnected = self.epoch.is_some_and(|before| before != listing.epoch);
        if reconnected || listing.unreadable > 0 || (found.is_none() && !known) {
            // Not enough to go by: only the full list can tell what is gone, or that nobody has heard of it.
            self.full_list = FullList::DueAt(self.soonest_list(now));
            return;
        }
        let record = match &found {
            Some(pod) => self.records.entry(uid.clone()).or_insert_with(|| Record::new(pod.pod.clone())),
            None => match self.records.get_mut(uid) {
                Some(record) => record,
                None => return,
            },
        };
        record.listed_at = asked;
        record.looked_since.get_or_insert(asked);
        record.parts_missing = false;
        record.latest = match found {
            Some(pod) => Latest::Listed(Arc::new(Snapshot { pod, asked, trigger: Trigger::Nudge })),
            None => Latest::Gone(Trigger::Nudge),
        };
        // Nothing else tells the cache of a look that found nothing new.
        record.held = true;
        out.push(Effect::Hold { pod: uid.clone() });
        self.adopt_early_reinspect(uid);
        self.reconcile(uid, now, out);
    }

    fn adopt_early_reinspect(&mut self, uid: &PodUid) {
        if let Some(at) = self.early_reinspects.remove(uid)
            && let Some(record) = self.records.get_mut(uid)
        {
            record.reinspect = Some(at);
        }
    }

    // === pods ===

    /// Compares the newest view of a pod with the committed one, and wants it inspected if they differ.
    fn reconcile(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        match &record.latest {
            Latest::Gone(trigger) => {
                let trigger = *trigger;
                self.remove(uid, trigger, now, out);
                return;
            }
            Latest::Listed(snapshot) => {
                let in_flight = matches!(record.inspection, Inspection::InFlight { .. });
                if record.reinspect.is_none() && !in_flight && record.confirms_committed(&snapshot.pod) {
                    record.latest = Latest::AsCommitted;
                }
            }
            Latest::AsCommitted => {}
        }
        let mut was_withdrawn = false;
        let settled = matches!(record.latest, Latest::AsCommitted)
            && record.reinspect.is_none()
            && !matches!(record.inspection, Inspection::InFlight { .. });
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

    fn remove(&mut self, uid: &PodUid, trigger: Trigger, now: Now, out: &mut Vec<Effect>) {
        let Some(mut record) = self.records.remove(uid) else { return };
        out.extend(record.end_look(now.stamp));
        match record.inspection {
            Inspection::InFlight { ticket, .. } => {
                out.push(Effect::Abandon { pod: uid.clone(), ticket });
                self.lanes.finish(uid);
            }
            Inspection::Queued { .. } => self.lanes.withdraw(uid),
            Inspection::Idle => {}
        }
        self.close_in_round(uid, now, out);
        out.push(Effect::Forget { pod: uid.clone() });
        let changes = record.changes(None);
        let telling = Telling { pod: &record.pod, trigger, status: None, before: &record.status };
        self.tell(&telling, changes, record.reinspect.is_some(), now, out);
        if record.held {
            out.push(Effect::Settle { pod: uid.clone(), asked: record.listed_at });
        }
    }

    fn start_inspections(&mut self, now: Now, out: &mut Vec<Effect>) {
        for slow in self.lanes.demote_slow(now.stamp) {
            self.close_in_round(&slow, now, out);
        }
        while let Some(uid) = self.lanes.start_next(now.stamp) {
            let Some(record) = self.records.get_mut(&uid) else {
                self.lanes.finish(&uid);
                continue;
            };
            let snapshot = match &record.latest {
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

    fn inspected(
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
            Ok(status) => self.commit(uid, snapshot, started, status, now, out),
            Err(error) => {
                record.reinspect = record.reinspect.or(Some(Stamp::ZERO));
                let trouble = record.trouble.get_or_insert_with(|| {
                    Box::new(Trouble { since: started, failures: 0, last_error: error.clone() })
                });
                trouble.failures += 1;
                trouble.last_error = error.clone();
                out.extend(record.end_look(now.stamp));
                out.push(Effect::Store { pod: uid.clone(), status: Err(error), asked: snapshot.asked });
            }
        }
        self.close_in_round(uid, now, out);
    }

    fn commit(
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
        let changes = record.changes(Some(&snapshot.pod));
        // A wish that came after the inspection had begun is not fulfilled by it.
        let asked_for = record.reinspect.take_if(|at| *at <= started).is_some();
        let (asked, trigger) = (snapshot.asked, snapshot.trigger);
        if matches!(&record.latest, Latest::Listed(latest) if Arc::ptr_eq(latest, &snapshot)) {
            record.latest = Latest::AsCommitted;
        }
        record.commit(snapshot, status.clone());
        let pod = record.pod.clone();
        out.push(Effect::Store { pod: uid.clone(), status: Ok(status.clone()), asked });
        let telling = Telling { pod: &pod, trigger, status: Some(&status), before: &before };
        self.tell(&telling, changes, asked_for, now, out);
        self.reconcile(uid, now, out);
    }

    // === rounds ===

    /// The newest round ends no sooner than this pod has been inspected, if it is to be.
    fn open_in_round(&mut self, uid: PodUid) {
        let is_idle =
            self.records.get(&uid).is_none_or(|record| matches!(record.inspection, Inspection::Idle));
        if is_idle || self.rounds.iter().any(|round| round.open.contains(&uid)) {
            return;
        }
        if let Some(round) = self.rounds.back_mut() {
            round.open.insert(uid);
        }
    }

    /// No round waits for this pod any longer: it was inspected, or is gone, or has turned out to be slow.
    fn close_in_round(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        for round in &mut self.rounds {
            round.open.remove(uid);
        }
        self.finish_rounds(now, out);
    }

    /// Rounds end in order, so that the end of one says that all before it have ended.
    fn finish_rounds(&mut self, now: Now, out: &mut Vec<Effect>) {
        while self.rounds.front().is_some_and(|round| round.open.is_empty()) {
            if let Some(round) = self.rounds.pop_front() {
                let took = round.started.until(now.stamp);
                let asked = round.succeeded.then_some(round.started);
                out.push(Effect::Measure(Measure::Relist { took, asked }));
            }
        }
    }
}

fn runs_something(record: &Record) -> bool {
    let Latest::Listed(snapshot) = &record.latest else { return false };
    snapshot.pod.containers.iter().any(|container| container.state == ContainerState::Running)
        || snapshot.pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
}

#[cfg(test)]
mod harness;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;
