//! One open stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tonic::Status;

use super::state::Line;
use super::{Bus, Loss, Parcel, ReaderId};

/// The end of the bus from which one stream reads. It is dropped when the client is gone.
pub(crate) struct Reader {
    bus: Arc<Bus>,
    id: ReaderId,
    /// The generation it belongs to; when a later one begins, this stream ends.
    generation: u64,
    /// Whether the runtime ended it, rather than its client.
    ended: AtomicBool,
}

impl Reader {
    pub(crate) fn open(bus: Arc<Bus>) -> Self {
        let mut state = bus.state.lock();
        state.counts.opened += 1;
        let id = state.counts.opened;
        let generation = state.generation;
        let mut lost = Vec::new();
        match &mut state.delivery {
            Line::None => {}
            Line::Shared(queue) => queue.open(id),
            Line::FanOut(fan) => fan.open(Instant::now(), id, &mut lost),
        }
        state.lose_all(lost);
        drop(state);
        bus.changed();
        Self { bus, id, generation, ended: AtomicBool::new(false) }
    }

    /// Waits for the next event; `None` when the stream has ended.
    pub(crate) async fn next(&self) -> Option<Result<Parcel, Status>> {
        let mut version = self.bus.version.subscribe();
        loop {
            version.borrow_and_update();
            match self.take() {
                Taken::Event(parcel) => {
                    self.bus.changed();
                    return Some(Ok(parcel));
                }
                Taken::End(end) => {
                    self.ended.store(true, Ordering::Relaxed);
                    return end.map(Err);
                }
                Taken::Nothing => {}
            }
            version.changed().await.expect("the sender is in self");
        }
    }

    fn take(&self) -> Taken {
        let mut state = self.bus.state.lock();
        if state.generation != self.generation {
            return Taken::End(state.end.clone());
        }
        let mut lost = Vec::new();
        let parcel = match &mut state.delivery {
            Line::None => None,
            Line::Shared(queue) => queue.take(self.id),
            Line::FanOut(fan) => fan.take(Instant::now(), self.id, &mut lost),
        };
        state.lose_all(lost);
        match parcel {
            Some(parcel) => {
                state.counts.sent += 1;
                Taken::Event(parcel)
            }
            None => Taken::Nothing,
        }
    }
}

enum Taken {
    Event(Parcel),
    Nothing,
    End(Option<Status>),
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.bus.state.lock();
        let mut lost = Vec::new();
        let knows = self.ended.load(Ordering::Relaxed);
        match &mut state.delivery {
            Line::None => {}
            Line::Shared(queue) => {
                lost.extend(queue.close(self.id, knows).map(|parcel| (parcel, Loss::Swallowed)));
            }
            Line::FanOut(fan) => fan.close(Instant::now(), self.id, knows, &mut lost),
        }
        state.lose_all(lost);
        drop(state);
        self.bus.changed();
    }
}
