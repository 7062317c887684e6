//! Computes differences from full sets: compares what a source has sent now with what it sent before.
//!
//! Pods are identified by UID, separately for each source. The order in which differences are sent is part of the
//! contract: a pod that replaces another one of the same name is added after the other has been removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{PodRef, PodUid};

use crate::manifest::annotation;
use crate::pod::{full_name, pod_ref};
use crate::source::SourceId;

/// What happened to the pods of a [`Delta`]. There is no "set", only differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// They are gone and must be ended.
    Remove,
    /// They are new.
    Add,
    /// Something that the agent acts on changed.
    Update,
    /// Their deletion was requested: the deletion timestamp is set.
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
    /// The pods that it happened to. Empty only in the [`Add`](Operation::Add) which says that a source has been read
    /// for the first time.
    pub pods: Vec<Arc<Pod>>,
}

/// A pod that was left out because the set has another one with the same name or UID (`FailedValidation`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The pod.
    pub pod: PodRef,
    /// What another pod already has.
    pub taken: Taken,
}

/// What no two pods of a set may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Namespace and name.
    Name,
    /// UID.
    Uid,
}

/// The result of applying a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The differences, in the order in which they must be sent.
    pub deltas: Vec<Delta>,
    /// The pods that were left out.
    pub refused: Vec<Refused>,
}

/// The most recent set of every source.
#[derive(Clone, Debug, Default)]
pub struct Merge {
    sources: BTreeMap<SourceId, BTreeMap<PodUid, Arc<Pod>>>,
}

impl Merge {
    /// Applies the complete set of a source.
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
                // The UID is fixed but the name is new: everything that the running pod consists of carries the old
                // name.
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

/// Tracks whether every configured source has been delivered at least once. No pod is ended before that.
///
/// A source can only be delivered after the merge has seen its set, so this one set of marks covers both conditions.
#[derive(Clone, Debug, Default)]
pub struct SourcesReady {
    waiting_for: BTreeSet<SourceId>,
}

impl SourcesReady {
    /// Waits for these sources.
    pub fn new(configured: impl IntoIterator<Item = SourceId>) -> Self {
        Self { waiting_for: configured.into_iter().collect() }
    }

    /// Records that a delta of this source has been handled.
    pub fn delivered(&mut self, source: &SourceId) {
        self.waiting_for.remove(source);
    }

    /// Returns whether all sources have been delivered.
    #[must_use]
    pub fn all(&self) -> bool {
        self.waiting_for.is_empty()
    }

    /// Returns whether this source is still being waited for.
    #[must_use]
    pub fn waits_for(&self, source: &SourceId) -> bool {
        self.waiting_for.contains(source)
    }

    /// Returns the sources that have not been delivered yet.
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

/// Removes duplicates. Among pods that claim the same name or UID, the one that is already known keeps it, so a later
/// one never takes its place; otherwise the first one gets it.
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

/// Whether the annotation is set by the agent: it records what the agent knows about the pod, not what a user wants.
fn is_local(annotation: &str) -> bool {
    [annotation::SOURCE, annotation::SEEN, annotation::MIRROR].contains(&annotation)
}

fn foreign_annotations(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.metadata.annotations.iter().flatten().filter(|(key, _)| !is_local(key))
}

/// Returns the known pod, with everything that may change taken from the incoming one.
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
