//! What became of events: what a test compares with.

use std::time::Duration;

use rubelet_model::{ContainerId, PodUid, SandboxId};

use crate::synthetic::world::EventKind;

/// Why an event did not reach a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// A test asked for it: [`EventFaults::drop`](super::EventFaults::drop).
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
