//! How all pods are, for whoever wants to know: HTTP, the command line, and later an API server.
//!
//! Each actor writes the entry of its own pod, newest wins; readers take snapshots, or wait for the next change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use parking_lot::RwLock;
use rubelet_model::PodUid;
use serde::Serialize;
use tokio::sync::watch;

use crate::pod::PodHappening;

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
    /// How it is.
    pub status: ApiStatus,
    /// Where it is in its life.
    pub stage: Stage,
    /// What happened to it lately, oldest first.
    pub happenings: Vec<PodHappening>,
}

impl PodView {
    /// The pod as the API shows it: what it should be, and how it is.
    #[must_use]
    pub fn to_pod(&self) -> Pod {
        Pod { status: Some(self.status.clone()), ..Pod::clone(&self.pod) }
    }
}

#[derive(Debug)]
struct Shared {
    views: RwLock<BTreeMap<PodUid, Arc<PodView>>>,
    version: watch::Sender<u64>,
}

/// The board itself. Clones are the same board.
#[derive(Clone, Debug)]
pub struct Board(Arc<Shared>);

impl Default for Board {
    fn default() -> Self {
        Self(Arc::new(Shared { views: RwLock::default(), version: watch::Sender::new(0) }))
    }
}

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

    pub(crate) fn set(&self, pod: PodUid, view: PodView) {
        {
            let mut views = self.0.views.write();
            if views.get(&pod).is_some_and(|known| **known == view) {
                return;
            }
            views.insert(pod, Arc::new(view));
        }
        self.changed();
    }

    pub(crate) fn remove(&self, pod: &PodUid) {
        self.0.views.write().remove(pod);
        self.changed();
    }

    fn changed(&self) {
        self.0.version.send_modify(|version| *version += 1);
    }
}
