//! What a runtime announces of its own accord.
//!
//! Announcements are hints: they say where to look, and how soon. They come late, twice, in any order, or not at all,
//! and some runtimes hand each to one reader only, so nothing is believed because it was announced. There is one thing
//! that only they can tell: that something lived and was gone before anybody looked, and how it ended.

use std::future::Future;
use std::sync::Arc;

use rubelet_model::{PodRef, UnixNanos};
use serde::{Deserialize, Serialize};

use crate::event::{Exit, Subject};

/// A step in the life of a container or sandbox, in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LifeStep {
    /// It was made.
    Created,
    /// It runs; of a sandbox: it is ready.
    Started,
    /// It ended; of a sandbox: it is no longer ready.
    Stopped,
    /// The runtime no longer knows it, or is about to forget it.
    Deleted,
}

/// One announcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The id of the container or sandbox.
    pub id: Arc<str>,
    /// What it did.
    pub step: LifeStep,
    /// Of which pod, if the runtime says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// What it is, if the runtime says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// How it ended, if it has, and the runtime says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// When it ended, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exited_at: Option<UnixNanos>,
    /// When the runtime made the announcement, by its own clock. Used for nothing but to tell old ones, which some
    /// runtimes keep for the next reader, from new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced_at: Option<UnixNanos>,
}

impl Announcement {
    /// Adds what was announced of the same step again: what one of them does not say, the other may.
    pub(crate) fn add(&mut self, again: Self) {
        self.pod = again.pod.or(self.pod.take());
        self.subject = again.subject.or(self.subject.take());
        self.exit = again.exit.or(self.exit.take());
        self.exited_at = again.exited_at.or(self.exited_at);
        self.announced_at = again.announced_at.or(self.announced_at);
    }
}

/// The announcements of a runtime, as they come.
pub trait Announcements: Send + 'static {
    /// The next one; `None` once the runtime has ended the stream. Nothing may be lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<Result<Announcement, StreamError>>> + Send;
}

/// Why there are no announcements, or no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamError {
    /// The runtime has none.
    #[error("the runtime has no event stream")]
    Unsupported,
    /// The runtime ended the stream at once, and without a word: it has one, but it is switched off.
    #[error("the runtime's event stream is switched off: it ends at once")]
    SwitchedOff,
    /// The runtime ended the stream.
    #[error("the runtime ended the event stream")]
    Ended,
    /// The stream broke, or could not be opened.
    #[error("{0}")]
    Broken(Arc<str>),
}

impl StreamError {
    /// Whether trying again soon would be of no use.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        matches!(self, Self::Unsupported | Self::SwitchedOff)
    }
}

/// For observers of runtimes without announcements.
#[derive(Debug)]
pub enum NoAnnouncements {}

impl Announcements for NoAnnouncements {
    async fn next(&mut self) -> Option<Result<Announcement, StreamError>> {
        match *self {}
    }
}
