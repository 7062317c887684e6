//! Whether the sync loop is alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pleg::{Clock, GoDuration, Stamp};

/// The loop goes round at least once per housekeeping period; this long without a round is not normal.
const THRESHOLD: Duration = Duration::from_secs(30);

/// The error that the sync loop has not gone round for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sync loop took longer than expected: last round {} ago; threshold is {}", GoDuration(*.age), GoDuration(THRESHOLD))]
pub struct Unresponsive {
    /// How long ago it last went round.
    pub age: Duration,
}

/// The pulse of the sync loop. Clones share it.
#[derive(Clone, Debug)]
pub struct Pulse {
    clock: Clock,
    last: Arc<AtomicU64>,
}

impl Pulse {
    pub(super) fn new(clock: Clock) -> Self {
        let now = clock.stamp();
        Self { clock, last: Arc::new(AtomicU64::new(now.as_nanos())) }
    }

    pub(super) fn beat(&self) {
        self.last.store(self.clock.stamp().as_nanos(), Ordering::Relaxed);
    }

    /// Checks whether the loop is alive.
    ///
    /// # Errors
    ///
    /// [`Unresponsive`] if it has not gone round for too long.
    pub fn check(&self) -> Result<(), Unresponsive> {
        let last = Stamp::from_nanos(self.last.load(Ordering::Relaxed));
        let age = last.until(self.clock.stamp());
        if age > THRESHOLD { Err(Unresponsive { age }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_noticed() {
        let pulse = Pulse::new(Clock::start());
        tokio::time::advance(THRESHOLD - Duration::from_secs(1)).await;
        assert_eq!(pulse.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(pulse.check().is_err_and(|unresponsive| unresponsive.age > THRESHOLD));
        pulse.beat();
        assert_eq!(pulse.check(), Ok(()));
    }
}
