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
    /// Somebody acted on a pod at that moment and wants it looked at.
    Nudge { pod: PodUid, at: Stamp },
    /// The next list must inspect this pod even if it did not change.
    Reinspect { pod: PodUid, at: Stamp },
    /// Somebody waits for a status that is newer than all that is known.
    Awaited,
    /// The runtime was asked to announce what happens, from now on.
    StreamOpened,
    /// The runtime announces nothing more.
    StreamEnded(StreamError),
    /// The runtime announced this.
    Announced {
        announcements: Vec<Announcement>,
        /// When the last of it was heard.
        at: Stamp,
    },
    /// Everything under way was given up; no answer will come.
    Interrupted,
}

/// What a PLEG wants done, in this order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Of the runtime.
    Ask(Ask),
    /// For whoever reads.
    Publish(News),
}

/// A call to the runtime, or the end of one.
#[derive(Debug)]
pub(crate) enum Ask {
    /// List all pods. What is in an ask goes back with its answer.
    List { asked: Stamp },
    /// List one pod.
    Look { pod: PodUid, asked: Stamp },
    /// Inspect one pod, as it was listed.
    Inspect { snapshot: Arc<Snapshot>, ticket: u64 },
    /// The answer to this inspection is no longer wanted.
    Abandon { ticket: u64 },
    /// The answer to this look is no longer wanted.
    AbandonLook { pod: PodUid, asked: Stamp },
}

/// What is known now.
#[derive(Debug)]
pub(crate) enum News {
    /// Put into the cache what an inspection found; `asked` is when its list was asked for.
    Store { pod: PodUid, status: Result<Arc<PodStatus>, ObserveError>, asked: Stamp },
    /// Take a pod out of the cache.
    Forget { pod: PodUid },
    /// The global time of the cache does not vouch for this pod, until it is settled.
    Hold { pod: PodUid },
    /// What the cache says of this pod holds as of `asked`, and the global time vouches for it again.
    Settle { pod: PodUid, asked: Stamp },
    /// Tell subscribers.
    Tell(PodEvent),
    /// What the cache says of every pod that is not held holds as of `asked`.
    Advance {
        asked: Stamp,
        /// Whether that goes for pods without an entry too: whether the runtime does not know them.
        proves_absence: bool,
    },
    /// A number for the metrics.
    Measure(Measure),
}

/// What is worth counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// From the start of the last successful list to the start of this one.
    RelistInterval(Duration),
    /// A list of all pods has ended, with the inspections that it led to.
    Relist {
        /// How long it took.
        took: Duration,
        /// When it was asked for, if it succeeded.
        asked: Option<Stamp>,
    },
    /// A look at one pod took this long.
    Look(Duration),
    /// What the last list counted.
    Running(Tally),
    /// So many changes were found that the runtime had not announced.
    Unannounced(u64),
    /// Something lived and was gone before anybody looked.
    ShortLife,
    /// From now on, all pods are listed so often.
    Period {
        /// From the end of one list to the start of the next.
        period: Duration,
        /// Why.
        reason: PeriodReason,
    },
}
