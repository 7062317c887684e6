//! Assembles pods from the entries of two lists, without losing an entry.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use rubelet_model::{ContainerId, ListedContainer, ListedSandbox, PodRef, PodUid, RuntimePod, SandboxId};

use crate::listing::{ContainerEntry, ContainerList, PodListing, SandboxEntry, SandboxList};

/// Groups sandboxes and containers by pod.
///
/// - A sandbox belongs to the pod that its metadata (or else its label) names. Without a UID, it belongs to a pod of
///   its own, whose key is the sandbox's id.
/// - A container belongs to the pod of its sandbox. If its sandbox is not in the list, it belongs to the pod that its
///   labels name; if they name none, to a pod whose key is the sandbox's id, or the container's own id if it names no
///   sandbox.
///
/// Every entry of either list ends up in exactly one pod. Pods come in order of appearance.
#[must_use]
pub fn assemble(sandboxes: &SandboxList, containers: &ContainerList) -> PodListing {
    let mut pods = Pods::with_capacity(sandboxes.len());
    for entry in sandboxes.iter() {
        pods.add_sandbox(&entry);
    }
    for entry in containers.iter() {
        pods.add_container(&entry);
    }
    let misplaced = pods.misplaced;
    let mut pods = pods.pods;
    for pod in &mut pods {
        pod.sort();
        // A runtime may show the same thing twice in one answer. The later entry counts.
        pod.sandboxes.dedup_by(|later, kept| later.id == kept.id && swapped(later, kept));
        pod.containers.dedup_by(|later, kept| later.id == kept.id && swapped(later, kept));
    }
    PodListing {
        pods,
        unreadable: sandboxes.unreadable + containers.unreadable + misplaced,
        epoch: (sandboxes.epoch == containers.epoch).then_some(sandboxes.epoch),
    }
}

/// Pods under construction. Keys borrow from the lists, so that an id is allocated only once for each sandbox or
/// container.
struct Pods<'a> {
    pods: Vec<RuntimePod>,
    by_key: HashMap<&'a str, usize>,
    by_sandbox: HashMap<&'a str, (usize, SandboxId)>,
    /// For each pod, whether its name comes from a sandbox and not from the labels of a container.
    named_by_sandbox: Vec<bool>,
    /// How many entries went to a pod only because damage hides the pod that they really belong to.
    misplaced: usize,
    /// Interned namespaces and container names, of which there are few.
    words: HashMap<&'a str, Arc<str>>,
}

impl<'a> Pods<'a> {
    fn with_capacity(sandboxes: usize) -> Self {
        Self {
            pods: Vec::with_capacity(sandboxes),
            named_by_sandbox: Vec::with_capacity(sandboxes),
            by_key: HashMap::with_capacity(sandboxes),
            by_sandbox: HashMap::with_capacity(sandboxes),
            misplaced: 0,
            words: HashMap::new(),
        }
    }

    fn add_sandbox(&mut self, entry: &SandboxEntry<'a>) {
        let key = first_set([entry.pod_uid, entry.id]);
        let index = self.pod(key, entry.pod_namespace, entry.pod_name, true);
        let id = SandboxId::from(entry.id);
        let pod = &mut self.pods[index];
        pod.selectable &= entry.selectable;
        reserve_first(&mut pod.sandboxes);
        pod.sandboxes.push(ListedSandbox {
            id: id.clone(),
            attempt: entry.attempt,
            state: entry.state,
            created_at: entry.created_at,
        });
        self.by_sandbox.insert(entry.id, (index, id));
    }

    fn add_container(&mut self, entry: &ContainerEntry<'a>) {
        let (index, sandbox) = match self.by_sandbox.get(entry.sandbox) {
            Some((index, sandbox)) => (*index, sandbox.clone()),
            None => {
                let key = first_set([entry.pod_uid, entry.sandbox, entry.id]);
                // Without a sandbox id, it was already counted when it was read.
                let is_misplaced = entry.damaged && entry.pod_uid.is_empty() && !entry.sandbox.is_empty();
                self.misplaced += usize::from(is_misplaced);
                let index = self.pod(key, entry.pod_namespace, entry.pod_name, false);
                (index, SandboxId::from(entry.sandbox))
            }
        };
        let name = self.word(entry.name);
        let pod = &mut self.pods[index];
        pod.selectable &= entry.pod_uid == pod.pod.uid.as_str();
        reserve_first(&mut pod.containers);
        pod.containers.push(ListedContainer {
            id: ContainerId::from(entry.id),
            name,
            sandbox,
            attempt: entry.attempt,
            state: entry.state,
            created_at: entry.created_at,
        });
    }

    /// Returns the index of the pod with this key, and creates the pod if necessary.
    ///
    /// If entries disagree about the pod's name, sandboxes take precedence over containers, and then the smallest
    /// non-empty name wins, so that the order of arrival does not matter.
    fn pod(&mut self, key: &'a str, namespace: &'a str, name: &'a str, by_sandbox: bool) -> usize {
        let next = self.pods.len();
        match self.by_key.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(next);
                let namespace = self.word(namespace);
                let pod = PodRef { uid: PodUid::from(key), namespace, name: name.into() };
                self.pods.push(RuntimePod::empty(pod));
                self.named_by_sandbox.push(by_sandbox);
                next
            }
            Entry::Occupied(occupied) => {
                let index = *occupied.get();
                let known = &self.pods[index].pod;
                let known_rank =
                    (known.name.is_empty(), !self.named_by_sandbox[index], &*known.namespace, &*known.name);
                if (name.is_empty(), !by_sandbox, namespace, name) < known_rank {
                    let namespace = self.word(namespace);
                    let pod = &mut self.pods[index].pod;
                    pod.namespace = namespace;
                    pod.name = name.into();
                    self.named_by_sandbox[index] = by_sandbox;
                }
                index
            }
        }
    }

    fn word(&mut self, text: &'a str) -> Arc<str> {
        Arc::clone(self.words.entry(text).or_insert_with(|| text.into()))
    }
}

fn swapped<T>(one: &mut T, other: &mut T) -> bool {
    std::mem::swap(one, other);
    true
}

/// Reserves room for one item, where a vector by itself would reserve room for four: most pods have one sandbox, and
/// many have one container.
fn reserve_first<T>(items: &mut Vec<T>) {
    if items.is_empty() {
        items.reserve_exact(1);
    }
}

fn first_set<const N: usize>(candidates: [&str; N]) -> &str {
    candidates.into_iter().find(|candidate| !candidate.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
