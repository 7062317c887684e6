//! The records of all pods, and an index of the pods that containers and sandboxes are in.
//!
//! Some announcements name no pod, so their pod is looked up by id. What a record shows can be changed only here (its
//! views are private elsewhere), so the index always agrees with the records.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::{IndexMap, map};
use rubelet_model::{PodRef, PodStatus, PodUid};
use serde::{Deserialize, Serialize, Serializer};

use super::{Latest, Record, Snapshot};
use crate::event::Trigger;

/// Roughly in the order in which a list names the pods, so that they are adjacent in memory.
type Records = IndexMap<PodUid, Record, RandomState>;

/// All records, by pod, and an index of what they show.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Records")]
pub(crate) struct Register {
    records: Records,
    /// Every id that the committed or the newest view of a pod shows, with the pod. It is ordered, and includes every
    /// pod that shows the id, so that a lookup does not depend on what else a runtime reports, or in which order.
    holders: BTreeSet<(Arc<str>, PodUid)>,
}

impl Register {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn contains(&self, uid: &PodUid) -> bool {
        self.records.contains_key(uid)
    }

    pub(crate) fn get(&self, uid: &PodUid) -> Option<&Record> {
        self.records.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &PodUid) -> Option<&mut Record> {
        self.records.get_mut(uid)
    }

    /// The record of a pod, which is created if there is none.
    pub(crate) fn get_or_add(&mut self, pod: &PodRef, is_from_before: bool) -> &mut Record {
        let new = || Record::new(pod.clone(), is_from_before);
        self.records.entry(pod.uid.clone()).or_insert_with(new)
    }

    /// Reserves space for this many pods in all, and no more.
    pub(crate) fn make_room(&mut self, pods: usize) {
        self.records.reserve_exact(pods.saturating_sub(self.records.len()));
    }

    pub(crate) fn values(&self) -> map::Values<'_, PodUid, Record> {
        self.records.values()
    }

    pub(crate) fn values_mut(&mut self) -> map::ValuesMut<'_, PodUid, Record> {
        self.records.values_mut()
    }

    /// The record of the pod whose committed or newest view shows this container or sandbox.
    pub(crate) fn holder(&self, id: &Arc<str>) -> Option<&Record> {
        let first = (id.clone(), PodUid::from(""));
        let (found, uid) = self.holders.range(first..).next()?;
        if found == id { self.records.get(uid) } else { None }
    }

    /// Notes that a list or look has shown the pod.
    pub(crate) fn list(&mut self, uid: &PodUid, snapshot: Snapshot) {
        self.change(uid, |record| record.latest = Latest::Listed(Arc::new(snapshot)));
    }

    /// Notes that the runtime no longer knows the pod.
    pub(crate) fn lose(&mut self, uid: &PodUid, trigger: Trigger) {
        self.change(uid, |record| record.latest = Latest::Gone(trigger));
    }

    /// Makes `snapshot` the committed view of its pod, with the status that was found for it.
    pub(crate) fn commit(&mut self, snapshot: Arc<Snapshot>, status: Arc<PodStatus>) {
        let uid = snapshot.pod.pod.uid.clone();
        self.change(&uid, |record| record.commit(snapshot, status));
    }

    pub(crate) fn remove(&mut self, uid: &PodUid) -> Option<Record> {
        let record = self.records.swap_remove(uid)?;
        for id in record.ids() {
            self.holders.remove(&(id, uid.clone()));
        }
        Some(record)
    }

    /// Changes what a record shows.
    fn change(&mut self, uid: &PodUid, change: impl FnOnce(&mut Record)) {
        let Some(record) = self.records.get_mut(uid) else { return };
        // All ids are removed and added again, so that they are shared with the view that shows them now, not with an
        // old one.
        for id in record.ids() {
            self.holders.remove(&(id, uid.clone()));
        }
        change(record);
        self.holders.extend(record.ids().map(|id| (id, uid.clone())));
    }

    /// Checks that the index agrees with a search of all records.
    #[cfg(test)]
    pub(crate) fn assert_index_is_true(&self) {
        let by_search: BTreeSet<(Arc<str>, PodUid)> =
            self.records.iter().flat_map(|(uid, record)| record.ids().map(|id| (id, uid.clone()))).collect();
        assert_eq!(self.holders, by_search, "the index differs from the records");
        for (id, _) in &by_search {
            let holders = self.records.iter().filter(|(_, record)| record.ids().any(|held| held == *id));
            let first = holders.map(|(uid, _)| uid).min();
            assert_eq!(self.holder(id).map(|record| &record.pod.uid), first, "{id} is looked up");
        }
    }
}

impl From<Records> for Register {
    fn from(mut records: Records) -> Self {
        records.values_mut().for_each(Record::restore_ends);
        let ids = |(uid, record): (&PodUid, &Record)| -> Vec<_> {
            record.ids().map(|id| (id, uid.clone())).collect()
        };
        let holders = records.iter().flat_map(ids).collect();
        Self { records, holders }
    }
}

impl Serialize for Register {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.records.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rubelet_model::{
        ContainerState, ListedContainer, ListedSandbox, RuntimePod, SandboxState, UnixNanos,
    };

    use super::*;
    use crate::clock::Stamp;

    #[derive(Clone, Debug)]
    enum Op {
        List {
            pod: usize,
            containers: Vec<usize>,
            sandbox: Option<usize>,
        },
        Lose {
            pod: usize,
        },
        /// Commits what was listed last.
        Commit {
            pod: usize,
        },
        Remove {
            pod: usize,
        },
    }

    const PODS: [&str; 3] = ["A", "B", "C"];
    /// Ids of containers and sandboxes of any pod: a runtime may choose any.
    const IDS: [&str; 5] = ["1", "2", "3", "4", "5"];

    fn op() -> impl Strategy<Value = Op> {
        let pod = 0..PODS.len();
        let ids = prop::collection::vec(0..IDS.len(), 0..4);
        prop_oneof![
            4 => (pod.clone(), ids, prop::option::of(0..IDS.len()))
                .prop_map(|(pod, containers, sandbox)| Op::List { pod, containers, sandbox }),
            1 => pod.clone().prop_map(|pod| Op::Lose { pod }),
            3 => pod.clone().prop_map(|pod| Op::Commit { pod }),
            1 => pod.prop_map(|pod| Op::Remove { pod }),
        ]
    }

    fn view(uid: &str, containers: &[usize], sandbox: Option<usize>) -> RuntimePod {
        let mut pod = RuntimePod::empty(PodRef::new(uid, "ns", uid));
        pod.containers = containers
            .iter()
            .map(|id| ListedContainer {
                id: IDS[*id].into(),
                name: "c".into(),
                sandbox: "s".into(),
                attempt: 0,
                state: ContainerState::Running,
                created_at: UnixNanos(1),
            })
            .collect();
        pod.sandboxes = sandbox
            .into_iter()
            .map(|id| ListedSandbox {
                id: IDS[id].into(),
                attempt: 0,
                state: SandboxState::Ready,
                created_at: UnixNanos(1),
            })
            .collect();
        pod
    }

    fn apply(register: &mut Register, op: &Op) {
        match op {
            Op::List { pod, containers, sandbox } => {
                let pod = Arc::new(view(PODS[*pod], containers, *sandbox));
                register.get_or_add(&pod.pod, false);
                let uid = pod.pod.uid.clone();
                register.list(&uid, Snapshot { pod, asked: Stamp::ZERO, trigger: Trigger::Relist });
            }
            Op::Lose { pod } => register.lose(&PODS[*pod].into(), Trigger::Relist),
            Op::Commit { pod } => {
                let record = register.get(&PODS[*pod].into());
                if let Some(Latest::Listed(snapshot)) = record.map(Record::latest) {
                    let status = PodStatus::unknown_to_runtime(snapshot.pod.pod.uid.clone());
                    register.commit(snapshot.clone(), Arc::new(status));
                }
            }
            Op::Remove { pod } => drop(register.remove(&PODS[*pod].into())),
        }
    }

    proptest! {
        /// Even if two pods show the same id, and after serialising and deserialising.
        #[test]
        fn the_index_says_what_a_search_finds(ops in prop::collection::vec(op(), 0..40)) {
            let mut register = Register::default();
            for op in &ops {
                apply(&mut register, op);
                register.assert_index_is_true();
            }
            let written = serde_json::to_string(&register).expect("written");
            let read: Register = serde_json::from_str(&written).expect("read");
            prop_assert_eq!(&read.holders, &register.holders);
            for uid in PODS {
                register.remove(&uid.into());
            }
            prop_assert!(register.holders.is_empty(), "nothing is left of what is gone");
        }
    }
}
