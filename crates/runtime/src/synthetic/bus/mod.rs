//! The way from the world's events to the readers of the stream: the simulated runtime's delivery, with all its ways of
//! losing events, and the faults that a test adds.
//!
//! Faults apply first (an event may be dropped, duplicated or held back), then the runtime's own delivery. Events lost
//! on the way are counted and kept, so that a test can compare.

mod fan_out;
mod reader;
mod report;
mod shared_queue;
mod state;
mod tamper;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use super::profile::EventSupport;
use super::seed::Seed;
use super::world::CriEvent;
pub(crate) use reader::Reader;
pub use report::{EventCounts, Loss, Lost};
use state::State;
pub use tamper::EventFaults;

type ReaderId = u64;

/// An event on its way, with its encoded form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parcel {
    pub(crate) event: Arc<CriEvent>,
    pub(crate) bytes: bytes::Bytes,
}

impl Parcel {
    fn new(event: CriEvent) -> Self {
        let bytes = event.message.encode_to_vec().into();
        Self { event: Arc::new(event), bytes }
    }

    fn number(&self) -> u64 {
        self.event.number
    }
}

/// The event streams of a server. It is cheap to clone; all clones refer to the same streams.
#[derive(Clone)]
pub struct Events {
    bus: Arc<Bus>,
}

impl Events {
    pub(crate) fn over(bus: Arc<Bus>) -> Self {
        Self { bus }
    }

    /// Applies these faults to all events from now on. [`EventFaults::default`] ends that, and what is held back is
    /// sent.
    pub fn tamper(&self, faults: EventFaults) {
        self.bus.tamper(faults);
    }

    /// Keeps streams open but sends nothing. What happens in the meantime is never reported.
    pub fn silence(&self) {
        self.bus.state.lock().silent = true;
    }

    /// Ends the silence.
    pub fn speak(&self) {
        self.bus.state.lock().silent = false;
    }

    /// Ends all open streams: cleanly for `None`, or with an error.
    pub fn end_streams(&self, error: Option<Status>) {
        self.bus.end_streams(error);
    }

    /// Returns how many events were sent, lost, and so on.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.bus.state.lock().counts()
    }

    /// Returns the events that did not reach a reader, in the order in which they were lost.
    #[must_use]
    pub fn lost(&self) -> Vec<Lost> {
        self.bus.state.lock().lost.clone()
    }

    /// Waits until a condition holds. It is evaluated whenever something happens to an event or a stream.
    pub async fn until(&self, mut condition: impl FnMut(&EventCounts) -> bool) {
        let mut version = self.bus.version.subscribe();
        loop {
            version.borrow_and_update();
            if condition(&self.counts()) {
                return;
            }
            version.changed().await.expect("the sender is in self");
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
}

/// What all streams share.
pub(crate) struct Bus {
    state: Mutex<State>,
    /// Incremented by every change, for those who wait for one.
    version: watch::Sender<u64>,
    /// The runtime on which delayed events wait.
    tasks: tokio::runtime::Handle,
}

impl Bus {
    /// Creates a bus whose delayed events wait on the current tokio runtime.
    pub(crate) fn new(support: EventSupport, seed: Seed) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(support, seed)),
            version: watch::Sender::new(0),
            tasks: tokio::runtime::Handle::current(),
        })
    }

    /// Sends the events of one change. Whoever made the change may have to wait: see [`Self::accepted`].
    pub(crate) fn publish(self: &Arc<Self>, events: Vec<CriEvent>) -> Ticket {
        if events.is_empty() {
            return Ticket(0);
        }
        let mut state = self.state.lock();
        let mut ticket = 0;
        for event in events {
            state.counts.made += 1;
            let parcel = Parcel::new(event);
            if state.silent {
                state.lose(&parcel, Loss::Silenced);
                continue;
            }
            let fate = state.tamper.decide(parcel);
            state.count_fate(&fate);
            for parcel in &fate.lost {
                state.lose(parcel, Loss::Dropped);
            }
            if let Some((after, parcel)) = fate.delayed {
                self.send_later(after, parcel);
            }
            for parcel in fate.now {
                ticket = state.send(parcel);
            }
            if let Some(after) = fate.flush_after {
                self.flush_later(after);
            }
        }
        drop(state);
        self.changed();
        Ticket(ticket)
    }

    /// Waits as long as the runtime blocks this publisher.
    pub(crate) async fn accepted(&self, ticket: Ticket) {
        if self.state.lock().is_accepted(ticket) {
            return;
        }
        let _blocked = Blocked::new(self);
        let mut version = self.version.subscribe();
        loop {
            version.borrow_and_update();
            if self.state.lock().is_accepted(ticket) {
                return;
            }
            version.changed().await.expect("the sender is in self");
        }
    }

    /// Starts over with empty queues, as after a restart: undelivered events are lost, and streams end.
    pub(crate) fn restart(&self) {
        self.state.lock().restart();
        self.changed();
    }

    fn tamper(self: &Arc<Self>, faults: EventFaults) {
        let mut state = self.state.lock();
        for parcel in state.tamper.set(faults) {
            state.send(parcel);
        }
        drop(state);
        self.changed();
    }

    fn end_streams(&self, error: Option<Status>) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.end = error;
        drop(state);
        self.changed();
    }

    fn send_later(self: &Arc<Self>, after: Duration, parcel: Parcel) {
        let bus = Arc::downgrade(self);
        self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            if let Some(bus) = bus.upgrade() {
                bus.state.lock().send(parcel);
                bus.changed();
            }
        });
    }

    fn flush_later(self: &Arc<Self>, after: Duration) {
        let bus = Arc::downgrade(self);
        self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            if let Some(bus) = bus.upgrade() {
                let mut state = bus.state.lock();
                for parcel in state.tamper.take_held() {
                    state.send(parcel);
                }
                drop(state);
                bus.changed();
            }
        });
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

/// What a publisher has to wait for; 0 for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// A call that is blocked because a reader is stalled.
struct Blocked<'a> {
    bus: &'a Bus,
    since: Instant,
}

impl<'a> Blocked<'a> {
    fn new(bus: &'a Bus) -> Self {
        bus.state.lock().counts.blocked += 1;
        bus.changed();
        Self { bus, since: Instant::now() }
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        let mut state = self.bus.state.lock();
        state.counts.blocked -= 1;
        state.counts.longest_block = state.counts.longest_block.max(self.since.elapsed());
        drop(state);
        self.bus.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::world::EventKind;

    pub(super) fn parcel(number: u64) -> Parcel {
        Parcel::new(CriEvent {
            number,
            kind: EventKind::Created,
            pod: "pod".into(),
            sandbox: "sandbox".into(),
            container: None,
            message: rubelet_cri::v1::ContainerEventResponse::default(),
        })
    }
}
