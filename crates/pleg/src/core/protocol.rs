//! What goes into the state machine and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use rubelet_model::{PodStatus, PodUid};
use serde::{Deserialize, Serialize};

use super::{PeriodReason, Tally};
use crate::announce::{Announcement, StreamError};
use crate::clock::Stamp;
use crate::event::PodEvent;
use crate::observe::{Listing, ObserveError};
use crate::records::Snapshot;

/// What can happen to a PLEG.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Input {
    /// Time has passed.
    Tick,
    /// The answer to [`Ask::List`].
    Listed { asked: Stamp, answer: Result<Listing, ObserveError> },
    /// The answer to [`Ask::Look`].
    Looked { pod: PodUid, asked: Stamp, answer: Result<Listing, ObserveError> },
    /// The answer to [`Ask::Inspect`].
    Inspected { pod: PodUid, ticket: u64, answer: Result<PodStatus, ObserveError> },
    /// Somebody acted on a pod at this moment and wants a look at it.
    Nudge { pod: PodUid, at: Stamp },
    /// The pod must be inspected after the next list, even if it has not changed.
    Reinspect { pod: PodUid, at: Stamp },
    /// Somebody is waiting for a status newer than everything known.
    Awaited,
    /// The event stream was opened: the runtime announces what happens from now on.
    StreamOpened,
    /// The event stream ended: the runtime announces nothing more.
    StreamEnded(StreamError),
    /// The runtime made announcements.
    Announced {
        announcements: Vec<Announcement>,
        /// When the last of them was received.
        at: Stamp,
    },
    /// All calls in progress were given up; no answers will come.
    Interrupted,
}

/// What a PLEG wants done. Effects are carried out in order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Something to ask the runtime.
    Ask(Ask),
    /// Something to make known to readers.
    Publish(News),
}

/// A call to the runtime, or the cancellation of one.
#[derive(Debug)]
pub(crate) enum Ask {
    /// List all pods. The fields of an ask come back with its answer.
    List { asked: Stamp },
    /// List one pod.
    Look { pod: PodUid, asked: Stamp },
    /// Inspect one pod as it was listed.
    Inspect { snapshot: Arc<Snapshot>, ticket: u64 },
    /// Cancel this inspection.
    Abandon { ticket: u64 },
    /// Cancel this look.
    AbandonLook { pod: PodUid, asked: Stamp },
}

/// What is known now.
#[derive(Debug)]
pub(crate) enum News {
    /// Store the result of an inspection in the cache; `asked` is when the list behind it was requested.
    Store { pod: PodUid, status: Result<Arc<PodStatus>, ObserveError>, asked: Stamp },
    /// Remove a pod from the cache.
    Forget { pod: PodUid },
    /// Exclude this pod from the global time of the cache until it is settled.
    Hold { pod: PodUid },
    /// The cache is right about this pod as of `asked`, and the global time includes it again.
    Settle { pod: PodUid, asked: Stamp },
    /// Send an event to the subscribers.
    Tell(PodEvent),
    /// Advance the global time: the cache is right about every pod that is not held as of `asked`.
    Advance {
        asked: Stamp,
        /// Whether this includes pods without an entry, in that the runtime does not know them.
        proves_absence: bool,
    },
    /// Update the metrics.
    Measure(Measure),
}

/// What the metrics measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time from the start of the last successful list to the start of this one.
    RelistInterval(Duration),
    /// A full list has ended, with the inspections that it led to.
    Relist {
        /// How long it took.
        took: Duration,
        /// When it was requested, if it succeeded.
        asked: Option<Stamp>,
    },
    /// How long a look at one pod took.
    Look(Duration),
    /// What the last list counted.
    Running(Tally),
    /// This many changes were found that the runtime had not announced.
    Unannounced(u64),
    /// Something lived and was gone before anybody looked.
    ShortLife,
    /// The period between full lists has changed.
    Period {
        /// The time from the end of one list to the start of the next.
        period: Duration,
        /// Why it changed.
        reason: PeriodReason,
    },
}
