//! The entries of a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use rubelet_model::{PodUid, RuntimePod, UnixNanos};
use serde::{Deserialize, Serialize};

use crate::clock::{Now, Stamp};
use crate::core::{Core, Input};
use crate::observe::{Listing, ObserveError};

/// The version of the format that is written. Readers know all versions up to theirs.
pub(super) const VERSION: u32 = 1;

/// The version of the core's rules. It is raised whenever the same inputs may lead to other requests or events than
/// before.
pub const RULES: u32 = 4;

/// The first entry of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format.
    pub rubelet_recording: u32,
    /// The version of the rules by which the recorded core decided.
    #[serde(default)]
    pub rules: u32,
    /// When the file was begun.
    pub began_at: UnixNanos,
    /// What was recorded, in words: the runtime and its endpoint.
    #[serde(default)]
    pub about: String,
}

/// An entry after the header. The core and its inputs are borrowed for writing, and owned after reading.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Entry<C, I> {
    /// The state that the following inputs apply to.
    State(C),
    /// An input and its moment.
    #[serde(rename = "in")]
    Input(Now, Recorded<I>),
    /// This many inputs were left out, since the disk was too slow, too small, or failed. A state follows.
    Gap(u64),
    /// The recording ended as it should.
    End,
}

/// An entry to be written.
pub(super) type Writing<'a> = Entry<&'a Core, &'a Input>;

/// An entry that was read.
pub(super) type Read = Entry<Box<Core>, Box<Input>>;

/// An input. Of a full list only the changes are written, since hardly anything ever changes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Recorded<I> {
    Listed {
        asked: Stamp,
        answer: Result<Difference, ObserveError>,
    },
    #[serde(untagged)]
    Other(I),
}

/// How a full list differs from the one before it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    /// Pods that are new or have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pods: Vec<Arc<RuntimePod>>,
    /// Pods that are no longer listed.
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

/// The last full list, with which the next one is compared.
#[derive(Debug, Default)]
pub(super) struct LastList(BTreeMap<PodUid, Arc<RuntimePod>>);

impl LastList {
    /// Returns how `listing` differs from the last list, and makes it the last list.
    pub(super) fn difference(&mut self, listing: &Listing) -> Difference {
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
        Difference {
            pods,
            gone: before.into_keys().collect(),
            unreadable: listing.unreadable,
            epoch: listing.epoch,
        }
    }

    /// Returns the listing that differs from the last list like this, and makes it the last list.
    pub(super) fn listing(&mut self, difference: Difference) -> Listing {
        for uid in &difference.gone {
            self.0.remove(uid);
        }
        self.0.extend(difference.pods.into_iter().map(|pod| (pod.pod.uid.clone(), pod)));
        let pods = self.0.values().cloned().collect();
        Listing { pods, unreadable: difference.unreadable, epoch: difference.epoch }
    }
}
