//! An agent with many pods, assembled as in `rubelet run`.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use pleg::Pleg;
use pleg::clock::wall_clock;
use pleg::cri::CriObserver;
use prometheus_client::registry::Registry;
use rubelet_agent::board::PodView;
use rubelet_agent::runtime::CriRuntime;
use rubelet_agent::settings::{Settings, pleg_config};
use rubelet_agent::source::{Feed, FileSource, Inbox, Source as _};
use rubelet_agent::sync_loop::{Agent, AgentHandle, AgentParts};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::super::ProbesArgs;
use super::super::events::pods::Node;

/// Liveness and readiness, each once a second, which is the shortest period.
const PROBES_PER_CONTAINER: usize = 2;

/// The annotation that distinguishes the manifests of one turn from those of another.
const TURN: &str = "rubelet.dev/bench-turn";

/// Longer than the start of all pods takes.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct BenchAgent {
    pleg: Pleg<CriObserver>,
    handle: AgentHandle,
    registry: Registry,
    manifests: tempfile::TempDir,
    image: &'static str,
    pods: usize,
    probes_per_pod: usize,
    turn: AtomicUsize,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
    _feeding: JoinSet<()>,
    _data: tempfile::TempDir,
}

impl BenchAgent {
    /// Starts the pods without probes.
    pub(super) async fn start(node: &Node, args: &ProbesArgs) -> Result<Self> {
        let (data, manifests) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let mut registry = Registry::default();
        let metrics = rubelet_agent::metrics::Metrics::default();
        metrics.register(&mut registry);
        let observer = CriObserver::new(node.client());
        let mut pleg = Pleg::new(observer, pleg_config(), pleg::Metrics::default());
        let mut settings = Settings::new("bench", data.path());
        settings.logs = data.path().join("logs");
        settings.machine.unified_cgroups = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        if let Some(limit) = args.begin_at_once {
            settings.exec_probes.begin_at_once = limit;
        }
        let inbox = Inbox::default();
        let (feed, updates) = Feed::new(inbox.clone());
        let source = FileSource::new(manifests.path(), "bench");
        let (agent, handle) = Agent::new(AgentParts {
            runtime: Arc::new(CriRuntime::new(node.client())),
            prober: Arc::new(CriRuntime::new(node.client())),
            pleg: pleg.handle(),
            sources: vec![source.id()],
            settings,
            updates,
            metrics,
            groups: None,
        });
        let mut feeding = JoinSet::new();
        feeding.spawn(feed.run());
        let sets = inbox.sender(source.id());
        feeding.spawn(source.run(sets));
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(agent.run(async {
            let _ = stopped.await;
        }));
        pleg.start();
        let agent = Self {
            pleg,
            handle,
            registry,
            manifests,
            image: node.image(),
            pods: args.pods,
            probes_per_pod: args.rate.div_ceil(args.pods.max(1)),
            turn: AtomicUsize::new(0),
            stop,
            running,
            _feeding: feeding,
            _data: data,
        };
        agent.probe(false).await?;
        Ok(agent)
    }

    pub(super) fn pleg(&self) -> pleg::Handle {
        self.pleg.handle()
    }

    /// Switches the pods' probes on or off, and waits until all pods are ready.
    pub(super) async fn probe(&self, are_probed: bool) -> Result<()> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed).to_string();
        for pod in 0..self.pods {
            let path = self.manifests.path().join(format!("{pod}.yaml"));
            std::fs::write(path, self.manifest(pod, are_probed, &turn))?;
        }
        let pods = self.pods;
        self.until("the pods are ready", move |all| {
            let is_ready = |view: &Arc<PodView>| {
                let annotations = view.pod.metadata.annotations.as_ref();
                let conditions = view.status.conditions.iter().flatten();
                annotations.and_then(|all| all.get(TURN)) == Some(&turn)
                    && conditions.clone().any(|one| one.type_ == "Ready" && one.status == "True")
            };
            all.len() == pods && all.iter().all(is_ready)
        })
        .await
    }

    fn manifest(&self, pod: usize, are_probed: bool, turn: &str) -> String {
        let mut text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{pod}, uid: bench-{pod}, annotations: {{{TURN}: '{turn}'}}}}\n\
             spec:\n  hostNetwork: true\n  terminationGracePeriodSeconds: 2\n  containers:\n"
        );
        for container in 0..self.probes_per_pod.div_ceil(PROBES_PER_CONTAINER).max(1) {
            let _ = write!(
                text,
                "  - name: c{container}\n    image: {}\n    imagePullPolicy: IfNotPresent\n    \
                 command: [sh, -c, 'trap \"exit 0\" TERM; sleep 1000000 & wait']\n",
                self.image
            );
            for (place, kind) in ["livenessProbe", "readinessProbe"].into_iter().enumerate() {
                if are_probed && container * PROBES_PER_CONTAINER + place < self.probes_per_pod {
                    // A storm makes commands slow, which is not what is measured.
                    let _ = writeln!(
                        text,
                        "    {kind}: {{exec: {{command: ['true']}}, periodSeconds: 1, timeoutSeconds: 60}}"
                    );
                }
            }
        }
        text
    }

    /// Counts the probes so far.
    pub(super) fn asked(&self) -> Result<Asked> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        let sum = |name: &str| -> f64 {
            let of_name =
                text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
            of_name.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
        };
        Ok(Asked {
            probes: sum("prober_probe_total"),
            late: sum("rubelet_probe_lateness_seconds_sum"),
            seconds: wall_clock().0 as f64 / 1e9,
        })
    }

    /// Removes all pods and ends the agent.
    pub(super) async fn stop(self) -> Result<()> {
        for pod in 0..self.pods {
            std::fs::remove_file(self.manifests.path().join(format!("{pod}.yaml")))?;
        }
        self.until("the pods are gone", <[_]>::is_empty).await?;
        let _ = self.stop.send(());
        self.running.await?;
        Ok(())
    }

    async fn until(&self, what: &str, holds: impl Fn(&[Arc<PodView>]) -> bool) -> Result<()> {
        let board = self.handle.board();
        let mut changes = board.changes();
        let waiting = async {
            while !holds(&board.all()) {
                changes.changed().await?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, waiting).await.with_context(|| format!("{what}: never"))?
    }
}

/// The probes within some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    probes: f64,
    /// The sum of their delays.
    late: f64,
    seconds: f64,
}

impl Asked {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            probes: self.probes - before.probes,
            late: self.late - before.late,
            seconds: self.seconds - before.seconds,
        }
    }

    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            probes: self.probes + more.probes,
            late: self.late + more.late,
            seconds: self.seconds + more.seconds,
        }
    }

    /// How long that was.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds
    }

    pub(super) fn rate(&self) -> f64 {
        self.probes / self.seconds.max(0.001)
    }

    pub(super) fn mean_lateness(&self) -> f64 {
        self.late / self.probes.max(1.0)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, late) = (self.rate(), self.mean_lateness());
        write!(
            f,
            "  storm: {:.0} probes in {:.0} s, {rate:.0} a second, {late:.2} s late on average",
            self.probes, self.seconds
        )
    }
}
