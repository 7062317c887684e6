//! Progress events of an image on its way into the store.

use std::fmt;
use std::sync::Arc;

use super::digest::Digest;

/// One step of progress. A layer is identified by the digest under which the source lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The image has been found: its layers, lowest first, with their sizes in transit.
    Layers(Vec<(Digest, u64)>),
    /// The layer is already in the store.
    Present(Digest),
    /// A part of a layer has arrived.
    Downloading {
        /// The layer.
        layer: Digest,
        /// Bytes downloaded so far, including those of earlier attempts.
        done: u64,
        /// The layer's size in transit.
        total: u64,
    },
    /// A download was interrupted and is being resumed.
    Retrying {
        /// The layer.
        layer: Digest,
        /// Why.
        reason: String,
    },
    /// A layer has been downloaded and is being unpacked.
    Unpacking(Digest),
    /// A layer has been unpacked.
    Unpacked(Digest),
}

/// The receiver of progress events. They are sent from several threads, and the receiver must not block.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(Event) + Send + Sync>);

impl Progress {
    /// Creates a progress that calls this function for every event.
    pub fn new(receiver: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receiver))
    }

    /// Creates a progress that discards all events.
    #[must_use]
    pub fn none() -> Self {
        Self::new(|_| {})
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}
