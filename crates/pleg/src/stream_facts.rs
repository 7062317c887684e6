//! Statistics of the event stream.

use serde::{Deserialize, Serialize};

use crate::announce::StreamError;
use crate::clock::Stamp;

/// Statistics of the event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFacts {
    /// When it was opened; `None` if it is not open.
    pub open_since: Option<Stamp>,
    /// How often it was opened.
    pub opened: u64,
    /// When it last ended, and why.
    pub last_end: Option<(Stamp, StreamError)>,
    /// How many announcements were received.
    pub heard: u64,
    /// When the last one was received.
    pub last_heard: Option<Stamp>,
    /// How many changes were found that had not been announced while the stream was open.
    pub unannounced: u64,
    /// How many containers and sandboxes lived and were gone before anybody looked.
    pub short_lives: u64,
}

impl StreamFacts {
    pub(crate) fn opened(&mut self, now: Stamp) {
        self.open_since = Some(now);
        self.opened += 1;
    }

    pub(crate) fn ended(&mut self, now: Stamp, error: StreamError) {
        self.open_since = None;
        self.last_end = Some((now, error));
    }

    pub(crate) fn heard(&mut self, count: u64, at: Stamp) {
        self.heard += count;
        self.last_heard = self.last_heard.max(Some(at));
    }
}
