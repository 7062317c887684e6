//! From the world's events to those who read the stream: the played runtime's delivery, with its ways to
//! lose, and the faults that a test adds.
//!
//! Faults come first (an event may be dropped, doubled, held back), then the runtime's own delivery. What is lost
//! on the way is counted and kept, so that a test can compare.

mod fan_out;
mod reader;
mod shared_queue;
mod tamper;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use rubelet_model::{ContainerId, PodUid, SandboxId};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use super::profile::{Delivery, EventSupport};
use super::seed::Seed;
use super::world::{CriEvent, EventKind};
use fan_out::{FanOut, Policy};
pub(crate) use reader::Reader;
use shared_queue::{Sent, SharedQueue};
pub use tamper::EventFaults;
use tamper::Tamper;

type ReaderId = u64;

/// An event and its encoded form, on its way.
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

/// Why an event did not reach a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// A test asked for it: [`EventFaults::drop`].
    Dropped,
    /// A test asked for silence.
    Silenced,
    /// A buffer of the runtime was full.
    Overflow,
    /// A stream whose client was gone took it.
    Swallowed,
    /// Nobody read, and the runtime does not keep events, or not for so long.
    NobodyRead,
    /// The runtime restarted.
    Restarted,
}

/// An event that did not reach a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its number in the world.
    pub number: u64,
    /// Its type.
    pub kind: EventKind,
    /// The pod it is about.
    pub pod: PodUid,
    /// The sandbox it is about, or whose container it is about.
    pub sandbox: SandboxId,
    /// The container it is about; `None` for the sandbox itself.
    pub container: Option<ContainerId>,
    /// Why.
    pub loss: Loss,
}

/// What became of events, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that the world made.
    pub made: u64,
    /// Messages that were sent to readers; each reader counts.
    pub sent: u64,
    /// Events that were lost, for whatever reason.
    pub lost: u64,
    /// Events that were sent twice on demand.
    pub doubled: u64,
    /// Events that were put behind the next one on demand.
    pub reordered: u64,
    /// Events that were delayed on demand.
    pub delayed: u64,
    /// Streams that were opened.
    pub opened: u64,
    /// Streams that are open.
    pub readers: usize,
    /// Calls that wait because a reader stalls.
    pub blocked: usize,
    /// The longest that a call had to wait, of those that need not any more.
    pub longest_block: Duration,
}

/// The event streams of a server. Cheap to clone; all clones are the same streams.
#[derive(Clone)]
pub struct Events {
    bus: Arc<Bus>,
}

impl Events {
    pub(crate) fn over(bus: Arc<Bus>) -> Self {
        Self { bus }
    }

    /// Tampers with all events from now on. [`EventFaults::default`] stops it; what is held back is sent.
    pub fn tamper(&self, faults: EventFaults) {
        self.bus.tamper(faults);
    }

    /// Streams stay open, but say nothing any more; what happens meanwhile is never told.
    pub fn silence(&self) {
        self.bus.state.lock().silent = true;
    }

    /// Streams speak again.
    pub fn speak(&self) {
        self.bus.state.lock().silent = false;
    }

    /// Ends all streams that are open: cleanly for `None`, or with an error.
    pub fn end_streams(&self, error: Option<Status>) {
        self.bus.end_streams(error);
    }

    /// What became of events, in numbers.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.bus.state.lock().counts()
    }

    /// The events that did not reach a reader, in the order in which they were lost.
    #[must_use]
    pub fn lost(&self) -> Vec<Lost> {
        self.bus.state.lock().lost.clone()
    }

    /// Waits until a condition holds. It is looked at whenever something happens to an event or a stream.
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
    /// Counts whatever happens, for those who wait.
    version: watch::Sender<u64>,
    /// Where delayed events wait.
    tasks: tokio::runtime::Handle,
}

struct State {
    seed: Seed,
    support: EventSupport,
    delivery: Line,
    tamper: Tamper,
    silent: bool,
    /// Ends streams that were opened under an earlier number.
    generation: u64,
    end: Option<Status>,
    counts: EventCounts,
    lost: Vec<Lost>,
}

enum Line {
    /// A runtime without events.
    None,
    Shared(SharedQueue),
    FanOut(FanOut),
}

impl Bus {
    /// A bus whose delayed events wait in the current tokio runtime.
    pub(crate) fn new(support: EventSupport, seed: Seed) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                seed,
                support,
                delivery: Line::new(support, seed, 0),
                tamper: Tamper::new(seed),
                silent: false,
                generation: 0,
                end: None,
                counts: EventCounts::default(),
                lost: Vec::new(),
            }),
            version: watch::Sender::new(0),
            tasks: tokio::runtime::Handle::current(),
        })
    }

    /// Sends the events of one change. Whoever made it may have to wait: [`Self::accepted`].
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

    /// Waits while the runtime makes those wait who publish.
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

    /// Begins again with empty queues, as after a restart: what was under way is lost and streams are over.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock();
        let nth = state.generation + 1;
        let fresh = Line::new(state.support, state.seed, nth);
        let mut under_way = state.tamper.take_held();
        under_way.extend(std::mem::replace(&mut state.delivery, fresh).into_undelivered());
        for parcel in &under_way {
            state.lose(parcel, Loss::Restarted);
        }
        state.generation = nth;
        state.end = Some(Status::unavailable("the runtime restarts"));
        drop(state);
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

/// What whoever published has to wait for; 0 for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// A call that waits because a reader stalls.
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

impl Line {
    fn new(support: EventSupport, seed: Seed, nth: u64) -> Self {
        match support {
            EventSupport::Unimplemented | EventSupport::EndsAtOnce => Self::None,
            EventSupport::Stream(Delivery::Shared { capacity }) => Self::Shared(SharedQueue::new(capacity)),
            EventSupport::Stream(Delivery::Blocking { buffer }) => {
                Self::FanOut(FanOut::new(Policy::Block, buffer))
            }
            EventSupport::Stream(Delivery::Broadcast { capacity }) => {
                // The broadcaster starts before the client is known to it: who is first is a race.
                let first_reader_misses = seed.rng("replay race", "", nth).bool();
                Self::FanOut(FanOut::new(Policy::Drop { capacity, first_reader_misses }, 1))
            }
        }
    }
}

impl Line {
    /// What has not reached any reader.
    fn into_undelivered(self) -> Vec<Parcel> {
        match self {
            Self::None => Vec::new(),
            Self::Shared(queue) => queue.into_undelivered(),
            Self::FanOut(fan) => fan.into_undelivered(),
        }
    }
}

impl State {
    fn counts(&self) -> EventCounts {
        let readers = match &self.delivery {
            Line::None => 0,
            Line::Shared(queue) => queue.readers(),
            Line::FanOut(fan) => fan.readers(),
        };
        EventCounts { readers, lost: self.lost.len() as u64, ..self.counts }
    }

    fn send(&mut self, parcel: Parcel) -> u64 {
        let mut lost = Vec::new();
        let ticket = match &mut self.delivery {
            Line::None => 0,
            Line::Shared(queue) => {
                match queue.publish(parcel) {
                    Sent::Kept => {}
                    Sent::Overflow(parcel) => lost.push((parcel, Loss::Overflow)),
                    Sent::Swallowed(parcel) => lost.push((parcel, Loss::Swallowed)),
                }
                0
            }
            Line::FanOut(fan) => fan.publish(Instant::now(), parcel, &mut lost),
        };
        self.lose_all(lost);
        ticket
    }

    fn is_accepted(&self, ticket: Ticket) -> bool {
        match &self.delivery {
            Line::FanOut(fan) => fan.is_accepted(ticket.0),
            Line::None | Line::Shared(_) => true,
        }
    }

    fn count_fate(&mut self, fate: &tamper::Fate) {
        self.counts.doubled += u64::from(fate.doubled);
        self.counts.reordered += u64::from(fate.reordered);
        self.counts.delayed += u64::from(fate.delayed.is_some());
    }

    fn lose_all(&mut self, lost: Vec<(Parcel, Loss)>) {
        for (parcel, loss) in lost {
            self.lose(&parcel, loss);
        }
    }

    fn lose(&mut self, parcel: &Parcel, loss: Loss) {
        let CriEvent { number, kind, pod, sandbox, container, .. } = &*parcel.event;
        self.lost.push(Lost {
            number: *number,
            kind: *kind,
            pod: pod.clone(),
            sandbox: sandbox.clone(),
            container: container.clone(),
            loss,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
