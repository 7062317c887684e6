//! How late probes currently are.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::under_way::{Held, UnderWay};

/// For how long a late probe is remembered.
const NEWS: Duration = Duration::from_secs(60);

/// How late probes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeDelays {
    /// The number of probe commands that are due and wait for their turn.
    pub waiting: usize,
    /// The longest delay, among the commands that wait and the probes of the last minute.
    pub longest: Duration,
}

/// Keeps track of delays. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    /// The waiting commands, each with the time since when it waits.
    waiting: UnderWay<Instant>,
    worst: Arc<Mutex<Option<(Instant, Duration)>>>,
}

impl Delays {
    /// Records that a command waits, for as long as the returned value lives.
    pub(super) fn waits(&self) -> Held<Instant> {
        self.waiting.begin(Instant::now())
    }

    /// Records how late a probe was asked.
    pub(super) fn note_lateness(&self, by: Duration) {
        let mut worst = self.worst.lock();
        if worst.is_none_or(|(at, worst)| by >= worst || at.elapsed() > NEWS) {
            *worst = Some((Instant::now(), by));
        }
    }

    pub(super) fn now(&self) -> ProbeDelays {
        let waiting = self.waiting.seen(Instant::elapsed);
        let worst = self.worst.lock().filter(|(at, _)| at.elapsed() <= NEWS).map(|(_, by)| by);
        let longest = waiting.first().copied().max(worst).unwrap_or_default();
        ProbeDelays { waiting: waiting.len(), longest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_count_and_those_that_were_late_of_late() {
        let delays = Delays::default();
        assert_eq!(delays.now(), ProbeDelays::default());
        delays.note_lateness(Duration::from_secs(9));
        delays.note_lateness(Duration::from_secs(1));
        assert_eq!(delays.now().longest, Duration::from_secs(9));
        let waits = delays.waits();
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(delays.now(), ProbeDelays { waiting: 1, longest: Duration::from_secs(61) });
        drop(waits);
        assert_eq!(delays.now(), ProbeDelays::default(), "a minute later it is no news");
        delays.note_lateness(Duration::from_secs(1));
        assert_eq!(delays.now().longest, Duration::from_secs(1));
    }
}
