//! The status manager: how all pods are, for whoever wants to know.
//!
//! ```text
//! actors ──publish──▶ settle ──▶ board ──▶ readers take snapshots, or wait for the next change
//!                                  └─────▶ an outbox for each sink: one slot a pod, the newest wins ──▶ StatusSink
//! ```
//! Each actor writes the entry of its own pod and nobody else does. A status has a version that grows with every change of
//! it, and with nothing else. Writing never waits for a reader, nor for a sink.

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

/// How many pods are remembered that are gone.
const REMEMBERED: usize = 1000;

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It waits for another pod of its name to end.
    Pending,
    /// It is kept running.
    Syncing,
    /// It is ended.
    Terminating,
    /// Nothing of it runs any more.
    Terminated,
}

impl Stage {
    /// The word for it.
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

/// All that is known of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// What it should be.
    pub pod: Arc<Pod>,
    /// Whose it is; nothing for a pod that no source wants.
    pub source: Option<SourceId>,
    /// How it is.
    pub status: ApiStatus,
    /// The version of its status: it grows with every change, and with nothing else.
    pub version: u64,
    /// Where it is in its life.
    pub stage: Stage,
    /// What happened to it lately, oldest first.
    pub events: Vec<PodEvent>,
}

impl PodView {
    /// The pod as the API shows it: what it should be, and how it is.
    #[must_use]
    pub fn to_pod(&self) -> Pod {
        Pod { status: Some(self.status.clone()), ..Pod::clone(&self.pod) }
    }

    /// Whether it has finished, well or badly, and will never run again.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        is_terminal(&self.status)
    }
}

fn is_terminal(status: &ApiStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// What an actor has to say of its pod.
pub(crate) struct Draft<'a> {
    pub(crate) pod: Arc<Pod>,
    pub(crate) source: Option<SourceId>,
    /// What was said before, by this agent or by the one before it.
    pub(crate) before: Option<&'a ApiStatus>,
    pub(crate) status: ApiStatus,
    pub(crate) stage: Stage,
    pub(crate) events: Vec<PodEvent>,
}

#[derive(Debug, Default)]
struct Shared {
    views: RwLock<BTreeMap<PodUid, Arc<PodView>>>,
    /// Those of the pods that are no longer here that went last.
    gone: RwLock<VecDeque<PodUid>>,
    version: watch::Sender<u64>,
    outboxes: RwLock<Vec<Outbox>>,
}

/// The board itself. Clones are the same board.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Shared>);

impl Board {
    /// Every pod, by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<PodView>> {
        let mut all: Vec<Arc<PodView>> = self.0.views.read().values().cloned().collect();
        all.sort_by(|a, b| {
            let [a, b] = [a, b].map(|view| (&view.pod.metadata.namespace, &view.pod.metadata.name));
            a.cmp(&b)
        });
        all
    }

    /// One pod.
    #[must_use]
    pub fn get(&self, pod: &PodUid) -> Option<Arc<PodView>> {
        self.0.views.read().get(pod).cloned()
    }

    /// Whether a pod is gone that was here: whoever else is not known, that one is. Only the last thousand are remembered.
    #[must_use]
    pub fn is_gone(&self, pod: &PodUid) -> bool {
        self.get(pod).is_none() && self.0.gone.read().contains(pod)
    }

    /// A pod of which this holds, if there is one.
    pub(crate) fn find(&self, holds: impl Fn(&PodView) -> bool) -> Option<Arc<PodView>> {
        self.0.views.read().values().find(|view| holds(view)).cloned()
    }

    /// Pods of which nothing runs any more.
    pub(crate) fn over(&self) -> BTreeSet<PodUid> {
        let views = self.0.views.read();
        let over = views.iter().filter(|(_, view)| view.stage == Stage::Terminated);
        over.map(|(uid, _)| uid.clone()).collect()
    }

    /// Follows changes: the value is a number that grows with each.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    /// Has a sink told of every status from now on, and of all there are. What comes back must be run.
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

    /// Says how a pod is; gives what is told of it.
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
