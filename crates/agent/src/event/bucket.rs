//! Limits the number of events per pod: a burst, and then one every few minutes.

use std::time::Duration;

use pleg::Stamp;

/// How many events a pod may emit at once.
const BURST: u32 = 25;
/// The time after which it may emit another one.
const REFILL: Duration = Duration::from_secs(300);

/// A token bucket, stored as the time that it took to earn the tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    earned: Duration,
    at: Stamp,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { earned: REFILL * BURST, at: Stamp::ZERO }
    }
}

impl Bucket {
    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, now: Stamp) -> bool {
        self.earned = (self.earned + self.at.until(now)).min(REFILL * BURST);
        self.at = now;
        let left = self.earned.checked_sub(REFILL);
        self.earned = left.unwrap_or(self.earned);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_every_five_minutes() {
        let mut bucket = Bucket::default();
        let at = |seconds: u64| Stamp::from_nanos(seconds * 1_000_000_000);
        assert_eq!((0..100).filter(|_| bucket.take(at(1))).count(), 25);
        assert!(!bucket.take(at(300)));
        assert!(bucket.take(at(301)));
        assert!(!bucket.take(at(302)));
        assert_eq!((0..100).filter(|_| bucket.take(at(1_000_000))).count(), 25, "it never holds more");
    }
}
