//! When probes are due. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use pleg::{Now, Stamp};
use rubelet_model::UnixNanos;

use super::course::Kind;

/// The timing of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) initial_delay: Duration,
    pub(super) period: Duration,
    pub(super) timeout: Duration,
}

impl Pace {
    pub(super) fn of(probe: &Probe) -> Self {
        let seconds = |value: Option<i32>, default: u64, least: u64| {
            let value = value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value >= least);
            Duration::from_secs(value.unwrap_or(default))
        };
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0, 0),
            period: seconds(probe.period_seconds, 10, 1),
            timeout: seconds(probe.timeout_seconds, 1, 1),
        }
    }

    /// Returns how much longer a container of this age is left alone. In its first period it is assumed to be alive, so
    /// the liveness probe does not ask.
    pub(super) fn delay_left(&self, kind: Kind, age: Duration) -> Duration {
        let left_alone = match kind {
            Kind::Liveness => self.initial_delay.max(self.period),
            Kind::Startup | Kind::Readiness => self.initial_delay,
        };
        left_alone.saturating_sub(age)
    }

    /// Returns how much longer a container of this age need not have started. It is asked from the beginning, since it
    /// may have; but it has `failureThreshold` full periods to start, and the first question comes before the first of
    /// them.
    pub(super) fn indulgence_left(&self, age: Duration) -> Duration {
        self.period.saturating_sub(age)
    }

    /// Returns how long to delay the first round. A restarted agent finds many containers at once, so their probes
    /// start at random moments of their first period, `fraction` of it. Containers that the agent starts itself are
    /// spread out already, and are not delayed.
    pub(super) fn spread(&self, uptime: Duration, was_found: bool, fraction: f64) -> Duration {
        if was_found && self.period > uptime { self.period.mul_f64(fraction) } else { Duration::ZERO }
    }

    /// Returns when the next round is due, after one that was due at `due` and ended `now`. A round that takes longer
    /// than the period is followed immediately by the next one; rounds never pile up.
    pub(super) fn next(&self, due: Stamp, now: Stamp) -> Stamp {
        due.plus(self.period).max(now)
    }
}

/// Returns how long a container has been running. The runtime's clock is trusted only within the agent's own
/// observations: a container that was not running yet at `unseen_until` cannot be older than that.
pub(super) fn age(started_at: UnixNanos, unseen_until: Option<Stamp>, now: Now) -> Duration {
    let by_runtime = if started_at.is_set() {
        Duration::from_nanos(u64::try_from(now.wall.0.saturating_sub(started_at.0)).unwrap_or(0))
    } else {
        Duration::ZERO
    };
    unseen_until.map_or(by_runtime, |unseen| by_runtime.min(unseen.until(now.stamp)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Stamp {
        Stamp::from_nanos(seconds * SECOND)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn fields_have_the_defaults_of_the_api() {
        let read = |delay, period, timeout| {
            let probe = Probe {
                initial_delay_seconds: delay,
                period_seconds: period,
                timeout_seconds: timeout,
                ..Probe::default()
            };
            let Pace { initial_delay, period, timeout } = Pace::of(&probe);
            (initial_delay.as_secs(), period.as_secs(), timeout.as_secs())
        };
        assert_eq!(read(None, None, None), (0, 10, 1));
        assert_eq!(read(Some(0), Some(0), Some(0)), (0, 10, 1));
        assert_eq!(read(Some(5), Some(2), Some(3)), (5, 2, 3));
        assert_eq!(read(Some(-5), Some(-2), Some(-3)), (0, 10, 1));
    }

    #[test]
    fn only_what_was_found_by_a_young_agent_is_spread() {
        let pace = Pace { initial_delay: Duration::ZERO, period: seconds(10), timeout: seconds(1) };
        // uptime, found → delay, for a fraction of 0.5
        let table = [(0, true, 5), (9, true, 5), (10, true, 0), (600, true, 0), (0, false, 0)];
        for (uptime, was_found, wanted) in table {
            assert_eq!(pace.spread(seconds(uptime), was_found, 0.5), seconds(wanted), "{uptime} {was_found}");
        }
    }

    #[test]
    fn rounds_keep_their_rhythm_and_never_pile_up() {
        let pace = Pace { initial_delay: Duration::ZERO, period: seconds(10), timeout: seconds(1) };
        // due, ended → next
        let table = [(100, 100, 110), (100, 104, 110), (100, 110, 110), (100, 137, 137)];
        for (due, ended, wanted) in table {
            assert_eq!(pace.next(at(due), at(ended)), at(wanted), "{due} {ended}");
        }
    }

    #[test]
    fn a_container_is_left_alone_for_its_delay_counted_from_its_start() {
        let pace = Pace { initial_delay: seconds(30), period: seconds(10), timeout: seconds(1) };
        let now = Now { stamp: at(100), wall: UnixNanos(1_000 * SECOND as i64) };
        // start by the runtime's clock, last look before it ran → age, remaining delay
        let table = [
            (990, None, 10, 20),
            (900, None, 100, 0),
            (900, Some(98), 2, 28),
            (999, Some(98), 1, 29),
            (0, None, 0, 30),
            // A clock that runs ahead.
            (5_000, Some(98), 0, 30),
        ];
        for (started, looked, old, left) in table {
            let age = age(UnixNanos(started * SECOND as i64), looked.map(at), now);
            for kind in Kind::ALL {
                let delay = pace.delay_left(kind, age);
                assert_eq!((age, delay), (seconds(old), seconds(left)), "{kind:?} {started} {looked:?}");
            }
        }
    }

    #[test]
    fn in_its_first_period_a_container_need_not_have_started_and_is_taken_to_live() {
        let pace = |delay| Pace { initial_delay: seconds(delay), period: seconds(10), timeout: seconds(1) };
        // initial delay, age → delays of the startup, liveness and readiness probes, and the remaining indulgence
        let table = [
            (0, 0, [0, 10, 0], 10),
            (0, 4, [0, 6, 0], 6),
            (0, 10, [0, 0, 0], 0),
            (7, 4, [3, 6, 3], 6),
            (15, 4, [11, 11, 11], 6),
            (15, 60, [0, 0, 0], 0),
        ];
        for (delay, age, delays, indulgence) in table {
            let (pace, age) = (pace(delay), seconds(age));
            assert_eq!(
                Kind::ALL.map(|kind| pace.delay_left(kind, age)),
                delays.map(seconds),
                "{delay} {age:?}"
            );
            assert_eq!(pace.indulgence_left(age), seconds(indulgence), "{delay} {age:?}");
        }
    }
}
