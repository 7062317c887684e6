//! What happens while an image arrives, told as it happens.

use std::fmt;
use std::sync::Arc;

use super::digest::Digest;

/// One thing that happened. Layers go by the digest under which the source lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The image is known: these are its layers, lowest first, with their sizes as they travel.
    Layers(Vec<(Digest, u64)>),
    /// A layer that is already in the store.
    Present(Digest),
    /// So much of a layer has arrived.
    Downloading {
        /// The layer.
        layer: Digest,
        /// Bytes that are here, those of an earlier attempt included.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// A download broke and is taken up again.
    Retrying {
        /// The layer.
        layer: Digest,
        /// Why.
        reason: String,
    },
    /// A layer has arrived whole and is being unpacked.
    Unpacking(Digest),
    /// A layer is unpacked.
    Unpacked(Digest),
}

/// Where events go. They come from several threads, and the receiver must not block.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(Event) + Send + Sync>);

impl Progress {
    /// Calls this for every event.
    pub fn new(receiver: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receiver))
    }

    /// Nobody listens.
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
