//! Follows the event stream of the runtime.
//!
//! The task that reads the stream only collects announcements in a set, since a reader that stalls can make a runtime
//! stall. It never gives up: a stream that has ended is reopened, soon if it broke, at once if the runtime has come
//! back, and rarely if the runtime has no event stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::announce::{Announcements, StreamError};
use crate::observe::Observe;
use crate::shared::{Reach, Shared};

/// The shortest and the longest wait before a broken stream is reopened.
const SOON: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// When to retry with a runtime that has no event stream: somebody may have switched it on.
const RARELY: Duration = Duration::from_secs(300);
/// A stream that ends sooner than this, without sending anything, is switched off. Runtimes end such a stream in the
/// answer to the call itself; one that was open for longer, on a quiet node, has merely ended.
const AT_ONCE: Duration = Duration::from_secs(1);
/// A stream that lasted this long resets the waits.
const GOOD_AFTER: Duration = Duration::from_secs(30);

/// When to open the first stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    AtOnce,
    /// Something is wrong that opening it at once would not fix.
    AfterAPause,
}

/// Follows the event stream for as long as this is polled.
pub(crate) async fn follow<O: Observe>(observer: Arc<O>, shared: Arc<Shared>, begin: Begin) -> Infallible {
    let mut pauses = Pauses::new();
    let mut reach = shared.reach.subscribe();
    if begin == Begin::AfterAPause {
        tokio::time::sleep(jittered(SOON.1)).await;
    }
    loop {
        let opened = Instant::now();
        let error = read(&*observer, &shared).await;
        tracing::debug!(%error, "no announcements from the runtime");
        shared.metrics.streams_failed.inc();
        shared.requests.stream_ended(error.clone());
        let pause = pauses.after(&error, opened.elapsed());
        reach.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // A runtime that has come back may have an event stream again.
            () = is_back(&mut reach) => pauses.reset(),
        }
    }
}

/// Reads one stream to its end.
async fn read<O: Observe>(observer: &O, shared: &Shared) -> StreamError {
    let mut stream = match observer.announcements().await {
        Ok(stream) => stream,
        Err(error) => return error,
    };
    shared.metrics.streams_opened.inc();
    shared.requests.stream_opened();
    let opened = Instant::now();
    let mut is_first = true;
    loop {
        match stream.next().await {
            Some(Ok(announcement)) => {
                let now = shared.clock.now();
                if let Some(made) = announcement.announced_at.filter(|made| made.is_set()) {
                    shared.metrics.announced(made, now.wall);
                }
                shared.requests.announce(announcement, now.stamp);
                is_first = false;
            }
            Some(Err(error)) => return error,
            None if is_first && opened.elapsed() < AT_ONCE => return StreamError::SwitchedOff,
            None => return StreamError::Ended,
        }
    }
}

/// Waits until the runtime answers again after it did not, or over a new connection.
async fn is_back(reach: &mut tokio::sync::watch::Receiver<Reach>) {
    let mut last_epoch = match &*reach.borrow() {
        Reach::Reached { epoch } => Some(*epoch),
        Reach::Unasked | Reach::Lost { .. } => None,
    };
    while reach.changed().await.is_ok() {
        match &*reach.borrow() {
            Reach::Reached { epoch } if last_epoch.is_none_or(|last| last != *epoch) => return,
            Reach::Reached { .. } => {}
            Reach::Unasked | Reach::Lost { .. } => last_epoch = None,
        }
    }
    std::future::pending::<()>().await;
}

/// The waits between two streams.
#[derive(Debug)]
struct Pauses {
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { next: SOON.0 }
    }

    fn reset(&mut self) {
        self.next = SOON.0;
    }

    /// The wait after a stream that lasted this long and ended like this.
    fn after(&mut self, error: &StreamError, lasted: Duration) -> Duration {
        if error.is_lasting() {
            return jittered(RARELY);
        }
        if lasted >= GOOD_AFTER {
            self.reset();
        }
        let pause = self.next;
        self.next = (pause * 2).min(SOON.1);
        jittered(pause)
    }
}

/// The pause times a random factor from 1 to 1.5, so that the agents of many nodes do not move in step.
fn jittered(pause: Duration) -> Duration {
    pause + pause.mul_f64(fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_stream_lasts() {
        let mut pauses = Pauses::new();
        let broken = StreamError::Broken("reset".into());
        let mut after = |lasted: u64| pauses.after(&broken, Duration::from_secs(lasted)).as_millis();
        let grown: Vec<u128> = (0..9).map(|_| after(0)).collect();
        for (pause, least) in
            grown.iter().zip([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
        {
            assert!((least..=least * 3 / 2).contains(pause), "{pause} is not near {least}");
        }
        assert!(after(60) <= 750, "a stream that lasted starts anew");
    }

    #[test]
    fn a_runtime_without_announcements_is_asked_rarely() {
        let mut pauses = Pauses::new();
        for error in [StreamError::Unsupported, StreamError::SwitchedOff] {
            assert!(pauses.after(&error, Duration::ZERO) >= RARELY);
        }
        assert!(pauses.after(&StreamError::Ended, Duration::ZERO) < Duration::from_secs(1), "others are not");
    }
}
