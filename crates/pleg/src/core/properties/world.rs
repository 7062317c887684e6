//! What really is on a node.

use std::collections::BTreeMap;

use rubelet_model::{ContainerState, RuntimePod, SandboxState};

use super::super::harness::{announcement, container, pod, sandbox};
use super::PODS;
use crate::announce::{Announcement, LifeStep};
use crate::clock::Stamp;
use crate::diff::Seen;

/// What really is on the node, and what was there before.
#[derive(Default)]
pub(super) struct World {
    pub(super) containers: BTreeMap<&'static str, BTreeMap<String, ContainerState>>,
    pub(super) sandboxes: BTreeMap<&'static str, (String, SandboxState)>,
    pub(super) made: usize,
    /// For every container: its states with the moments they began, and when it was removed.
    pub(super) past: BTreeMap<String, Past>,
    /// What the runtime has yet to announce.
    pub(super) to_announce: Vec<Announcement>,
}

#[derive(Default)]
pub(super) struct Past {
    pub(super) states: Vec<(Stamp, ContainerState)>,
    pub(super) removed: Option<Stamp>,
}

impl Past {
    pub(super) fn was_after(&self, state: ContainerState, moment: Stamp) -> bool {
        self.states.iter().enumerate().any(|(index, (_, was))| {
            let until = self.states.get(index + 1).map(|(since, _)| *since).or(self.removed);
            *was == state && until.is_none_or(|until| until > moment)
        })
    }

    pub(super) fn exists_since(&self, moment: Stamp) -> bool {
        self.removed.is_none() && self.states.first().is_some_and(|(since, _)| *since <= moment)
    }
}

impl World {
    pub(super) fn view(&self, uid: &'static str) -> Option<RuntimePod> {
        let containers = self.containers.get(uid);
        let here = self.sandboxes.get(uid);
        if containers.is_none_or(BTreeMap::is_empty) && here.is_none() {
            return None;
        }
        let mut view = pod(uid, &[]);
        view.containers = containers.into_iter().flatten().map(|(id, state)| container(id, *state)).collect();
        view.sandboxes = here.into_iter().map(|(id, state)| sandbox(id, *state)).collect();
        view.sort();
        Some(view)
    }

    pub(super) fn views(&self) -> Vec<RuntimePod> {
        PODS.into_iter().filter_map(|uid| self.view(uid)).collect()
    }

    pub(super) fn happened(&mut self, uid: &'static str, id: &str, step: LifeStep) {
        self.to_announce.push(announcement(uid, id, step));
    }

    pub(super) fn set(&mut self, uid: &'static str, id: String, state: ContainerState, at: Stamp) {
        let step = match Seen::from(state) {
            Seen::Running => LifeStep::Started,
            Seen::Exited => LifeStep::Stopped,
            Seen::Unknown => LifeStep::Created,
        };
        self.happened(uid, &id, step);
        self.past.entry(id.clone()).or_default().states.push((at, state));
        self.containers.entry(uid).or_default().insert(id, state);
    }

    pub(super) fn pod_of(&self, id: &str) -> Option<&'static str> {
        self.containers.iter().find(|(_, containers)| containers.contains_key(id)).map(|(uid, _)| *uid)
    }

    pub(super) fn nth(&self, uid: &str, which: usize) -> Option<String> {
        self.containers.get(uid)?.keys().nth(which).cloned()
    }

    pub(super) fn remove(&mut self, uid: &'static str, id: &str, at: Stamp) {
        self.happened(uid, id, LifeStep::Deleted);
        if let Some(containers) = self.containers.get_mut(uid) {
            containers.remove(id);
        }
        if let Some(past) = self.past.get_mut(id) {
            past.removed = Some(at);
        }
    }
}
