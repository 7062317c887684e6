//! Looks that are not answered.
//!
//! While a look is waited for, nobody looks at its pod again. So it is waited for no longer than the next list of all pods
//! would be without announcements: then all are listed, and the look is given up. Who has to be seen that way is remembered
//! for a while, since nothing else shows it: the list is answered, and all seems well.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use super::{Core, FullList};
use crate::clock::Stamp;
use crate::health::HungLook;
use crate::progress::{CallInFlight, Stage};

/// For how long it is worth telling that a look was given up, if nobody looks again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The looks at one pod since the last that was answered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Silence {
    /// When the first of them was asked for.
    since: Stamp,
    /// For how long they were waited for, one after the other. A list that was due anyway may give up a look that has just begun,
    /// and no single one tells.
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
    /// When the next list of all pods is due, if none is under way.
    pub(super) fn list_due(&self) -> Option<Stamp> {
        let FullList::DueAt(due) = self.full_list else { return None };
        let oldest_look = self.looks.values().map(|look| look.at).min();
        let is_late = oldest_look.map(|asked| asked.plus(self.period.shortest()));
        Some(is_late.map_or(due, |late| late.min(due)))
    }

    /// The pods of which looks are not answered, longest first.
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
