//! The wait before the next attempt: doubling, capped, with jitter, and without ever giving up.

use std::time::Duration;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait, before jitter.
const LONGEST: Duration = Duration::from_secs(3);
/// The largest jitter, as a fraction of the wait, up or down.
const JITTER: f64 = 0.2;

/// The waits between failed attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the wait after one more failure. `chance` is a random number from 0 up to 1.
    pub(crate) fn after_failure(&mut self, chance: f64) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        doubled.min(LONGEST).mul_f64(1.0 - JITTER + 2.0 * JITTER * chance)
    }

    /// Notes a success: the next wait is the shortest one again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(backoff: &mut Backoff, chance: f64) -> u128 {
        backoff.after_failure(chance).as_millis()
    }

    #[test]
    fn waits_double_up_to_a_cap_and_start_over_after_a_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8).map(|_| millis(&mut backoff, 0.5)).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3000, 3000, 3000]);
        backoff.reset();
        assert_eq!(millis(&mut backoff, 0.5), 100);
        for _ in 0..100_000 {
            backoff.after_failure(0.5);
        }
        assert_eq!(millis(&mut backoff, 0.5), 3000);
    }

    #[test]
    fn jitter_spreads_waits_by_a_fifth() {
        assert_eq!(millis(&mut Backoff::default(), 0.0), 80);
        assert_eq!(millis(&mut Backoff::default(), 1.0), 120);
    }
}
