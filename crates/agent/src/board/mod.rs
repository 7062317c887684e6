//! The status manager: publishes the status of every pod.
//!
//! ```text
//! actors ──publish──▶ settle ──▶ board ──▶ readers take snapshots, or wait for the next change
//!                                  └─────▶ an outbox for each sink: one slot per pod, the newest wins ──▶ StatusSink
//! ```
//! Each actor is the only writer of its own pod's entry. A status has a version that grows with every change of the
//! status, and with nothing else. Writing never waits for a reader or a sink.

mod containers;
mod delivery;
mod footprint;
mod keep;
mod outbox;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use parking_lot::RwLock;
use pleg::Clock;
use rubelet_model::PodUid;
use serde::Serialize;
use tokio::sync::watch;

use crate::event::PodEvent;
use crate::pod::pod_ref;
use crate::source::SourceId;
use crate::status::settle;

pub use containers::ContainerNames;
pub use delivery::{Delivery, Pace, StatusSink};
pub(crate) use footprint::{Footprint, Standing};
pub use keep::kept_containers;
pub(crate) use keep::{Keeper, footprint, recall};
use outbox::Outbox;

/// How many removed pods are remembered.
const REMEMBERED: usize = 1000;

/// The stage of a pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It waits for another pod with the same name to end.
    Pending,
    /// It is being kept running.
    Syncing,
    /// It is being ended.
    Terminating,
    /// Nothing of it runs any more.
    Terminated,
}

impl Stage {
    /// Returns the name of the stage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Syncing => "syncing",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
        }
    }
}

/// Everything that is known about a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// Its desired state.
    pub pod: Arc<Pod>,
    /// The source that it belongs to; `None` for a pod that no source wants.
    pub source: Option<SourceId>,
    /// Its status.
    pub status: ApiStatus,
    /// The version of its status, which grows with every change of the status and with nothing else.
    pub version: u64,
    /// The stage of its life.
    pub stage: Stage,
    /// Its recent events, oldest first.
    pub events: Vec<PodEvent>,
}

impl PodView {
    /// Returns the pod as the API shows it, with desired state and status.
    #[must_use]
    pub fn to_pod(&self) -> Pod {
        Pod { status: Some(self.status.clone()), ..Pod::clone(&self.pod) }
    }

    /// Returns whether the pod has finished, successfully or not, and will never run again.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        is_terminal(&self.status)
    }
}

fn is_terminal(status: &ApiStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// What an actor reports about its pod.
pub(crate) struct Draft<'a> {
    pub(crate) pod: Arc<Pod>,
    pub(crate) source: Option<SourceId>,
    /// The status that was published before, by this agent or by the one before it.
    pub(crate) before: Option<&'a ApiStatus>,
    pub(crate) status: ApiStatus,
    pub(crate) stage: Stage,
    pub(crate) events: Vec<PodEvent>,
}

#[derive(Debug, Default)]
struct Shared {
    views: RwLock<BTreeMap<PodUid, Arc<PodView>>>,
    /// The pods that were removed most recently.
    gone: RwLock<VecDeque<PodUid>>,
    version: watch::Sender<u64>,
    outboxes: RwLock<Vec<Outbox>>,
}

/// The status board. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Shared>);

impl Board {
    /// Returns every pod, by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<PodView>> {
        let mut all: Vec<Arc<PodView>> = self.0.views.read().values().cloned().collect();
        all.sort_by(|a, b| {
            let [a, b] = [a, b].map(|view| (&view.pod.metadata.namespace, &view.pod.metadata.name));
            a.cmp(&b)
        });
        all
    }

    /// Returns one pod.
    #[must_use]
    pub fn get(&self, pod: &PodUid) -> Option<Arc<PodView>> {
        self.0.views.read().get(pod).cloned()
    }

    /// Returns whether the pod existed but has been removed, as opposed to one that was never known. Only the last
    /// thousand are remembered.
    #[must_use]
    pub fn is_gone(&self, pod: &PodUid) -> bool {
        self.get(pod).is_none() && self.0.gone.read().contains(pod)
    }

    /// Returns any pod that satisfies `holds`.
    pub(crate) fn find(&self, holds: impl Fn(&PodView) -> bool) -> Option<Arc<PodView>> {
        self.0.views.read().values().find(|view| holds(view)).cloned()
    }

    /// Returns the pods in which nothing is running any more.
    pub(crate) fn over(&self) -> BTreeSet<PodUid> {
        let views = self.0.views.read();
        let over = views.iter().filter(|(_, view)| view.stage == Stage::Terminated);
        over.map(|(uid, _)| uid.clone()).collect()
    }

    /// Watches for changes: the value is a number that grows with each change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    /// Delivers every status to a sink from now on, including all current ones. The returned delivery must be run.
    #[must_use]
    pub fn deliver_to<S: StatusSink>(&self, sink: S, clock: Clock) -> Delivery<S> {
        let outbox = Outbox::default();
        let views = self.0.views.read();
        for (uid, view) in &*views {
            outbox.put(uid, view, clock.stamp());
        }
        self.0.outboxes.write().push(outbox.clone());
        Delivery::new(sink, outbox, clock)
    }

    /// Publishes the status of a pod; returns the view that readers see.
    pub(crate) fn publish(&self, draft: Draft<'_>, clock: &Clock) -> Arc<PodView> {
        let Draft { pod, source, before, status, stage, events } = draft;
        let uid = pod_ref(&pod).uid;
        let now = clock.now();
        let status = settle(&pod, before, status, now.wall).unwrap_or_else(|error| {
            tracing::error!(pod = %pod_ref(&pod), %error, "an impossible pod status was not published");
            before.cloned().unwrap_or_default()
        });
        let known = self.get(&uid);
        let version = match &known {
            Some(known) if known.status == status => known.version,
            Some(known) => known.version + 1,
            None => 1,
        };
        let view = PodView { pod, source, status, version, stage, events };
        if let Some(known) = known.filter(|known| **known == view) {
            return known;
        }
        let view = Arc::new(view);
        self.0.views.write().insert(uid.clone(), view.clone());
        for outbox in &*self.0.outboxes.read() {
            outbox.put(&uid, &view, now.stamp);
        }
        self.changed();
        view
    }

    pub(crate) fn remove(&self, pod: &PodUid) {
        if self.0.views.write().remove(pod).is_some() {
            let mut gone = self.0.gone.write();
            gone.retain(|other| other != pod);
            gone.push_back(pod.clone());
            let too_many = gone.len().saturating_sub(REMEMBERED);
            gone.drain(..too_many);
        }
        for outbox in &*self.0.outboxes.read() {
            outbox.remove(pod);
        }
        self.changed();
    }

    fn changed(&self) {
        self.0.version.send_modify(|version| *version += 1);
    }
}
