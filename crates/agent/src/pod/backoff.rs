//! How long to wait before trying again: 10 seconds, doubling up to 5 minutes, forgotten after 10 quiet minutes.
//!
//! Values only. Moments are [`Stamp`]s, so setting the clock changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pleg::Stamp;

/// How a back-off grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The first wait.
    pub initial: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Default for Growth {
    fn default() -> Self {
        Self { initial: Duration::from_secs(10), max: Duration::from_secs(300) }
    }
}

impl Growth {
    /// Returns a growth that never exceeds `max`.
    #[must_use]
    pub fn up_to(max: Duration) -> Self {
        let default = Self::default();
        Self { initial: default.initial.min(max), max }
    }
}

/// How long it must be quiet until the past is forgotten, however long the longest wait is.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// What was tried; anything else starts afresh.
    what: Arc<str>,
    delay: Duration,
    updated: Stamp,
}

/// A wait that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// How long it is in total.
    pub(crate) delay: Duration,
    /// When it is over.
    pub(crate) until: Stamp,
}

/// Back-offs by name.
#[derive(Clone, Debug)]
pub(crate) struct Backoffs {
    growth: Growth,
    entries: BTreeMap<Arc<str>, Entry>,
}

impl Backoffs {
    pub(crate) fn new(growth: Growth) -> Self {
        Self { growth, entries: BTreeMap::new() }
    }

    /// Returns the wait that `name` is in, for trying `what` after something that ended at `ended`.
    pub(crate) fn wait(&self, name: &str, what: &str, ended: Stamp, now: Stamp) -> Option<Wait> {
        let entry = self.entries.get(name).filter(|entry| &*entry.what == what)?;
        let is_forgotten = entry.updated.until(ended) > FORGOTTEN_AFTER;
        let until = ended.plus(entry.delay);
        (!is_forgotten && now < until).then_some(Wait { delay: entry.delay, until })
    }

    /// Notes that `what` is tried now, after something that ended at `ended`: the next wait is longer.
    pub(crate) fn advance(&mut self, name: &str, what: &str, ended: Stamp, now: Stamp) {
        let known = self.entries.get(name).filter(|entry| &*entry.what == what);
        let delay = match known {
            Some(entry) if entry.updated.until(ended) <= FORGOTTEN_AFTER => {
                entry.delay.saturating_mul(2).min(self.growth.max)
            }
            _ => self.growth.initial,
        };
        self.entries.insert(name.into(), Entry { what: what.into(), delay, updated: now });
    }

    /// Returns the wait that `name` is in since its last failure.
    pub(crate) fn wait_since_failure(&self, name: &str, now: Stamp) -> Option<Wait> {
        let entry = self.entries.get(name)?;
        let until = entry.updated.plus(entry.delay);
        (now < until).then_some(Wait { delay: entry.delay, until })
    }

    /// Notes that `name` failed now.
    pub(crate) fn failed(&mut self, name: &str, now: Stamp) {
        self.advance(name, name, now, now);
    }

    /// Forgets `name`.
    pub(crate) fn forget(&mut self, name: &str) {
        self.entries.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn an_always_crashing_container_waits_10_20_40_80_160_300_300() {
        let mut backoffs = Backoffs::new(Growth::default());
        let mut waits = Vec::new();
        let mut ended = at(0);
        for _ in 0..8 {
            let start = match backoffs.wait("c", "image", ended, ended) {
                None => ended,
                Some(wait) => {
                    assert_eq!(wait.until, ended.plus(wait.delay));
                    assert_eq!(backoffs.wait("c", "image", ended, wait.until), None, "over when it is over");
                    waits.push(wait.delay.as_secs());
                    wait.until
                }
            };
            backoffs.advance("c", "image", ended, start);
            ended = start.plus(Duration::from_secs(1));
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn ten_minutes_of_running_reset_it() {
        let mut backoffs = Backoffs::new(Growth::default());
        backoffs.advance("c", "image", at(0), at(0));
        backoffs.advance("c", "image", at(20), at(20));
        assert_eq!(backoffs.wait("c", "image", at(620), at(620)).map(|wait| wait.delay.as_secs()), Some(20));
        assert_eq!(backoffs.wait("c", "image", at(621), at(621)), None);
        backoffs.advance("c", "image", at(621), at(621));
        assert_eq!(backoffs.wait("c", "image", at(622), at(622)).map(|wait| wait.delay.as_secs()), Some(10));
    }

    #[test]
    fn another_image_starts_afresh() {
        let mut backoffs = Backoffs::new(Growth::default());
        backoffs.advance("c", "image:1", at(0), at(0));
        assert!(backoffs.wait("c", "image:1", at(1), at(1)).is_some());
        assert_eq!(backoffs.wait("c", "image:2", at(1), at(1)), None);
        backoffs.advance("c", "image:2", at(1), at(1));
        assert_eq!(backoffs.wait("c", "image:2", at(2), at(2)).map(|wait| wait.delay.as_secs()), Some(10));
    }

    #[test]
    fn a_shorter_maximum_bounds_the_first_wait_too() {
        let mut backoffs = Backoffs::new(Growth::up_to(Duration::from_secs(3)));
        backoffs.advance("c", "image", at(0), at(0));
        assert_eq!(backoffs.wait("c", "image", at(1), at(1)).map(|wait| wait.delay.as_secs()), Some(3));
    }

    #[test]
    fn a_shorter_maximum_is_not_forgotten_sooner() {
        let mut backoffs = Backoffs::new(Growth::up_to(Duration::from_secs(15)));
        backoffs.advance("c", "image", at(0), at(0));
        backoffs.advance("c", "image", at(11), at(11));
        let wait = |ended| backoffs.wait("c", "image", at(ended), at(ended)).map(|wait| wait.delay.as_secs());
        assert_eq!([wait(11 + 31), wait(11 + 600), wait(11 + 601)], [Some(15), Some(15), None]);
    }

    #[test]
    fn failures_wait_from_the_last_one_and_are_forgotten() {
        let mut backoffs = Backoffs::new(Growth::default());
        assert_eq!(backoffs.wait_since_failure("image", at(0)), None);
        backoffs.failed("image", at(0));
        assert!(backoffs.wait_since_failure("image", at(9)).is_some());
        assert_eq!(backoffs.wait_since_failure("image", at(10)), None);
        backoffs.failed("image", at(10));
        assert_eq!(backoffs.wait_since_failure("image", at(11)).map(|wait| wait.delay.as_secs()), Some(20));
        backoffs.failed("image", at(700));
        assert_eq!(backoffs.wait_since_failure("image", at(701)).map(|wait| wait.delay.as_secs()), Some(10));
        backoffs.forget("image");
        assert_eq!(backoffs.wait_since_failure("image", at(701)), None);
    }
}
