//! The PLEG as a pure state machine: an input and a moment go in, effects come out.
//!
//! It does not wait, read a clock or talk to anyone, so any history can be played to it, and the same history always
//! gives the same effects. It decides:
//!
//! - *when to list*: all pods in every period, and a single pod if there is a hint. Lists never overlap in effect: a
//!   full list supersedes the looks in progress, and no look starts while it runs. So no view is older than one that
//!   was applied before it;
//! - *what to inspect*: every pod that has changed, in parallel, within the limits of [`Config`];
//! - *what to publish*: the cache entry first, then its events, then the global time. A pod that is not settled is
//!   *held*: the global time does not vouch for it, so the other pods need not wait for it.

mod agenda;
mod config;
mod doubt;
mod graves;
mod lists;
mod period;
mod pods;
mod protocol;
#[cfg(feature = "record")]
mod replayed;
mod rounds;
mod silence;
mod stream;
mod tally;
mod telling;
mod wishes;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rubelet_model::{PodRef, PodUid};
use serde::{Deserialize, Serialize};

use agenda::{Agenda, Task};
use period::Period;
use rounds::Round;
use silence::Silences;
use stream::Announced;
use wishes::Wish;

pub use config::Config;
pub use period::PeriodReason;
pub(crate) use protocol::{Ask, Effect, Input, Measure, News};
pub(crate) use tally::Tally;

use crate::clock::{Now, Stamp};
use crate::event::Trigger;
use crate::health::{Health, ListFacts, PodFacts};
use crate::lanes::{LaneLimits, Lanes};
use crate::progress::{CallInFlight, Stage};
use crate::records::{Inspection, Record, Register};
use crate::stream_facts::StreamFacts;

#[derive(Debug, Serialize, Deserialize)]
enum FullList {
    DueAt(Stamp),
    InFlight { asked: Stamp },
}

/// The shortest time between two full lists, even if somebody cannot wait for the next one.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// The state machine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Core {
    config: Config,
    records: Register,
    full_list: FullList,
    /// When the list after the one in progress is wanted, if that is sooner than a period later.
    list_wanted: Option<Stamp>,
    period: Period,
    announced: Announced,
    agenda: Agenda,
    /// The looks in progress; `at` is when they were requested.
    looks: BTreeMap<PodUid, Wish>,
    /// The looks that were given up because they got no answer.
    #[serde(default)]
    silences: Silences,
    /// The looks that are wanted; `at` is when they were asked for.
    nudges: BTreeMap<PodUid, Wish>,
    /// Reinspections that were asked for before the pod had a record, and since the last full list.
    early_reinspects: BTreeMap<PodUid, Stamp>,
    lanes: Lanes,
    /// The rounds that have not ended, oldest first. A pod is in at most one of them, so there are never more rounds
    /// than pods.
    rounds: VecDeque<Round>,
    /// The number of the connection that answered the last full list.
    epoch: Option<u64>,
    /// The last full list was the first one after a reconnect, so the next one has to confirm it.
    unconfirmed: bool,
    /// When the last full list was answered.
    list_ended: Stamp,
    list_number: u64,
    last_ticket: u64,
    last_seq: u64,
    list_facts: ListFacts,
    /// When the last successful look was requested.
    #[serde(default)]
    last_look: Option<Stamp>,
    last_inspection: Option<Stamp>,
    /// Corrections name no container, as in recordings of earlier versions.
    #[serde(skip)]
    corrections_are_bare: bool,
}

impl Core {
    /// The number of pods that it has a record of.
    #[cfg(feature = "record")]
    pub(crate) fn pods(&self) -> usize {
        self.records.len()
    }

    /// Creates a PLEG that knows nothing and lists at once.
    #[must_use]
    pub(crate) fn new(config: Config, now: Stamp) -> Self {
        Self {
            config,
            records: Register::default(),
            full_list: FullList::DueAt(now),
            list_wanted: None,
            period: Period::new(config.relist_period, config.longest_period),
            announced: Announced::default(),
            agenda: Agenda::default(),
            looks: BTreeMap::new(),
            silences: Silences::default(),
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
            last_look: None,
            last_inspection: None,
            corrections_are_bare: false,
        }
    }

    /// Takes one input, and returns what is to be done about it.
    #[must_use]
    pub(crate) fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            // A step of its own, so that a postponed task never looks like the effect of a list or a look.
            Input::Tick => self.keep_agenda(now, &mut out),
            Input::Listed { asked, answer } => self.listed(asked, answer, now, &mut out),
            Input::Looked { pod, asked, answer } => self.looked(&pod, asked, answer, now, &mut out),
            Input::Inspected { pod, ticket, answer } => self.inspected(&pod, ticket, answer, now, &mut out),
            Input::Nudge { pod, at } => self.nudge(pod, at, Trigger::Nudge),
            Input::Reinspect { pod, at } => self.reinspect(pod, at, now),
            Input::Awaited => self.list_no_later_than(self.frequent_list(now)),
            Input::StreamOpened => self.stream_opened(now),
            Input::StreamEnded(error) => self.stream_ended(error, now, &mut out),
            Input::Announced { announcements, at } => self.announcements(announcements, at, now),
            Input::Interrupted => {
                self.interrupted(now, &mut out);
                return out;
            }
        }
        self.expire_suspects(now, &mut out);
        self.start_lists(now, &mut out);
        self.start_inspections(now, &mut out);
        out
    }

    /// When the next [`Input::Tick`] has something to do, if ever.
    #[must_use]
    pub(crate) fn next_tick(&self) -> Option<Stamp> {
        let all =
            [self.list_due(), self.lanes.next_demotion(), self.announced.next_tick(), self.agenda.next()];
        all.into_iter().flatten().min()
    }

    /// Statistics of the event stream.
    #[must_use]
    pub(crate) fn stream_facts(&self) -> &StreamFacts {
        &self.announced.facts
    }

    /// The current period: the time from the end of one full list to the start of the next.
    #[must_use]
    pub(crate) fn period(&self) -> Duration {
        self.period.now()
    }

    /// Why the period last changed, if it ever has.
    #[must_use]
    pub(crate) fn period_reason(&self) -> Option<PeriodReason> {
        self.period.reason()
    }

    /// The pods whose inspection fails, or has been in progress for longer than it should.
    #[must_use]
    pub(crate) fn troubled_pods(&self, now: Stamp) -> Vec<PodFacts> {
        self.records.values().filter_map(|record| self.trouble_of(record, now)).collect()
    }

    /// The number of known pods.
    #[must_use]
    pub(crate) fn pod_count(&self) -> usize {
        self.records.len()
    }

    /// A reference to the pod with this key, with its names if they are known.
    #[must_use]
    pub(crate) fn named(&self, pod: &PodUid) -> PodRef {
        self.records.get(pod).map_or_else(|| PodRef::new(pod.clone(), "", ""), |record| record.pod.clone())
    }

    /// The number of inspections in progress.
    #[must_use]
    pub(crate) fn inspections_in_flight(&self) -> usize {
        self.lanes.in_flight()
    }

    /// Does what was postponed until now.
    fn keep_agenda(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some((pod, task)) = self.agenda.take_due(now.stamp) {
            match task {
                Task::Look => self.nudge(pod, now.stamp, Trigger::Event),
                Task::LookSince(wanted) => {
                    if self.looks.get(&pod).is_none_or(|look| look.at < wanted) {
                        self.nudge(pod, wanted, Trigger::Event);
                    }
                }
                Task::Inspect => self.inspect_again(&pod, now, out),
                Task::Believe => self.believe(&pod, now, out),
            }
        }
    }

    /// The health at this moment, with these calls in progress.
    #[must_use]
    pub(crate) fn health(&self, calls: &[(Stage, CallInFlight)], now: Stamp) -> Health {
        let pods = self.troubled_pods(now);
        let health = Health::assess(&self.list_facts, pods, calls, &self.config, now);
        Health {
            last_look: self.last_look.map(|asked| asked.until(now)),
            last_inspection: self.last_inspection.map(|begun| begun.until(now)),
            hung_looks: self.hung_looks(calls, now),
            waiting_pods: self.records.values().filter(|record| self.waits_long(record, now)).count(),
            ..health
        }
    }

    /// Whether all that is wrong with a pod is that it has waited long for its turn.
    fn waits_long(&self, record: &Record, now: Stamp) -> bool {
        let Inspection::Queued { since } = &record.inspection else { return false };
        record.trouble.is_none() && since.plus(self.config.slow_after) <= now
    }

    fn trouble_of(&self, record: &Record, now: Stamp) -> Option<PodFacts> {
        let waiting_since = match &record.inspection {
            Inspection::InFlight { started, .. } if started.plus(self.config.slow_after) <= now => {
                Some(*started)
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
            last_success: record.last_success,
            failures: trouble.map_or(0, |trouble| trouble.failures),
            last_error: trouble.map(|trouble| trouble.last_error.clone()),
        })
    }
}

#[cfg(test)]
mod harness;
#[cfg(test)]
mod look_scenarios;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod report_scenarios;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod stream_scenarios;
