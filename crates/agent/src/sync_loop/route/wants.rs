//! What the sources want, by pod. If two of them want a pod of the same UID, the one that already has it keeps it, and
//! when it lets go the next one takes over. So neither the order in which sources are read nor a restart of the agent
//! matters.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::PodUid;

use crate::source::SourceId;

/// A pod as a source wants it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Want {
    pub(super) source: SourceId,
    pub(super) pod: Arc<Pod>,
}

/// What the sources want. A pod is in it only if a source wants it.
#[derive(Debug, Default)]
pub(super) struct Wants(BTreeMap<PodUid, Vec<Want>>);

impl Wants {
    /// Returns the version of a pod that counts.
    pub(super) fn of(&self, uid: &PodUid) -> Option<&Want> {
        self.0.get(uid)?.first()
    }

    /// Returns the source that has a pod, and the one that would have it next, if several want it.
    pub(super) fn rivals(&self, uid: &PodUid) -> Option<(&SourceId, &SourceId)> {
        match &self.0.get(uid)?[..] {
            [first, .., next] => Some((&first.source, &next.source)),
            _ => None,
        }
    }

    /// Adds a pod that a source wants. A source that `has_had` the pod comes before all others; any other waits behind
    /// those that came before it.
    pub(super) fn add(&mut self, uid: &PodUid, want: Want, has_had: bool) {
        let wants = self.0.entry(uid.clone()).or_default();
        wants.retain(|other| other.source != want.source);
        let place = if has_had { 0 } else { wants.len() };
        wants.insert(place, want);
    }

    /// Changes what a source wants of a pod that it already wants. Returns whether that matters now.
    pub(super) fn update(&mut self, uid: &PodUid, want: Want) -> bool {
        let Some(wants) = self.0.get_mut(uid) else { return false };
        let Some(place) = wants.iter().position(|other| other.source == want.source) else { return false };
        wants[place] = want;
        place == 0
    }

    /// Removes a pod that a source no longer wants. Returns whether that matters now.
    pub(super) fn remove(&mut self, uid: &PodUid, source: &SourceId) -> bool {
        let Some(wants) = self.0.get_mut(uid) else { return false };
        let had_its_way = wants.first().is_some_and(|first| first.source == *source);
        wants.retain(|want| want.source != *source);
        if wants.is_empty() {
            self.0.remove(uid);
        }
        had_its_way
    }

    /// Makes sure that the pod does not come back, whatever the sources want.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.0.remove(uid);
    }
}
