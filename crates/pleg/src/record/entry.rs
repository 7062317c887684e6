//! What stands in a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use rubelet_model::{PodUid, RuntimePod, UnixNanos};
use serde::{Deserialize, Serialize};

use crate::clock::{Now, Stamp};
use crate::core::{Core, Input};
use crate::observe::{Listing, ObserveError};

/// The version of the format that is written. Readers know all up to theirs.
pub(super) const VERSION: u32 = 1;

/// By which rules the core decides. Raised whenever the same inputs may lead to other questions than before.
pub(super) const RULES: u32 = 1;

/// The first entry of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format.
    pub rubelet_recording: u32,
    /// By which rules the core decided that was recorded.
    #[serde(default)]
    pub rules: u32,
    /// When it was begun.
    pub began_at: UnixNanos,
    /// What was recorded, in words: the runtime and its endpoint.
    #[serde(default)]
    pub about: String,
}

/// An entry after the header.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Entry<'a> {
    /// The state that what follows starts from.
    State(State<'a>),
    /// An input, and its moment.
    #[serde(rename = "in")]
    Input(Now, Recorded<'a>),
    /// So many inputs were left out, since the disk was too slow. A state follows.
    Gap(u64),
    /// The recording ended as it should.
    End,
}

/// The core, borrowed to be written or owned after it was read.
#[derive(Debug)]
pub(super) enum State<'a> {
    Lent(&'a Core),
    Owned(Box<Core>),
}

impl Serialize for State<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Lent(core) => core.serialize(serializer),
            Self::Owned(core) => core.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for State<'_> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Core::deserialize(deserializer).map(|core| Self::Owned(Box::new(core)))
    }
}

/// An input. Of a list of all pods only what is new is written, since hardly anything is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Recorded<'a> {
    Listed {
        asked: Stamp,
        answer: Result<News, ObserveError>,
    },
    #[serde(untagged)]
    Other(Plain<'a>),
}

/// An input as it is, borrowed to be written or owned after it was read.
#[derive(Debug)]
pub(super) enum Plain<'a> {
    Lent(&'a Input),
    Owned(Box<Input>),
}

impl Serialize for Plain<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Lent(input) => input.serialize(serializer),
            Self::Owned(input) => input.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Plain<'_> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Input::deserialize(deserializer).map(|input| Self::Owned(Box::new(input)))
    }
}

/// How a list of all pods differs from the one before it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct News {
    /// Pods that are new, or not as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pods: Vec<Arc<RuntimePod>>,
    /// Pods that are no longer there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<PodUid>,
    #[serde(default, skip_serializing_if = "is_zero")]
    unreadable: usize,
    epoch: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The list of all pods that the next one is compared with.
#[derive(Debug, Default)]
pub(super) struct LastList(BTreeMap<PodUid, Arc<RuntimePod>>);

impl LastList {
    /// What is new in `listing`.
    pub(super) fn news(&mut self, listing: &Listing) -> News {
        let mut before = std::mem::take(&mut self.0);
        let mut pods = Vec::new();
        for pod in &listing.pods {
            let is_as_it_was =
                before.remove(&pod.pod.uid).is_some_and(|was| Arc::ptr_eq(&was, pod) || was == *pod);
            if !is_as_it_was {
                pods.push(pod.clone());
            }
            self.0.insert(pod.pod.uid.clone(), pod.clone());
        }
        News {
            pods,
            gone: before.into_keys().collect(),
            unreadable: listing.unreadable,
            epoch: listing.epoch,
        }
    }

    /// The listing that had this news.
    pub(super) fn listing(&mut self, news: News) -> Listing {
        for uid in &news.gone {
            self.0.remove(uid);
        }
        self.0.extend(news.pods.into_iter().map(|pod| (pod.pod.uid.clone(), pod)));
        let pods = self.0.values().cloned().collect();
        Listing { pods, unreadable: news.unreadable, epoch: news.epoch }
    }
}
