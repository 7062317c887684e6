//! How late probes are, for whoever asks right now.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::under_way::{Held, UnderWay};

/// For how long a probe that was late is news.
const NEWS: Duration = Duration::from_secs(60);

/// How late probes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeDelays {
    /// Commands of probes that are due and wait for their turn.
    pub waiting: usize,
    /// How late the latest is: of those that wait, and of those that were asked in the last minute.
    pub longest: Duration,
}

/// Keeps account of it. Clones are the same account.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    /// Commands that wait, by since when.
    waiting: UnderWay<Instant>,
    worst: Arc<Mutex<Option<(Instant, Duration)>>>,
}

impl Delays {
    /// A command waits, for as long as this lives.
    pub(super) fn waits(&self) -> Held<Instant> {
        self.waiting.begin(Instant::now())
    }

    /// A probe is asked so much after its time.
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
