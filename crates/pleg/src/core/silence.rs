//! Looks that get no answer.
//!
//! While a look is in progress, its pod is not looked at again. So a look is waited for no longer than the time to the
//! next full list would be without announcements: then all pods are listed, and the look is given up. The pods
//! concerned are remembered for a while, since nothing else shows the problem: the list is answered, and all seems
//! well.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use super::{Core, FullList};
use crate::clock::Stamp;
use crate::health::HungLook;
use crate::progress::{CallInFlight, Stage};

/// For how long a look that was given up is worth reporting, if nobody looks again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The looks at one pod since the last one that was answered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Silence {
    /// When the first of them was requested.
    since: Stamp,
    /// How long they were waited for in total. A list that was due anyway may give up a look that has just begun, so
    /// the time of a single look says little.
    waited: Duration,
    given_up: u64,
    /// When the last of them was given up.
    last: Stamp,
}

/// The pods whose looks were given up.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Silences(BTreeMap<PodUid, Silence>);

impl Silences {
    pub(super) fn given_up(&mut self, pod: PodUid, asked: Stamp, now: Stamp) {
        self.0.retain(|_, silence| silence.is_news(now));
        let silence = self.0.entry(pod).or_insert_with(|| Silence::from(asked));
        silence.waited += asked.until(now);
        silence.given_up += 1;
        silence.last = now;
    }

    pub(super) fn answered(&mut self, pod: &PodUid) {
        self.0.remove(pod);
    }
}

impl Silence {
    fn from(asked: Stamp) -> Self {
        Self { since: asked, waited: Duration::ZERO, given_up: 0, last: asked }
    }

    fn is_news(&self, now: Stamp) -> bool {
        now < self.last.plus(REMEMBERED)
    }
}

impl Core {
    /// When the next full list is due, if none is in progress.
    pub(super) fn list_due(&self) -> Option<Stamp> {
        let FullList::DueAt(due) = self.full_list else { return None };
        let oldest_look = self.looks.values().map(|look| look.at).min();
        let is_late = oldest_look.map(|asked| asked.plus(self.period.shortest()));
        Some(is_late.map_or(due, |late| late.min(due)))
    }

    /// The pods whose looks get no answer, longest first.
    pub(super) fn hung_looks(&self, calls: &[(Stage, CallInFlight)], now: Stamp) -> Vec<HungLook> {
        let given_up = self.silences.0.iter().filter(|(_, silence)| silence.is_news(now));
        let mut silences: BTreeMap<&PodUid, Silence> =
            given_up.map(|(pod, silence)| (pod, *silence)).collect();
        for (pod, look) in &self.looks {
            let silence = silences.entry(pod).or_insert_with(|| Silence::from(look.at));
            silence.waited += look.at.until(now);
        }
        let mut looks: Vec<HungLook> = silences
            .into_iter()
            .filter(|(_, silence)| silence.waited >= self.config.slow_after)
            .map(|(pod, silence)| HungLook {
                pod: self.named(pod),
                age: silence.since.until(now),
                call: calls
                    .iter()
                    .find(|(stage, _)| matches!(stage, Stage::Look(of) if of == pod))
                    .map(|(_, call)| call.report(now)),
                given_up: silence.given_up,
            })
            .collect();
        looks.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.pod.cmp(&b.pod)));
        looks
    }
}
