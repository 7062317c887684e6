//! An agent and its world, for tests to play with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pleg::{Config, Metrics, Pleg};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::board::PodView;
use crate::cgroup::PodGroups;
use crate::manifest::Objects;
use crate::merge::{Delta, Operation};
use crate::pod::testkit;
use crate::settings::Settings;
use crate::source::{SourceId, SourceKind, SourceUpdate};
use crate::sync_loop::{Agent, AgentHandle, AgentParts};
use crate::testkit::FakeRuntime;

/// Far longer than anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(3600);

/// An agent and its world.
pub(super) struct Scene {
    pub(super) runtime: FakeRuntime,
    pub(super) handle: AgentHandle,
    updates: mpsc::Sender<SourceUpdate>,
    pub(super) task: JoinHandle<()>,
    _stop: oneshot::Sender<()>,
    _pleg: Pleg<FakeRuntime>,
}

fn source() -> SourceId {
    SourceId::new(SourceKind::File, "/pods")
}

impl Scene {
    pub(super) fn start(runtime: FakeRuntime, folder: &Path) -> Self {
        Self::start_with(runtime, folder, |_| {})
    }

    pub(super) fn start_with(
        runtime: FakeRuntime,
        folder: &Path,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::start_in(runtime, folder, None, change)
    }

    /// Starts it with control groups for its pods, or without.
    pub(super) fn start_in(
        runtime: FakeRuntime,
        folder: &Path,
        groups: Option<PodGroups>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut pleg = Pleg::new(runtime.clone(), Config::default(), Metrics::default());
        let mut settings = Settings::new("node", folder);
        settings.logs = folder.join("logs");
        change(&mut settings);
        let (updates, received) = mpsc::channel(8);
        let (agent, handle) = Agent::new(AgentParts {
            runtime: Arc::new(runtime.clone()),
            prober: Arc::new(runtime.clone()),
            pleg: pleg.handle(),
            settings,
            updates: received,
            metrics: crate::metrics::Metrics::default(),
            sources: vec![source()],
            groups,
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(agent.run(async {
            let _ = stopped.await;
        }));
        pleg.start();
        Self { runtime, handle, updates, task, _stop: stop, _pleg: pleg }
    }

    pub(super) async fn send(&self, operation: Operation, pods: &[Arc<Pod>]) {
        let delta = Delta { source: source(), operation, pods: pods.to_vec() };
        self.updates.send(SourceUpdate::Pods(delta)).await.unwrap();
    }

    /// Sends what the pods may refer to from now on.
    pub(super) async fn send_objects(&self, objects: Objects) {
        let update = SourceUpdate::Objects { source: source(), objects: Arc::new(objects) };
        self.updates.send(update).await.unwrap();
    }

    /// Waits until the condition holds for the pods.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&[Arc<PodView>]) -> bool) {
        let mut changes = self.handle.board().changes();
        let waiting = async {
            while !holds(&self.handle.board().all()) {
                changes.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("{what} did not happen; {:#?}", self.handle.board().all());
        }
    }

    pub(super) async fn until_phase(&self, wanted: &str) {
        let phase = |view: &Arc<PodView>| view.status.phase.clone().unwrap_or_default();
        self.until(wanted, |all| all.iter().any(|view| phase(view) == wanted)).await;
    }

    pub(super) async fn until_waiting(&self, wanted: &str) {
        self.until(wanted, |all| all.iter().any(|view| waits_for(view).as_deref() == Some(wanted))).await;
    }

    pub(super) async fn until_running(&self, wanted: &[&str]) {
        let waiting = async {
            while self.runtime.running() != wanted {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("{wanted:?} do not run, but {:?}", self.runtime.running());
        }
    }

    pub(super) async fn until_gone(&self) {
        self.until("nothing left", <[_]>::is_empty).await;
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.runtime.broken_rules(), Vec::<String>::new());
        }
    }
}

/// The events of all pods, as `reason: message`.
pub(super) fn told(scene: &Scene) -> Vec<String> {
    let views = scene.handle.board().all();
    let events = views.iter().flat_map(|view| view.events.clone());
    events.map(|one| format!("{}: {}", one.reason, one.message)).collect()
}

/// Why the first container waits.
pub(super) fn waits_for(view: &PodView) -> Option<String> {
    let state = view.status.container_statuses.as_ref()?.first()?.state.as_ref()?;
    state.waiting.as_ref()?.reason.clone()
}

pub(super) fn pod(policy: &str, init: &[&str], containers: &[&str]) -> Arc<Pod> {
    Arc::new(testkit::pod(policy, init, containers))
}

pub(super) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
