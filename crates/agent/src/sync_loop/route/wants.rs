//! What the sources want, by pod. Two of them may want a pod of the same UID: who has had it keeps it, and when that one lets
//! go the next takes over. So it does not matter who is heard first, nor that the agent is started anew.

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

/// What the sources want. Nobody is in it whom no source wants.
#[derive(Debug, Default)]
pub(super) struct Wants(BTreeMap<PodUid, Vec<Want>>);

impl Wants {
    /// What is to be done about a pod.
    pub(super) fn of(&self, uid: &PodUid) -> Option<&Want> {
        self.0.get(uid)?.first()
    }

    /// Whose a pod is, and who would have it next, if several want it.
    pub(super) fn rivals(&self, uid: &PodUid) -> Option<(&SourceId, &SourceId)> {
        match &self.0.get(uid)?[..] {
            [first, .., next] => Some((&first.source, &next.source)),
            _ => None,
        }
    }

    /// A source wants a pod. If it `has_had` the pod it comes before all others, else it waits for those who came before.
    pub(super) fn add(&mut self, uid: &PodUid, want: Want, has_had: bool) {
        let wants = self.0.entry(uid.clone()).or_default();
        wants.retain(|other| other.source != want.source);
        let place = if has_had { 0 } else { wants.len() };
        wants.insert(place, want);
    }

    /// A source wants a pod that it has wanted before to be different. Says whether that matters now.
    pub(super) fn update(&mut self, uid: &PodUid, want: Want) -> bool {
        let Some(wants) = self.0.get_mut(uid) else { return false };
        let Some(place) = wants.iter().position(|other| other.source == want.source) else { return false };
        wants[place] = want;
        place == 0
    }

    /// A source no longer wants a pod. Says whether that matters now.
    pub(super) fn remove(&mut self, uid: &PodUid, source: &SourceId) -> bool {
        let Some(wants) = self.0.get_mut(uid) else { return false };
        let had_its_way = wants.first().is_some_and(|first| first.source == *source);
        wants.retain(|want| want.source != *source);
        if wants.is_empty() {
            self.0.remove(uid);
        }
        had_its_way
    }

    /// Whatever the sources say, the pod is not to come back.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.0.remove(uid);
    }
}
