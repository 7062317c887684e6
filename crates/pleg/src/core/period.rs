//! How often to list all pods.
//!
//! Every second, as the kubelet does, for as long as nothing else tells of changes. While the runtime announces them,
//! and every list finds only what was announced, lists become rarer. One change that nobody announced, a stream that
//! ends, or a pod that could not be inspected, and they are as frequent as before.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Period {
    shortest: Duration,
    longest: Duration,
    now: Duration,
}

impl Period {
    pub(super) fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest: longest.max(shortest), now: shortest }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn shortest(&self) -> Duration {
        self.shortest
    }

    /// Whether it changed.
    pub(super) fn grow(&mut self) -> bool {
        self.change((self.now * GROWTH).min(self.longest))
    }

    /// Whether it changed.
    pub(super) fn reset(&mut self) -> bool {
        self.change(self.shortest)
    }

    fn change(&mut self, to: Duration) -> bool {
        std::mem::replace(&mut self.now, to) != to
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
        assert!(period.reset() && period.now() == seconds(1));
        assert!(!period.reset(), "nothing changed");
        assert!(!Period::new(seconds(5), seconds(1)).grow(), "never shorter than the shortest");
    }
}
