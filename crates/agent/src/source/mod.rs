//! Where pods come from. Every source sends everything it knows, each time anything changes; nobody sends differences.
//! [`merge`](crate::merge) turns the sets into differences, and [`feed`] carries them to the sync loop.
//!
//! A source that cannot tell (a folder that cannot be read, a server that does not answer) says so and nothing else: what
//! it said before stays.
//!
//! A manifest that cannot be used leaves its running pod alone: its last good version stays in the set until the file is
//! gone, and the set says what is wrong.

pub mod feed;
mod file;
mod files;
mod hints;
mod holders;
mod http;
mod inbox;
mod last_good;
mod look;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::manifest::{Objects, Problem};
pub use feed::{Feed, SourceUpdate};
pub use file::FileSource;
pub use http::{HttpSource, HttpSourceError};
pub use inbox::{Inbox, SetSender};

/// How often a source looks when nothing tells it to.
pub const POLL_PERIOD: Duration = Duration::from_secs(20);

/// The kind of a source, by the name that the annotation `kubernetes.io/config.source` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A file, or a folder of files.
    File,
    /// A URL.
    Http,
    /// The API server.
    Api,
}

impl SourceKind {
    /// The name in annotations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One source: several of a kind may be configured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// Its kind.
    pub kind: SourceKind,
    /// Its path or URL.
    pub place: Arc<str>,
}

impl SourceId {
    /// The source of `kind` at `place`.
    pub fn new(kind: SourceKind, place: impl Into<Arc<str>>) -> Self {
        Self { kind, place: place.into() }
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.place)
    }
}

/// Everything a source knows, at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSet {
    /// Its pods, defaulted, valid and named for this node.
    pub pods: Vec<Arc<Pod>>,
    /// The config maps and secrets that its pods may use.
    pub objects: Arc<Objects>,
    /// What is wrong with it now. Empty again when all is repaired.
    pub problems: Vec<Problem>,
}

/// Something that knows pods.
pub trait Source: Send + 'static {
    /// Which source this is.
    fn id(&self) -> SourceId;

    /// Sends the set at once, and again after each change, until it is dropped. A source that has nothing sends an empty
    /// set: nothing is ended before every source was heard.
    fn run(self, sets: SetSender) -> impl Future<Output = ()> + Send;
}
