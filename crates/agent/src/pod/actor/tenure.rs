//! How long a pod has been kept running, and until when it may be.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use pleg::{Now, Stamp};

/// How long a pod has been kept running.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tenure {
    /// Since when, by this agent.
    since: Option<Stamp>,
    /// For how long before this agent.
    before: Duration,
}

impl Tenure {
    /// Notes that the pod was started at that time, by an earlier agent.
    pub(super) fn began(&mut self, started: Timestamp, now: Now) {
        let nanos = i128::from(now.wall.0) - started.as_nanosecond();
        self.before = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    }

    /// Notes that the pod is kept running from now on; returns whether it was not before.
    pub(super) fn begin(&mut self, now: Stamp) -> bool {
        let is_new = self.since.is_none();
        self.since.get_or_insert(now);
        is_new
    }

    /// Whether this agent has ever kept the pod running.
    pub(super) fn has_begun(&self) -> bool {
        self.since.is_some()
    }

    /// Until when the pod may run; `None` if that is unlimited.
    pub(super) fn deadline(&self, pod: &Pod) -> Option<Stamp> {
        let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
        let granted = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Some(self.since?.plus(granted.saturating_sub(self.before)))
    }

    /// Whether the pod has run for as long as it may.
    pub(super) fn is_over(&self, pod: &Pod, now: Stamp) -> bool {
        self.deadline(pod).is_some_and(|deadline| now >= deadline)
    }

    /// Returns `moment`, or the end of the pod's time if that comes first.
    pub(super) fn no_later(&self, moment: Stamp, pod: &Pod) -> Stamp {
        self.deadline(pod).map_or(moment, |deadline| deadline.min(moment))
    }
}

#[cfg(test)]
mod tests {
    use rubelet_model::UnixNanos;

    use super::*;
    use crate::pod::testkit;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Stamp {
        Stamp::from_nanos(seconds * SECOND)
    }

    #[test]
    fn what_a_pod_ran_before_counts_and_a_clock_that_went_back_does_not() {
        let mut limited = testkit::pod("Always", &[], &["c"]);
        limited.spec.as_mut().unwrap().active_deadline_seconds = Some(100);
        let free = testkit::pod("Always", &[], &["c"]);
        let wall = |seconds: i64| Now { stamp: at(0), wall: UnixNanos(seconds * 1_000_000_000) };
        // the time when the agent starts, for a pod that was started at 1000 → until when it may run
        for (clock, wanted) in [(1000, 107), (1060, 47), (1100, 7), (2000, 7), (900, 107)] {
            let mut tenure = Tenure::default();
            tenure.began(Timestamp::from_second(1000).unwrap(), wall(clock));
            assert_eq!(tenure.deadline(&limited), None, "not before it is kept running");
            assert!(tenure.begin(at(7)) && !tenure.begin(at(8)) && tenure.has_begun());
            assert_eq!(tenure.deadline(&limited), Some(at(wanted)), "{clock}");
            assert!(tenure.is_over(&limited, at(wanted)) && !tenure.is_over(&limited, at(wanted - 1)));
            assert_eq!(tenure.no_later(at(50), &limited), at(wanted.min(50)));
            assert_eq!((tenure.deadline(&free), tenure.no_later(at(50), &free)), (None, at(50)));
        }
    }
}
