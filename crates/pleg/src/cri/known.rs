//! Assembles the pods of two lists, and shares the unchanged ones with the listing before.
//!
//! In nearly every list, nearly every pod is unchanged. Such a pod is not created again: the listing contains the same
//! value as the one before, which takes no memory, and which the core recognises by its address. All other pods are
//! [assembled](rubelet_cri::assemble) as if there were nothing else.

use std::sync::Arc;

use foldhash::HashMap;
use rubelet_cri::{ContainerEntry, ContainerList, SandboxEntry, SandboxList};
use rubelet_model::{ContainerId, ContainerState, PodUid, RuntimePod, SandboxId, SandboxState};

use crate::observe::Listing;

/// The pods of the last listing that can be recognised in the next one. These are the pods that are complete, with the
/// sandboxes of all their containers, and fully understood, with nothing in an unknown state. If everything in such a
/// pod is listed again, in the same states, the pod is unchanged, since a runtime fixes the rest of an entry when it
/// creates the thing.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The known pods; each keeps its place for as long as it is known.
    places: Vec<Option<KnownPod>>,
    free: Vec<Place>,
    by_uid: HashMap<PodUid, Place>,
    sandboxes: HashMap<SandboxId, Thing<SandboxState>>,
    containers: HashMap<ContainerId, Thing<ContainerState>>,
    list_number: u64,
}

/// An index into `places`. There are far fewer pods than this type can count.
type Place = u32;

#[derive(Debug)]
struct KnownPod {
    pod: Arc<RuntimePod>,
    things: u32,
    /// How many of its things the current list has shown in the same state as before.
    found: u32,
    /// Whether the current list shows anything else of it.
    has_news: bool,
}

#[derive(Debug)]
struct Thing<S> {
    place: Place,
    state: S,
    /// The number of the list that showed it last.
    seen_by: u64,
}

impl Known {
    /// Assembles the pods of these two lists of one connection: each pod once, in any order.
    pub(super) fn assemble(&mut self, sandboxes: &SandboxList, containers: &ContainerList) -> Listing {
        let epoch = containers.epoch;
        if self.by_uid.is_empty() {
            let all = rubelet_cri::assemble(sandboxes, containers);
            let pods = all.pods.into_iter().map(|pod| self.share(pod)).collect();
            return Listing { pods, unreadable: all.unreadable, epoch };
        }
        self.list_number += 1;
        for known in self.places.iter_mut().flatten() {
            (known.found, known.has_news) = (0, false);
        }
        let of_sandboxes: Vec<_> = sandboxes.iter().map(|entry| self.find_sandbox(&entry)).collect();
        let of_containers: Vec<_> = containers.iter().map(|entry| self.find_container(&entry)).collect();

        let (mut other_sandboxes, mut other_containers) = <(SandboxList, ContainerList)>::default();
        for (entry, place) in sandboxes.iter().zip(of_sandboxes) {
            if !place.is_some_and(|place| self.is_unchanged(place)) {
                other_sandboxes.push(entry);
            }
        }
        for (entry, place) in containers.iter().zip(of_containers) {
            if !place.is_some_and(|place| self.is_unchanged(place)) {
                other_containers.push(entry);
            }
        }
        let others = rubelet_cri::assemble(&other_sandboxes, &other_containers);
        let is_of_known_pod =
            |pod: &RuntimePod| self.by_uid.get(&pod.pod.uid).is_some_and(|&place| self.is_unchanged(place));
        if others.pods.iter().any(is_of_known_pod) {
            // Something has moved from one pod to another, so nothing that is known can be relied on.
            *self = Self::default();
            return self.assemble(sandboxes, containers);
        }

        let mut pods = Vec::with_capacity(self.by_uid.len() + others.pods.len());
        for place in 0..self.places.len() as Place {
            if self.is_unchanged(place) {
                pods.extend(self.places[place as usize].as_ref().map(|known| known.pod.clone()));
            } else {
                self.forget(place);
            }
        }
        pods.extend(others.pods.into_iter().map(|pod| self.share(pod)));
        let unreadable = sandboxes.unreadable + containers.unreadable + others.unreadable;
        Listing { pods, unreadable, epoch }
    }

    /// Makes a pod shareable for as long as it stays unchanged.
    fn share(&mut self, mut pod: RuntimePod) -> Arc<RuntimePod> {
        pod.sandboxes.shrink_to_fit();
        pod.containers.shrink_to_fit();
        let pod = Arc::new(pod);
        if is_recognisable(&pod) {
            self.remember(pod.clone());
        }
        pod
    }

    /// The place of a sandbox that is unchanged.
    fn find_sandbox(&mut self, entry: &SandboxEntry<'_>) -> Option<Place> {
        if let Some(thing) = self.sandboxes.get_mut(entry.id)
            && thing.is_the_same(entry.state, self.list_number)
        {
            let place = thing.place;
            return self.found(place);
        }
        for key in [entry.pod_uid, entry.id] {
            self.has_news(self.by_uid.get(key).copied());
        }
        self.has_news(self.sandboxes.get(entry.id).map(|thing| thing.place));
        None
    }

    /// The place of a container that is unchanged.
    fn find_container(&mut self, entry: &ContainerEntry<'_>) -> Option<Place> {
        if let Some(thing) = self.containers.get_mut(entry.id)
            && thing.is_the_same(entry.state, self.list_number)
        {
            let place = thing.place;
            return self.found(place);
        }
        for key in [entry.pod_uid, entry.sandbox, entry.id] {
            self.has_news(self.by_uid.get(key).copied());
        }
        self.has_news(self.sandboxes.get(entry.sandbox).map(|thing| thing.place));
        self.has_news(self.containers.get(entry.id).map(|thing| thing.place));
        None
    }

    fn found(&mut self, place: Place) -> Option<Place> {
        self.places[place as usize].as_mut()?.found += 1;
        Some(place)
    }

    fn has_news(&mut self, place: Option<Place>) {
        if let Some(known) = place.and_then(|place| self.places[place as usize].as_mut()) {
            known.has_news = true;
        }
    }

    fn is_unchanged(&self, place: Place) -> bool {
        self.places[place as usize]
            .as_ref()
            .is_some_and(|known| !known.has_news && known.found == known.things)
    }

    fn forget(&mut self, place: Place) {
        let Some(KnownPod { pod, .. }) = self.places[place as usize].take() else { return };
        self.free.push(place);
        self.by_uid.remove(&pod.pod.uid);
        for sandbox in &pod.sandboxes {
            self.sandboxes.remove(&sandbox.id);
        }
        for container in &pod.containers {
            self.containers.remove(&container.id);
        }
    }

    fn remember(&mut self, pod: Arc<RuntimePod>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as Place
        });
        let seen_by = self.list_number;
        self.by_uid.insert(pod.pod.uid.clone(), place);
        for sandbox in &pod.sandboxes {
            self.sandboxes.insert(sandbox.id.clone(), Thing { place, state: sandbox.state, seen_by });
        }
        for container in &pod.containers {
            self.containers.insert(container.id.clone(), Thing { place, state: container.state, seen_by });
        }
        let things = (pod.sandboxes.len() + pod.containers.len()) as u32;
        self.places[place as usize] = Some(KnownPod { pod, things, found: 0, has_news: false });
    }
}

impl<S: Copy + PartialEq> Thing<S> {
    /// Whether it is still in this state. A list that shows it twice is not trusted on it.
    fn is_the_same(&mut self, state: S, list_number: u64) -> bool {
        let is_first = self.seen_by != list_number;
        self.seen_by = list_number;
        is_first && self.state == state
    }
}

fn is_recognisable(pod: &RuntimePod) -> bool {
    pod.sandboxes.iter().all(|sandbox| sandbox.state != SandboxState::Unknown)
        && pod.containers.iter().all(|container| {
            container.state != ContainerState::Unknown
                && pod.sandboxes.iter().any(|sandbox| sandbox.id == container.sandbox)
        })
}

#[cfg(test)]
#[path = "known/tests.rs"]
mod tests;
