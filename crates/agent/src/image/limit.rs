//! Limits how often registries are asked, with a token bucket that fills slowly.

use std::time::Duration;

use pleg::Stamp;

/// The maximum rate of pulls, and the burst after a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullRate {
    /// Per second; 0 means unlimited.
    pub per_second: u32,
    /// The burst size.
    pub burst: u32,
}

impl Default for PullRate {
    fn default() -> Self {
        Self { per_second: 5, burst: 10 }
    }
}

/// A token bucket, measured in the time that it takes to fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    rate: PullRate,
    /// The level and when it was measured; `None` if the bucket was never used.
    level: Option<(Duration, Stamp)>,
}

impl Bucket {
    pub(super) fn new(rate: PullRate) -> Self {
        Self { rate: PullRate { burst: rate.burst.max(1), ..rate }, level: None }
    }

    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, now: Stamp) -> bool {
        if self.rate.per_second == 0 {
            return true;
        }
        let one = Duration::from_secs(1) / self.rate.per_second;
        let full = one * self.rate.burst;
        let level = self.level.map_or(full, |(level, then)| (level + then.until(now)).min(full));
        let left = level.checked_sub(one);
        self.level = Some((left.unwrap_or(level), now));
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Stamp {
        Stamp::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn a_burst_is_let_through_and_then_so_many_a_second() {
        let mut bucket = Bucket::new(PullRate::default());
        let taken = (0..20).filter(|_| bucket.take(at(0))).count();
        assert_eq!(taken, 10);
        assert!(!bucket.take(at(199)) && bucket.take(at(200)) && !bucket.take(at(201)));
        assert_eq!((0..20).filter(|_| bucket.take(at(1_200))).count(), 5);
        assert_eq!((0..20).filter(|_| bucket.take(at(100_000))).count(), 10, "it is never fuller than full");
    }

    #[test]
    fn none_a_second_is_no_limit() {
        let mut bucket = Bucket::new(PullRate { per_second: 0, burst: 0 });
        assert!((0..1_000).all(|_| bucket.take(at(0))));
    }
}
