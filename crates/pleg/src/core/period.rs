//! How often to list all pods.
//!
//! Every second, as the kubelet does, for as long as lists are the only source of changes. While the runtime announces
//! changes, and every list finds only what was announced, lists become rarer. An unannounced change, the end of the
//! stream, or a failed call makes them frequent again at once; after an unannounced change they stay frequent for a
//! while, since a stream that has missed one change may miss the next.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SHORTEST_PERIOD;

/// The factor by which the period grows after a list that found nothing unannounced.
const GROWTH: u32 = 4;

/// Why the period between full lists became longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PeriodReason {
    /// A list found only changes that had been announced.
    AllAnnounced,
    /// A list found a change that was not announced.
    Unannounced,
    /// The event stream has ended.
    NoStream,
    /// A call failed and has to be retried soon.
    CallFailed,
    /// The PLEG was stopped and restarted, and does not follow the stream yet.
    Restarted,
}

impl fmt::Display for PeriodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AllAnnounced => "the runtime announces every change",
            Self::Unannounced => "a change was found that the runtime had not announced",
            Self::NoStream => "there is no event stream",
            Self::Restarted => "observation was restarted",
            Self::CallFailed => "a list failed, or not every pod can be inspected",
        })
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Period {
    shortest: Duration,
    longest: Duration,
    now: Duration,
    /// Why the period last changed, if it ever has.
    #[serde(default)]
    reason: Option<PeriodReason>,
}

impl Period {
    /// Creates a period between these two limits. The shortest is at least [`SHORTEST_PERIOD`]: without a pause, lists
    /// would follow each other immediately.
    pub(super) fn new(shortest: Duration, longest: Duration) -> Self {
        let shortest = shortest.max(SHORTEST_PERIOD);
        Self { shortest, longest: longest.max(shortest), now: shortest, reason: None }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn shortest(&self) -> Duration {
        self.shortest
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    pub(super) fn reason(&self) -> Option<PeriodReason> {
        self.reason
    }

    /// Returns whether the period changed.
    pub(super) fn grow(&mut self) -> bool {
        self.change(self.now.saturating_mul(GROWTH).min(self.longest), PeriodReason::AllAnnounced)
    }

    /// Returns whether the period changed.
    pub(super) fn reset(&mut self, reason: PeriodReason) -> bool {
        self.change(self.shortest, reason)
    }

    fn change(&mut self, to: Duration, reason: PeriodReason) -> bool {
        let has_changed = std::mem::replace(&mut self.now, to) != to;
        if has_changed {
            self.reason = Some(reason);
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_its_limit_and_falls_at_once() {
        let seconds = Duration::from_secs;
        let mut period = Period::new(seconds(1), seconds(60));
        let grown: Vec<u64> = (0..5)
            .map(|_| {
                period.grow();
                period.now().as_secs()
            })
            .collect();
        assert_eq!(grown, [4, 16, 60, 60, 60]);
        assert!(period.reset(PeriodReason::Unannounced) && period.now() == seconds(1));
        assert!(!period.reset(PeriodReason::NoStream), "nothing changed");
        assert_eq!(period.reason(), Some(PeriodReason::Unannounced));
        assert!(!Period::new(seconds(5), seconds(1)).grow(), "never shorter than the shortest");
    }

    #[test]
    fn neither_none_at_all_nor_for_ever_is_too_much() {
        assert_eq!(Period::new(Duration::ZERO, Duration::ZERO).now(), SHORTEST_PERIOD);
        let mut for_ever = Period::new(Duration::MAX, Duration::MAX);
        assert!(!for_ever.grow() && for_ever.now() == Duration::MAX);
    }
}
