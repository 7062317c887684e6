//! Puts the entries of two lists together into pods, without losing one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rubelet_model::{ListedContainer, ListedSandbox, PodRef, PodUid, RuntimePod, SandboxId};

use crate::listing::{ContainerEntry, ContainerList, PodListing, SandboxEntry, SandboxList};

/// Groups sandboxes and containers by pod.
///
/// A sandbox belongs to the pod that its metadata names, or, without a UID, to a pod of its own, keyed by the
/// sandbox's id. A container belongs to the pod of its sandbox; if that is not in the list, to the pod that its
/// labels name; without those to a pod of its own, keyed by its sandbox's id. Every entry of either list ends up in
/// exactly one pod.
#[must_use]
pub fn assemble(sandboxes: SandboxList, containers: ContainerList) -> PodListing {
    let mut pods = Pods::with_capacity(sandboxes.entries.len());
    for entry in sandboxes.entries {
        pods.add_sandbox(entry);
    }
    for entry in containers.entries {
        pods.add_container(entry);
    }
    let mut pods = pods.pods;
    for pod in &mut pods {
        pod.sort();
    }
    PodListing {
        pods,
        unreadable: sandboxes.unreadable + containers.unreadable,
        epoch: (sandboxes.epoch == containers.epoch).then_some(sandboxes.epoch),
    }
}

struct Pods {
    pods: Vec<RuntimePod>,
    by_uid: HashMap<PodUid, usize>,
    by_sandbox: HashMap<SandboxId, usize>,
}

impl Pods {
    fn with_capacity(sandboxes: usize) -> Self {
        Self {
            pods: Vec::with_capacity(sandboxes),
            by_uid: HashMap::with_capacity(sandboxes),
            by_sandbox: HashMap::with_capacity(sandboxes),
        }
    }

    fn add_sandbox(&mut self, entry: SandboxEntry) {
        let uid = if entry.pod_uid.is_empty() {
            PodUid::from(entry.id.as_str())
        } else {
            PodUid::from(entry.pod_uid)
        };
        let labelled = *entry.uid_label == *uid.as_str();
        let index = self.pod(uid, entry.pod_namespace, entry.pod_name);
        let pod = &mut self.pods[index];
        pod.selectable &= labelled;
        pod.sandboxes.push(ListedSandbox {
            id: entry.id.clone(),
            attempt: entry.attempt,
            state: entry.state,
            created_at: entry.created_at,
        });
        self.by_sandbox.insert(entry.id, index);
    }

    fn add_container(&mut self, entry: ContainerEntry) {
        let index = match self.by_sandbox.get(&entry.sandbox) {
            Some(index) => *index,
            None => self.pod(key_without_sandbox(&entry), entry.pod_namespace, entry.pod_name),
        };
        let pod = &mut self.pods[index];
        pod.selectable &= *entry.pod_uid == *pod.pod.uid.as_str();
        pod.containers.push(ListedContainer {
            id: entry.id,
            name: entry.name,
            sandbox: entry.sandbox,
            attempt: entry.attempt,
            state: entry.state,
            created_at: entry.created_at,
        });
    }

    /// The pod of this key, made if need be. Where its entries disagree about its name, the smallest one that is
    /// not empty wins, so that the order of arrival does not matter.
    fn pod(&mut self, uid: PodUid, namespace: Arc<str>, name: Arc<str>) -> usize {
        match self.by_uid.entry(uid) {
            Entry::Vacant(vacant) => {
                let index = self.pods.len();
                self.pods.push(RuntimePod::empty(PodRef { uid: vacant.key().clone(), namespace, name }));
                vacant.insert(index);
                index
            }
            Entry::Occupied(occupied) => {
                let pod = &mut self.pods[*occupied.get()].pod;
                let better = !name.is_empty()
                    && (pod.name.is_empty() || (&namespace, &name) < (&pod.namespace, &pod.name));
                if better {
                    pod.namespace = namespace;
                    pod.name = name;
                }
                *occupied.get()
            }
        }
    }
}

fn key_without_sandbox(entry: &ContainerEntry) -> PodUid {
    if !entry.pod_uid.is_empty() {
        PodUid::from(Arc::clone(&entry.pod_uid))
    } else if !entry.sandbox.as_str().is_empty() {
        PodUid::from(entry.sandbox.as_str())
    } else {
        PodUid::from(entry.id.as_str())
    }
}
