//! How late probes are, for whoever asks right now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

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
pub(super) struct Delays(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    waiting: BTreeMap<u64, Instant>,
    worst: Option<(Instant, Duration)>,
}

impl Delays {
    /// A command waits, for as long as this lives.
    pub(super) fn waits(&self) -> Waits {
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        state.waiting.insert(number, Instant::now());
        Waits { delays: self.clone(), number }
    }

    /// A probe is asked so much after its time.
    pub(super) fn was_late(&self, by: Duration) {
        let mut state = self.0.lock();
        if state.worst.is_none_or(|(at, worst)| by >= worst || at.elapsed() > NEWS) {
            state.worst = Some((Instant::now(), by));
        }
    }

    pub(super) fn now(&self) -> ProbeDelays {
        let state = self.0.lock();
        let oldest = state.waiting.values().next().map(Instant::elapsed);
        let worst = state.worst.filter(|(at, _)| at.elapsed() <= NEWS).map(|(_, by)| by);
        ProbeDelays { waiting: state.waiting.len(), longest: oldest.max(worst).unwrap_or_default() }
    }
}

/// A command that waits.
#[derive(Debug)]
pub(super) struct Waits {
    delays: Delays,
    number: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.delays.0.lock().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_count_and_those_that_were_late_of_late() {
        let delays = Delays::default();
        assert_eq!(delays.now(), ProbeDelays::default());
        delays.was_late(Duration::from_secs(9));
        delays.was_late(Duration::from_secs(1));
        assert_eq!(delays.now().longest, Duration::from_secs(9));
        let waits = delays.waits();
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(delays.now(), ProbeDelays { waiting: 1, longest: Duration::from_secs(61) });
        drop(waits);
        assert_eq!(delays.now(), ProbeDelays::default(), "a minute later it is no news");
        delays.was_late(Duration::from_secs(1));
        assert_eq!(delays.now().longest, Duration::from_secs(1));
    }
}
