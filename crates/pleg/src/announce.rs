//! Announcements: what a runtime reports through its event stream.
//!
//! Announcements are hints: they say where to look, and how soon. They come late, twice, in any order, or not at all,
//! and some runtimes hand each one to a single reader, so nothing is believed because it was announced. Only one thing
//! can be learned from announcements alone: that something lived and was gone before anybody looked, and how it ended.

use std::future::Future;
use std::sync::Arc;

use rubelet_model::{PodRef, UnixNanos};
use serde::{Deserialize, Serialize};

use crate::event::{Exit, Subject};

/// A step in the life of a container or sandbox. Steps are ordered as they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LifeStep {
    /// It was created.
    Created,
    /// It is running; for a sandbox: it is ready.
    Started,
    /// It has ended; for a sandbox: it is no longer ready.
    Stopped,
    /// The runtime no longer knows it, or is about to forget it.
    Deleted,
}

/// One announcement of a runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The id of the container or sandbox.
    pub id: Arc<str>,
    /// What happened to it.
    pub step: LifeStep,
    /// The pod that it belongs to, if the runtime reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// What it is, if the runtime reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// How it ended, if it has ended and the runtime reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// When it ended, if it has ended and the runtime reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exited_at: Option<UnixNanos>,
    /// When the runtime made the announcement, by its own clock. Used only to tell new announcements from old ones,
    /// which some runtimes keep for the next reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced_at: Option<UnixNanos>,
}

impl Announcement {
    /// Merges a repeated announcement of the same step: either may contain what the other lacks.
    pub(crate) fn add(&mut self, again: Self) {
        self.pod = again.pod.or(self.pod.take());
        self.subject = again.subject.or(self.subject.take());
        self.exit = again.exit.or(self.exit.take());
        self.exited_at = again.exited_at.or(self.exited_at);
        self.announced_at = again.announced_at.or(self.announced_at);
    }
}

/// A runtime's stream of announcements.
pub trait Announcements: Send + 'static {
    /// Returns the next announcement, or `None` once the runtime has ended the stream. Dropping the future must not
    /// lose an announcement.
    fn next(&mut self) -> impl Future<Output = Option<Result<Announcement, StreamError>>> + Send;
}

/// Why there are no announcements, or no more of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamError {
    /// The runtime has no event stream.
    #[error("the runtime has no event stream")]
    Unsupported,
    /// The runtime ended the stream at once, without sending anything: it has an event stream, but it is switched off.
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
    /// Whether retrying soon is pointless.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        matches!(self, Self::Unsupported | Self::SwitchedOff)
    }
}

/// The [`Announcements`] of a runtime that has none.
#[derive(Debug)]
pub enum NoAnnouncements {}

impl Announcements for NoAnnouncements {
    async fn next(&mut self) -> Option<Result<Announcement, StreamError>> {
        match *self {}
    }
}
