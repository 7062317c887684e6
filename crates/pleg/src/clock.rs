//! The only module that reads a clock.
//!
//! Order and age come from [`Stamp`]s: monotonic, never repeated, and following tokio's time, so that tests on paused
//! time are honest. Wall-clock time is for display only and comes along in [`Now`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rubelet_model::UnixNanos;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// A moment on the monotonic clock of one [`Clock`], in nanoseconds since that clock was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(u64);

impl Stamp {
    /// Earlier than every stamp that a clock hands out.
    pub const ZERO: Self = Self(0);

    /// Creates a stamp from its distance to the start of its clock.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the distance to the start of its clock.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from this stamp to `later`; zero if `later` is not later.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_nanos(later.0.saturating_sub(self.0))
    }

    /// Returns how long its clock had been running.
    #[must_use]
    pub(crate) const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the moment that comes `after` this one.
    #[must_use]
    pub const fn plus(self, after: Duration) -> Self {
        let nanos = after.as_nanos();
        Self(self.0.saturating_add(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }))
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", Duration::from_nanos(self.0))
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// For order and age.
    pub stamp: Stamp,
    /// For display.
    pub wall: UnixNanos,
}

/// The clock of one PLEG and of everybody who waits on its cache.
///
/// Every stamp is later than all stamps handed out before, even while time stands still, so that "asked after" never
/// needs a tie-break.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    last: Arc<AtomicU64>,
}

impl Clock {
    /// Starts a clock.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now(), last: Arc::new(AtomicU64::new(0)) }
    }

    /// Returns a new stamp, later than all before.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        let elapsed = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let next = |last: u64| elapsed.max(last.saturating_add(1));
        let previous = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        Stamp(next(previous.unwrap_or_else(|unchanged| unchanged)))
    }

    /// Returns a new stamp together with the wall-clock time.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { stamp: self.stamp(), wall: wall_clock() }
    }

    /// Returns the tokio time at which this clock reaches `stamp`.
    #[must_use]
    pub fn instant(&self, stamp: Stamp) -> Instant {
        self.start + Duration::from_nanos(stamp.0)
    }
}

/// A jump of the wall clock relative to the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockJump {
    /// By how much it jumped; negative if it was set back.
    pub seconds: f64,
    /// How long ago it jumped.
    #[serde(rename = "ageSeconds", with = "crate::go_duration::seconds")]
    pub age: Duration,
}

/// Notices jumps of the wall clock between two readings.
#[derive(Debug, Default)]
pub(crate) struct JumpWatch {
    last: Option<Now>,
    newest: Option<(Stamp, f64)>,
}

impl JumpWatch {
    /// Smaller jumps, in seconds, are how clocks are kept right.
    const LEAST: f64 = 1.0;

    pub(crate) fn read(&mut self, now: Now) {
        let Some(last) = self.last.replace(now) else { return };
        let moved = (i128::from(now.wall.0) - i128::from(last.wall.0)) as f64 / 1e9;
        let jump = moved - last.stamp.until(now.stamp).as_secs_f64();
        if jump.abs() >= Self::LEAST {
            self.newest = Some((now.stamp, jump));
        }
    }

    /// Returns the newest jump, if there was one.
    pub(crate) fn newest(&self, now: Stamp) -> Option<ClockJump> {
        self.newest.map(|(at, seconds)| ClockJump { seconds, age: at.until(now) })
    }
}

/// Returns the wall-clock time. For display only.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn wall_clock() -> UnixNanos {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixNanos(i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stamps_grow_even_while_time_stands_still() {
        let clock = Clock::start();
        let stamps: Vec<Stamp> = (0..100).map(|_| clock.stamp()).collect();
        assert!(stamps.is_sorted_by(|a, b| a < b));
    }

    #[tokio::test(start_paused = true)]
    async fn stamps_follow_paused_time() {
        let clock = Clock::start();
        let before = clock.stamp();
        tokio::time::advance(Duration::from_secs(5)).await;
        let age = before.until(clock.stamp());
        assert!(age <= Duration::from_secs(5) && age >= Duration::from_millis(4_999), "{age:?}");
    }
}
