//! How the runtime's announcements go.

use serde::{Deserialize, Serialize};

use crate::announce::StreamError;
use crate::clock::Stamp;

/// What is known of the event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFacts {
    /// Since when it is open; nothing if it is not.
    pub open_since: Option<Stamp>,
    /// How often it was opened.
    pub opened: u64,
    /// When it ended last, and why.
    pub last_end: Option<(Stamp, StreamError)>,
    /// How many announcements were heard.
    pub heard: u64,
    /// When the last one was.
    pub last_heard: Option<Stamp>,
    /// How many changes were found that had not been announced while the stream was open.
    pub unannounced: u64,
    /// How many things lived and were gone before anybody looked.
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
