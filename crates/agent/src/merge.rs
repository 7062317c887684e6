//! From full sets to differences: what a source says it has against what it said before.
//!
//! Pods are told apart by UID, each source for itself. The order in which differences are sent is part of the contract: a
//! pod that replaces another of its name is added after the other was removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{PodRef, PodUid};

use crate::manifest::annotation;
use crate::pod::{full_name, pod_ref};
use crate::source::SourceId;

/// What happened to the pods of a [`Delta`]. There is no "set": differences only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// They are gone: end them.
    Remove,
    /// They are new.
    Add,
    /// Something that the agent acts on changed.
    Update,
    /// They were asked to end: the deletion timestamp is set.
    Delete,
    /// Only their status in the API server changed.
    Reconcile,
}

/// Pods of one source to which the same thing happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The source.
    pub source: SourceId,
    /// What happened.
    pub operation: Operation,
    /// To these. Empty only in the [`Add`](Operation::Add) that says that a source was heard for the first time.
    pub pods: Vec<Arc<Pod>>,
}

/// A pod that was left out, because the set has another of its name or UID (`FailedValidation`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The pod.
    pub pod: PodRef,
    /// What another has.
    pub taken: Taken,
}

/// What no two pods of a set may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Namespace and name.
    Name,
    /// UID.
    Uid,
}

/// What a set means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// Differences, in the order in which to send them.
    pub deltas: Vec<Delta>,
    /// Pods that were left out.
    pub refused: Vec<Refused>,
}

/// What every source said last.
#[derive(Clone, Debug, Default)]
pub struct Merge {
    sources: BTreeMap<SourceId, BTreeMap<PodUid, Arc<Pod>>>,
}

impl Merge {
    /// Takes the whole set of a source.
    pub fn apply(&mut self, source: &SourceId, set: &[Arc<Pod>]) -> Merged {
        let first_set = !self.sources.contains_key(source);
        let known = self.sources.entry(source.clone()).or_default();

        let (incoming, refused) = without_duplicates(set, known);
        let mut changes = Changes::default();
        let mut next = BTreeMap::new();
        let mut removed: Vec<Arc<Pod>> = Vec::new();
        for (uid, pod) in incoming {
            let merged = match known.remove(&uid) {
                None => changes.note(Operation::Add, pod),
                // A fixed UID, and another name: what runs has the old name in all that it is made of.
                Some(before) if !has_same_name(&before, &pod) => {
                    removed.push(before);
                    changes.note(Operation::Add, pod)
                }
                Some(before) => match compare(&before, &pod) {
                    Difference::None => before,
                    Difference::Status => {
                        let status = Pod { status: pod.status.clone(), ..Pod::clone(&before) };
                        changes.note(Operation::Reconcile, Arc::new(status))
                    }
                    Difference::Wanted if pod.metadata.deletion_timestamp.is_some() => {
                        changes.note(Operation::Delete, Arc::new(updated(&before, &pod)))
                    }
                    Difference::Wanted => changes.note(Operation::Update, Arc::new(updated(&before, &pod))),
                },
            };
            next.insert(uid, merged);
        }
        removed.extend(std::mem::replace(known, next).into_values());

        Merged { deltas: changes.in_order(source, removed, first_set), refused }
    }
}

/// Whether every configured source was delivered at least once. Nothing is ended before.
///
/// A source can only be delivered after the merge saw its set, so this one set of marks holds both conditions.
#[derive(Clone, Debug, Default)]
pub struct SourcesReady {
    waiting_for: BTreeSet<SourceId>,
}

impl SourcesReady {
    /// Waits for these.
    pub fn new(configured: impl IntoIterator<Item = SourceId>) -> Self {
        Self { waiting_for: configured.into_iter().collect() }
    }

    /// A delta of this source was handled.
    pub fn delivered(&mut self, source: &SourceId) {
        self.waiting_for.remove(source);
    }

    /// Whether all were.
    #[must_use]
    pub fn all(&self) -> bool {
        self.waiting_for.is_empty()
    }

    /// Whether this one is waited for.
    #[must_use]
    pub fn waits_for(&self, source: &SourceId) -> bool {
        self.waiting_for.contains(source)
    }

    /// Those that were not.
    pub fn missing(&self) -> impl Iterator<Item = &SourceId> {
        self.waiting_for.iter()
    }
}

#[derive(Default)]
struct Changes(BTreeMap<Operation, Vec<Arc<Pod>>>);

impl Changes {
    fn note(&mut self, operation: Operation, pod: Arc<Pod>) -> Arc<Pod> {
        self.0.entry(operation).or_default().push(Arc::clone(&pod));
        pod
    }

    fn in_order(mut self, source: &SourceId, removed: Vec<Arc<Pod>>, first_set: bool) -> Vec<Delta> {
        if !removed.is_empty() {
            self.0.insert(Operation::Remove, removed);
        }
        let says_something =
            [Operation::Add, Operation::Update, Operation::Delete].iter().any(|op| self.0.contains_key(op));
        if first_set && !says_something {
            self.0.insert(Operation::Add, Vec::new());
        }
        self.0
            .into_iter()
            .map(|(operation, pods)| Delta { source: source.clone(), operation, pods })
            .collect()
    }
}

/// Of those that claim the same, the one that is known has it: who comes later does not take its place. Then the first.
fn without_duplicates(
    set: &[Arc<Pod>],
    known: &BTreeMap<PodUid, Arc<Pod>>,
) -> (Vec<(PodUid, Arc<Pod>)>, Vec<Refused>) {
    let is_known =
        |pod: &&Arc<Pod>| known.get(&pod_ref(pod).uid).is_some_and(|before| has_same_name(before, pod));
    let (standing, new): (Vec<_>, Vec<_>) = set.iter().partition(is_known);
    let (mut names, mut uids) = (BTreeSet::new(), BTreeSet::new());
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for pod in standing.into_iter().chain(new) {
        let found = pod_ref(pod);
        let name = (Arc::clone(&found.namespace), Arc::clone(&found.name));
        if names.contains(&name) {
            refused.push(Refused { pod: found, taken: Taken::Name });
        } else if !uids.insert(found.uid.clone()) {
            refused.push(Refused { pod: found, taken: Taken::Uid });
        } else {
            names.insert(name);
            kept.push((found.uid, Arc::clone(pod)));
        }
    }
    (kept, refused)
}

fn has_same_name(a: &Pod, b: &Pod) -> bool {
    full_name(a) == full_name(b)
}

enum Difference {
    None,
    Status,
    Wanted,
}

fn compare(known: &Pod, incoming: &Pod) -> Difference {
    let (a, b) = (&known.metadata, &incoming.metadata);
    let same = known.spec == incoming.spec
        && a.labels.clone().unwrap_or_default() == b.labels.clone().unwrap_or_default()
        && a.deletion_timestamp == b.deletion_timestamp
        && a.deletion_grace_period_seconds == b.deletion_grace_period_seconds
        && foreign_annotations(known).eq(foreign_annotations(incoming));
    match same {
        false => Difference::Wanted,
        true if known.status != incoming.status => Difference::Status,
        true => Difference::None,
    }
}

/// Ours: they say what the agent knows of the pod, not what somebody wants of it.
fn is_local(annotation: &str) -> bool {
    [annotation::SOURCE, annotation::SEEN, annotation::MIRROR].contains(&annotation)
}

fn foreign_annotations(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.metadata.annotations.iter().flatten().filter(|(key, _)| !is_local(key))
}

/// What was known, with everything that may change taken from what came in.
fn updated(known: &Pod, incoming: &Pod) -> Pod {
    let mut pod = known.clone();
    pod.spec.clone_from(&incoming.spec);
    pod.status.clone_from(&incoming.status);
    pod.metadata.labels.clone_from(&incoming.metadata.labels);
    pod.metadata.deletion_timestamp.clone_from(&incoming.metadata.deletion_timestamp);
    pod.metadata.deletion_grace_period_seconds = incoming.metadata.deletion_grace_period_seconds;
    pod.metadata.generation = incoming.metadata.generation;

    let mut annotations = incoming.metadata.annotations.clone().unwrap_or_default();
    let local = known.metadata.annotations.iter().flatten().filter(|(key, _)| is_local(key));
    annotations.extend(local.map(|(key, value)| (key.clone(), value.clone())));
    pod.metadata.annotations = Some(annotations);
    pod
}

#[cfg(test)]
mod tests;
