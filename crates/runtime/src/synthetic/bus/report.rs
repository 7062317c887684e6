//! What happened to events, for comparison in tests.

use std::time::Duration;

use rubelet_model::{ContainerId, PodUid, SandboxId};

use crate::synthetic::world::EventKind;

/// The reason why an event did not reach a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// A test requested it: [`EventFaults::drop`](super::EventFaults::drop).
    Dropped,
    /// A test requested silence.
    Silenced,
    /// A buffer of the runtime was full.
    Overflow,
    /// It was taken by a stream whose client was gone.
    Swallowed,
    /// Nobody was reading, and the runtime does not keep events, or not for that long.
    NobodyRead,
    /// The runtime restarted.
    Restarted,
}

/// An event that did not reach a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The event's number in the world.
    pub number: u64,
    /// The event's type.
    pub kind: EventKind,
    /// The pod it is about.
    pub pod: PodUid,
    /// The sandbox it is about, or the sandbox of the container it is about.
    pub sandbox: SandboxId,
    /// The container it is about; `None` if it is about the sandbox itself.
    pub container: Option<ContainerId>,
    /// Why it was lost.
    pub loss: Loss,
}

/// What happened to events, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that the world has produced.
    pub made: u64,
    /// Messages sent to readers, counted for each reader.
    pub sent: u64,
    /// Events that were lost, for any reason.
    pub lost: u64,
    /// Events sent twice on request.
    pub doubled: u64,
    /// Events moved behind the next one on request.
    pub reordered: u64,
    /// Events delayed on request.
    pub delayed: u64,
    /// Streams that have been opened.
    pub opened: u64,
    /// Streams that are currently open.
    pub readers: usize,
    /// Calls that are currently blocked by a stalled reader.
    pub blocked: usize,
    /// The longest time for which a call was blocked; calls that still are do not count.
    pub longest_block: Duration,
}
