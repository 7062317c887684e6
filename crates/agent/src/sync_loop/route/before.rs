//! Pods that are here since before this agent. Until the source of one was heard it may still want it: so long the pod keeps
//! its name, its UID and its room.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{PodRef, PodUid};

use super::Routes;
use crate::board::{Footprint, Standing};
use crate::pod::{full_name, orphan};
use crate::source::SourceId;

/// By what a pod has a right to its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Runs,
    HadAPlace,
    Comes,
}

impl Routes {
    /// What an agent before this one noted of its pods.
    pub(in crate::sync_loop) fn note_footprints(&mut self, before: BTreeMap<PodUid, Footprint>) {
        self.before = before;
    }

    /// Whether a pod that is here since before this agent has finished: it never runs again, and takes no room.
    pub(super) fn had_finished(&self, uid: &PodUid) -> bool {
        self.before.get(uid).is_some_and(|noted| noted.standing == Standing::Finished)
    }

    /// Who is let in first: who runs, then who had a place and will run again, then everybody else.
    pub(super) fn rank(&self, uid: &PodUid) -> Rank {
        let had_a_place = self.before.get(uid).is_none_or(|noted| noted.standing == Standing::Active);
        match self.surveyed.get(uid) {
            Some(found) if !found.is_at_rest => Rank::Runs,
            Some(_) if had_a_place => Rank::HadAPlace,
            _ => Rank::Comes,
        }
    }

    /// Whose a pod was that is here since before this agent, if that was noted.
    pub(super) fn source_before(&self, uid: &PodUid) -> Option<&SourceId> {
        self.before.get(uid)?.source.as_ref()
    }

    /// How many seconds such a pod may take to end, if that was noted.
    pub(super) fn grace_before(&self, uid: &PodUid) -> Option<i64> {
        self.before.get(uid)?.pod.spec.as_ref()?.termination_grace_period_seconds
    }

    /// Whether nobody has spoken for a pod that is here since before this agent, but somebody may.
    pub(super) fn may_be_claimed(&self, uid: &PodUid) -> bool {
        let may_speak = match self.source_before(uid) {
            Some(source) => self.sources.waits_for(source),
            None => !self.sources.all(),
        };
        may_speak && self.surveyed.contains_key(uid) && !self.records.contains_key(uid)
    }

    /// Whether a pod must not come yet: it would take from one that is here since before this agent, and may be wanted, its
    /// UID, its name, or what of the node nobody knows.
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

    /// What a pod takes that is here since before this agent, and runs.
    pub(super) fn before_it_is_claimed(&self, uid: &PodUid) -> Option<&Pod> {
        let noted = self.before.get(uid).filter(|noted| noted.standing == Standing::Active)?;
        self.surveyed.get(uid).filter(|found| !found.is_at_rest)?;
        Some(&noted.pod)
    }

    /// Those that take room and that nobody has spoken for, by name. Nobody may want them any more: they take it until they
    /// have ended.
    pub(super) fn unclaimed(&self) -> impl Iterator<Item = (Arc<str>, &Pod)> {
        let unclaimed = self.surveyed.iter().filter(|(uid, _)| !self.records.contains_key(*uid));
        unclaimed.filter_map(|(uid, found)| {
            Some((full_name(&orphan(&found.pod)), self.before_it_is_claimed(uid)?))
        })
    }
}
