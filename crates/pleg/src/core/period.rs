//! How often to list all pods.
//!
//! Every second, as the kubelet does, for as long as nothing else tells of changes. While the runtime announces them,
//! and every list finds only what was announced, lists become rarer. One change that nobody announced, a stream that
//! ends, or a pod that could not be inspected, and they are as frequent as before; after a change that nobody announced, for
//! a while: whoever missed one may miss the next.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SHORTEST_PERIOD;

/// How much longer the next period is after a list that found nothing new.
const GROWTH: u32 = 4;

/// Why lists became more or less frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PeriodReason {
    /// A list found nothing that had not been announced.
    AllAnnounced,
    /// A list found something that had not been announced.
    Unannounced,
    /// There is no event stream any more.
    NoStream,
    /// A call failed, and must be made again soon.
    CallFailed,
    /// The PLEG was stopped and started again, and has yet to follow the stream.
    Restarted,
}

impl fmt::Display for PeriodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AllAnnounced => "the runtime announces every change",
            Self::Unannounced => "a change was found that the runtime had not announced",
            Self::NoStream => "there is no event stream",
            Self::Restarted => "observation has begun anew",
            Self::CallFailed => "a list failed, or not every pod can be inspected",
        })
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Period {
    shortest: Duration,
    longest: Duration,
    now: Duration,
    /// Why it is so, once it has changed.
    #[serde(default)]
    reason: Option<PeriodReason>,
}

impl Period {
    /// Between these two; shorter than [`SHORTEST_PERIOD`] would be without a pause, whoever asks for it.
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

    /// Whether it changed.
    pub(super) fn grow(&mut self) -> bool {
        self.change(self.now.saturating_mul(GROWTH).min(self.longest), PeriodReason::AllAnnounced)
    }

    /// Whether it changed.
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
