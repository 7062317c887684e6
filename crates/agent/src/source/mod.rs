//! The sources of pods. Every source sends everything it knows each time anything changes; no source sends differences.
//! [`merge`](crate::merge) turns the sets into differences, and [`feed`] carries them to the sync loop.
//!
//! A source that cannot read its pods (an unreadable folder, a server that does not answer) reports that and nothing
//! else: its previous set stays in effect.
//!
//! A manifest that cannot be used leaves its running pod alone: its last good version stays in the set until the file
//! is removed, and the set reports what is wrong.

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
pub use last_good::forget_kept_of_others;
pub use look::OpenForWriting;

/// How often a source checks for changes if nothing triggers it.
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
    /// Returns the name that is used in annotations.
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

/// The identity of a source: several sources of a kind may be configured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// Its kind.
    pub kind: SourceKind,
    /// Its path or URL.
    pub place: Arc<str>,
}

impl SourceId {
    /// Returns the ID of the source of `kind` at `place`.
    pub fn new(kind: SourceKind, place: impl Into<Arc<str>>) -> Self {
        Self { kind, place: place.into() }
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.place)
    }
}

/// Everything a source knows at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSet {
    /// Its pods: defaulted, valid, and named for this node.
    pub pods: Vec<Arc<Pod>>,
    /// The config maps and secrets that its pods may use.
    pub objects: Arc<Objects>,
    /// What is currently wrong with the source. Empty again once everything is fixed.
    pub problems: Vec<Problem>,
}

impl SourceSet {
    /// Whether the other set has the very same pods and objects (not merely equal ones) and the same problems. If a
    /// scan found nothing new, it ends with this check.
    fn is_same(&self, other: &Self) -> bool {
        let same_pods = self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(|(pod, other)| Arc::ptr_eq(pod, other));
        same_pods && self.objects.is_same(&other.objects) && self.problems == other.problems
    }
}

/// A source of pods.
pub trait Source: Send + 'static {
    /// Returns the ID of this source.
    fn id(&self) -> SourceId;

    /// Sends the set immediately, and again after each change, until the future is dropped. A source that has nothing
    /// sends an empty set, because no pod is ended before every source has been read.
    fn run(self, sets: SetSender) -> impl Future<Output = ()> + Send;
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;
    use crate::manifest::{Issue, ObjectKey};

    fn objects(of: &Objects, change: impl FnOnce(&mut Objects)) -> Arc<Objects> {
        let mut objects = of.clone();
        change(&mut objects);
        Arc::new(objects)
    }

    #[test]
    fn a_set_is_the_same_only_if_nothing_was_read_anew() {
        let key = ObjectKey::new("default", "a");
        let mut known = Objects::default();
        known.config_maps.insert(key.clone(), Arc::new(ConfigMap::default()));
        known.secrets.insert(key.clone(), Arc::new(Secret::default()));
        let pods = vec![Arc::new(Pod::default()), Arc::new(Pod::default())];
        let set = SourceSet { pods, objects: Arc::new(known.clone()), problems: vec![] };

        let again = SourceSet { objects: Arc::new(known.clone()), ..set.clone() };
        assert!(set.is_same(&again), "what was read before, put together again");

        let problem = Problem::error("place", Issue::Duplicate);
        let others = [
            SourceSet { pods: set.pods[..1].to_vec(), ..set.clone() },
            SourceSet { pods: vec![Arc::clone(&set.pods[0]), Arc::new(Pod::default())], ..set.clone() },
            SourceSet { problems: vec![problem], ..set.clone() },
            SourceSet { objects: Arc::default(), ..set.clone() },
            SourceSet {
                objects: objects(&known, |known| {
                    known.config_maps.insert(key.clone(), Arc::new(ConfigMap::default()));
                }),
                ..set.clone()
            },
            SourceSet {
                objects: objects(&known, |known| {
                    let secret = known.secrets.remove(&key).unwrap();
                    known.secrets.insert(ObjectKey::new("default", "b"), secret);
                }),
                ..set.clone()
            },
        ];
        for (index, other) in others.iter().enumerate() {
            assert!(!set.is_same(other), "{index}");
            assert!(!other.is_same(&set), "{index}");
        }
    }
}
