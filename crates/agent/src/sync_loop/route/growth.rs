//! Pods that are here and ask for more: they get it when there is room, and keep what they have until then. The same
//! goes for a pod that would change its QoS class: its control group is where its class is, and cannot move while it
//! runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::PodUid;

use super::{Command, Facts, Routes};
use crate::admission::{self, Refusal};
use crate::pod::{Sizes, asks_for_more, changed_for_good, full_name, qos_class, with_sizes_of};
use crate::status::ResizePending;

/// What a pod would get if there were room for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Growth {
    pub(super) wanted: Arc<Pod>,
    pub(super) pending: ResizePending,
}

/// A pod of a source as this node accepts it, or why it does not.
#[derive(Debug)]
pub(super) struct Welcome {
    pub(super) pod: Arc<Pod>,
    pub(super) growth: Option<Growth>,
    pub(super) refusal: Option<Refusal>,
}

impl Routes {
    /// Notes the resources given to pods that are older than this agent.
    pub(in crate::sync_loop) fn note_given(&mut self, given: BTreeMap<PodUid, Sizes>) {
        self.given = given;
    }

    /// Takes over what a source wants of a pod that is here.
    pub(super) fn take_over(&mut self, uid: &PodUid, wanted: &Arc<Pod>, facts: &Facts) {
        let Some(record) = self.records.get(uid) else { return };
        let (pod, growth) = match record.refusal {
            None => self.allot(wanted, &record.pod, facts),
            Some(_) => (wanted.clone(), None),
        };
        if let Some(record) = self.records.get_mut(uid) {
            (record.pod, record.growth) = (pod, growth);
        }
    }

    /// Returns what a pod gets of what it wants: all of it or, if something is in the way, what it `has`.
    fn allot(&self, wanted: &Arc<Pod>, has: &Pod, facts: &Facts) -> (Arc<Pod>, Option<Growth>) {
        match self.obstacle(wanted, has, facts) {
            None => (wanted.clone(), None),
            Some(pending) => {
                let growth = Growth { wanted: wanted.clone(), pending };
                (Arc::new(with_sizes_of(wanted, has)), Some(growth))
            }
        }
    }

    /// Why a pod that `has` this much does not get what it wants.
    fn obstacle(&self, wanted: &Pod, has: &Pod, facts: &Facts) -> Option<ResizePending> {
        let class = qos_class(has);
        if qos_class(wanted) != class {
            return Some(ResizePending::Infeasible(format!(
                "Pod QOS Class may not change as a result of resizing: it is {} now; change metadata.uid to replace \
                 the pod",
                class.as_str()
            )));
        }
        if let Some(field) = changed_for_good(wanted, has) {
            return Some(ResizePending::Infeasible(format!(
                "only cpu and memory resources are mutable: {field} has changed; give the pod another metadata.uid to replace it"
            )));
        }
        if !asks_for_more(wanted, has) {
            return None;
        }
        let rooms = self.rooms(facts);
        admission::has_room(wanted, &rooms.beside(&full_name(wanted)), &self.node).err()
    }

    /// Decides whether this node accepts a pod of a source, and with which resources. A pod that is older than this
    /// agent and cannot have what it wants now stays as it is; one that has finished stays finished.
    pub(super) fn welcome(&self, uid: &PodUid, pod: Arc<Pod>, facts: &Facts) -> Welcome {
        if self.had_finished(uid) {
            return Welcome { pod, growth: None, refusal: None };
        }
        if let Some(given) = self.given.get(uid) {
            let has = given.put_into(&pod);
            if let Some(pending) = self.obstacle(&pod, &has, facts)
                && self.refusal(&has, facts).is_none()
            {
                let growth = Some(Growth { wanted: pod, pending });
                return Welcome { pod: Arc::new(has), growth, refusal: None };
            }
        }
        let refusal = self.refusal(&pod, facts);
        Welcome { pod, growth: None, refusal }
    }

    /// Reconsiders pods that want more, oldest first: room may have appeared.
    pub(super) fn grow(&mut self, facts: &Facts, commands: &mut Vec<Command>) {
        let mut waiting: Vec<(u64, PodUid)> = self
            .records
            .iter()
            .filter(|(uid, record)| record.growth.is_some() && self.is_wanted(uid))
            .map(|(uid, record)| (record.number, uid.clone()))
            .collect();
        waiting.sort();
        for (_, uid) in waiting {
            let Some(record) = self.records.get(&uid) else { continue };
            let Some(before) = record.growth.clone() else { continue };
            let (pod, growth) = self.allot(&before.wanted, &record.pod, facts);
            if growth.as_ref() == Some(&before) {
                continue;
            }
            if let Some(record) = self.records.get_mut(&uid) {
                (record.pod, record.growth) = (pod, growth);
            }
            self.wish(&uid, commands);
        }
    }
}
