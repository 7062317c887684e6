//! Pods that are older than this agent. Until the source of such a pod has been read, it may still want the pod; until
//! then the pod keeps its name, its UID and its room.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{PodRef, PodUid};

use super::Routes;
use crate::board::{Footprint, Standing};
use crate::pod::{full_name, orphan};
use crate::source::SourceId;

/// The claim that a pod has to its room, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Runs,
    HadAPlace,
    Comes,
}

impl Routes {
    /// Notes what an earlier agent recorded about its pods.
    pub(in crate::sync_loop) fn note_footprints(&mut self, before: BTreeMap<PodUid, Footprint>) {
        self.before = before;
    }

    /// Whether a pod that is older than this agent has finished: it never runs again, and takes no room.
    pub(super) fn had_finished(&self, uid: &PodUid) -> bool {
        self.before.get(uid).is_some_and(|noted| noted.standing == Standing::Finished)
    }

    /// The rank in which pods are let in: first what runs, then what had a place and will run again, then the rest.
    pub(super) fn rank(&self, uid: &PodUid) -> Rank {
        let had_a_place = self.before.get(uid).is_none_or(|noted| noted.standing == Standing::Active);
        match self.surveyed.get(uid) {
            Some(found) if !found.is_at_rest => Rank::Runs,
            Some(_) if had_a_place => Rank::HadAPlace,
            _ => Rank::Comes,
        }
    }

    /// The source of a pod that is older than this agent, if it was recorded.
    pub(super) fn source_before(&self, uid: &PodUid) -> Option<&SourceId> {
        self.before.get(uid)?.source.as_ref()
    }

    /// The grace period of such a pod in seconds, if it was recorded.
    pub(super) fn grace_before(&self, uid: &PodUid) -> Option<i64> {
        self.before.get(uid)?.pod.spec.as_ref()?.termination_grace_period_seconds
    }

    /// Whether no source has claimed a pod that is older than this agent, but one still may.
    pub(super) fn may_be_claimed(&self, uid: &PodUid) -> bool {
        let may_speak = match self.source_before(uid) {
            Some(source) => self.sources.waits_for(source),
            None => !self.sources.all(),
        };
        may_speak && self.surveyed.contains_key(uid) && !self.records.contains_key(uid)
    }

    /// Whether a pod must not start yet: it would take the UID, the name, or an unknown share of the node from a pod
    /// that is older than this agent and may be wanted.
    pub(super) fn must_wait(&self, newcomer: &PodRef) -> bool {
        if self.sources.all() {
            return false;
        }
        let is_anothers = self.source_before(&newcomer.uid).is_some() && self.may_be_claimed(&newcomer.uid);
        let is_rivalled = || self.namesakes_before(newcomer).any(|found| self.may_be_claimed(&found.uid));
        let is_new = !self.surveyed.contains_key(&newcomer.uid);
        let of_unknown_size = |uid: &PodUid| !self.before.contains_key(uid) && self.may_be_claimed(uid);
        is_anothers || is_rivalled() || is_new && self.surveyed.keys().any(of_unknown_size)
    }

    /// Returns what a pod that is older than this agent takes, if it runs.
    pub(super) fn before_it_is_claimed(&self, uid: &PodUid) -> Option<&Pod> {
        let noted = self.before.get(uid).filter(|noted| noted.standing == Standing::Active)?;
        self.surveyed.get(uid).filter(|found| !found.is_at_rest)?;
        Some(&noted.pod)
    }

    /// The pods that take room and that no source has claimed, by name. Even if no source wants them any more, they
    /// take it until they have ended.
    pub(super) fn unclaimed(&self) -> impl Iterator<Item = (Arc<str>, &Pod)> {
        let unclaimed = self.surveyed.iter().filter(|(uid, _)| !self.records.contains_key(*uid));
        unclaimed.filter_map(|(uid, found)| {
            Some((full_name(&orphan(&found.pod)), self.before_it_is_claimed(uid)?))
        })
    }
}
