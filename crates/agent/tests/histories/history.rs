//! One history: what is done to the world, to the runtime and to the agent, as a seed decides.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rubelet_cri::Endpoint;
use rubelet_runtime::synthetic::{
    Behavior, ContainerId, ContainerState, EventFaults, Exit, Handle, OnStart, OnStop, Op, Profile, Restart,
    Sandbox, SyntheticRuntime,
};
use tonic::Code;

use crate::agent::Running;
use crate::truth::{Live, broken_rule, live};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const STEPS: usize = 24;
const PODS: usize = 3;
/// The pod that is in a folder of its own, which is heard later than the other when an agent starts. It has a port of the host.
const LATE: usize = 2;

/// Calls whose failure an agent must survive.
const OPS: [Op; 12] = [
    Op::RunPodSandbox,
    Op::StopPodSandbox,
    Op::RemovePodSandbox,
    Op::CreateContainer,
    Op::StartContainer,
    Op::StopContainer,
    Op::RemoveContainer,
    Op::ContainerStatus,
    Op::PodSandboxStatus,
    Op::ListContainers,
    Op::ListPodSandbox,
    Op::ImageStatus,
];

struct History {
    seed: u64,
    random: fastrand::Rng,
    folder: tempfile::TempDir,
    server: Arc<Handle>,
    endpoint: Endpoint,
    agent: Option<Running>,
    /// The version of each pod that is wanted.
    wanted: BTreeMap<usize, u32>,
    versions: u32,
    /// What was done, for whoever has to find out why.
    done: Vec<String>,
}

pub(crate) async fn play(seed: u64) {
    let mut history = History::begin(seed).await;
    let broken: Arc<Mutex<Option<String>>> = Arc::default();
    // Looks at the world after each of its changes.
    let watcher = tokio::spawn({
        let (server, broken) = (history.server.clone(), broken.clone());
        async move {
            server
                .until(|world| {
                    let rule = broken_rule(world);
                    let is_broken = rule.is_some();
                    if is_broken {
                        *broken.lock() = rule;
                    }
                    is_broken
                })
                .await;
        }
    });
    for _ in 0..STEPS {
        history.step().await;
        assert_eq!(*broken.lock(), None, "seed {seed}: {:#?}", history.done);
    }
    history.end_faults().await;
    history.until_all_is_well().await;
    history.restart_with_a_rival().await;
    history.until_nothing_is_left().await;
    assert_eq!(*broken.lock(), None, "seed {seed}");
    watcher.abort();
}

impl History {
    async fn begin(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["manifests", "more"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let profiles = [Profile::Ctd16, Profile::Ctd17, Profile::Ctd2, Profile::CrioOn, Profile::CrioOff];
        let profile = profiles[random.usize(..profiles.len())];
        let server = SyntheticRuntime::new(profile).seed(seed).serve(folder.path().join("s")).await;
        let server = server.expect("a socket");
        server.world(|world| {
            let setup = OnStart::ExitAfter(Duration::from_millis(30), Exit::code(0));
            world.behave("setup", Behavior::default().on_start(setup));
            world.behave("stubborn", Behavior::default().on_stop(OnStop::Ignore));
        });
        let endpoint: Endpoint = server.endpoint().parse().expect("an endpoint");
        let agent = Some(Running::start(&endpoint, folder.path(), Duration::ZERO));
        let mut history = Self {
            seed,
            random,
            folder,
            server: Arc::new(server),
            endpoint,
            agent,
            wanted: BTreeMap::new(),
            versions: 0,
            done: vec![format!("{profile:?}")],
        };
        for pod in 0..PODS {
            history.write(pod);
        }
        history
    }

    async fn step(&mut self) {
        let op = OPS[self.random.usize(..OPS.len())];
        let faults = self.server.faults();
        let choice = self.random.u8(..14);
        self.done.push(format!("{choice} {op:?} {:?}", self.wanted));
        match choice {
            0 | 1 => self.exit_one(),
            2 => {
                let codes = [Code::Unavailable, Code::Unknown, Code::Internal];
                let code = codes[self.random.usize(..codes.len())];
                faults.on(op).times(self.random.u64(1..4)).error(code, "no");
            }
            3 => {
                faults
                    .on(op)
                    .times(self.random.u64(1..3))
                    .after_work()
                    .error(Code::Unknown, "the answer was lost");
            }
            4 => {
                faults.on(op).times(1).hang();
            }
            5 => {
                let longest = Duration::from_millis(self.random.u64(1..150));
                faults.on_any().probability(0.3).times(50).delay_between(Duration::ZERO, longest);
            }
            6 => self.server.events().tamper(EventFaults {
                drop: 0.3,
                double: 0.3,
                reorder: 0.3,
                delay: 0.3,
                ..EventFaults::default()
            }),
            7 => self.server.events().end_streams(None),
            8 => {
                let how = Restart::clean().empty_lists(1).initializing(self.random.u64(..4));
                self.server.restart(how).await.expect("it comes back");
            }
            9 => {
                self.server.go_down().await;
                self.change_one();
                self.exit_one();
                tokio::time::sleep(Duration::from_millis(self.random.u64(..300))).await;
                let how = Restart::clean().sandboxes_not_ready(if self.random.bool() { 0.3 } else { 0.0 });
                self.server.come_up(how).await.expect("it comes back");
            }
            10 => {
                self.agent = None;
                self.change_one();
                tokio::time::sleep(Duration::from_millis(self.random.u64(..100))).await;
                self.start_agent();
            }
            _ => self.change_one(),
        }
        tokio::time::sleep(Duration::from_millis(self.random.u64(..200))).await;
    }

    /// One of its sources is heard late.
    fn start_agent(&mut self) {
        let silence = Duration::from_millis(self.random.u64(..600));
        self.agent = Some(Running::start(&self.endpoint, self.folder.path(), silence));
    }

    /// The process of one container ends by itself.
    fn exit_one(&mut self) {
        let random = &mut self.random;
        self.server.world(|world| {
            let running = |state| state == ContainerState::Running;
            let mut ids: Vec<ContainerId> =
                world.containers().filter(|one| running(one.state())).map(|one| one.id().clone()).collect();
            ids.sort();
            if let Some(id) = random.choice(ids) {
                world.exit(&id, i32::from(random.bool()));
            }
        });
    }

    fn change_one(&mut self) {
        let pod = self.random.usize(..PODS);
        if self.wanted.contains_key(&pod) && self.random.u8(..3) == 0 {
            self.wanted.remove(&pod);
            fs::remove_file(self.file(pod)).expect("it was there");
        } else {
            self.write(pod);
        }
    }

    fn write(&mut self, pod: usize) {
        self.versions += 1;
        fs::write(self.file(pod), manifest(pod, self.versions)).expect("writable");
        self.wanted.insert(pod, self.versions);
    }

    fn file(&self, pod: usize) -> std::path::PathBuf {
        let folder = if pod == LATE { "more" } else { "manifests" };
        self.folder.path().join(folder).join(format!("{pod}.yaml"))
    }

    /// A pod whose source is heard late keeps its port, though another source with one that wants it is heard first.
    async fn restart_with_a_rival(&mut self) {
        if !self.wanted.contains_key(&LATE) {
            self.write(LATE);
            self.until_all_is_well().await;
        }
        self.agent = None;
        let rival = self.folder.path().join("manifests/rival.yaml");
        fs::write(&rival, manifest(LATE, 0).replace("name: pod-", "name: rival-")).expect("writable");
        self.start_agent();
        let refused = || {
            let views = self.agent.as_ref().expect("it runs").handle.board().all();
            let is_rival =
                |name: &Option<String>| name.as_deref().is_some_and(|name| name.starts_with("rival"));
            views.iter().any(|view| {
                is_rival(&view.pod.metadata.name) && view.status.reason.as_deref() == Some("NodePorts")
            })
        };
        self.until("the refusal of the rival", refused).await;
        self.until_all_is_well().await;
        fs::remove_file(rival).expect("it was there");
    }

    async fn end_faults(&mut self) {
        self.server.faults().clear();
        self.server.events().tamper(EventFaults::default());
    }

    /// Every pod that is wanted runs in its last version, and nothing else does.
    async fn until_all_is_well(&self) {
        let mut wanted: Vec<Live> = Vec::new();
        for (pod, version) in &self.wanted {
            wanted.extend(lasting(*pod).iter().map(|container| Live {
                pod: format!("pod-{pod}-node"),
                container: (*container).to_owned(),
                version: version.to_string(),
            }));
        }
        wanted.sort();
        self.until("every pod in its last version", || self.server.world(|world| live(world)) == wanted)
            .await;
    }

    async fn until_nothing_is_left(&mut self) {
        for pod in std::mem::take(&mut self.wanted).into_keys() {
            fs::remove_file(self.file(pod)).expect("it was there");
        }
        let is_empty = |folder: &Path| !folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        let path = self.folder.path();
        self.until("the end of everything", || {
            self.server.world(|world| world.sandboxes().len() + world.containers().len() == 0)
                && is_empty(&path.join("data/pods"))
                && is_empty(&path.join("logs"))
        })
        .await;
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let waiting = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            let board = self.agent.as_ref().map(|agent| agent.handle.board().all());
            let running = self.server.world(|world| live(world));
            let Self { seed, done, .. } = self;
            let sandboxes = self.server.world(|world| {
                let shown = |one: &Sandbox| format!("{:?} {:?}", one.config().metadata, one.state());
                world.sandboxes().map(shown).collect::<Vec<_>>()
            });
            let folder = |name: &str| {
                let entries = self.folder.path().join(name).read_dir().into_iter().flatten().flatten();
                entries.map(|entry| entry.path()).collect::<Vec<_>>()
            };
            let left = (sandboxes, folder("data/pods"), folder("logs"));
            panic!("{what} did not happen, seed {seed}: {done:#?}\n{running:#?}\n{left:#?}\n{board:#?}");
        }
    }
}

/// What runs as long as the pod does.
fn lasting(pod: usize) -> &'static [&'static str] {
    match pod {
        0 => &["db", "web"],
        1 => &["proxy", "web"],
        _ => &["stubborn"],
    }
}

const PORT: &str = "    ports: [{ containerPort: 80 }]\n";

fn manifest(pod: usize, version: u32) -> String {
    let container = |name: &str, more: &str| {
        format!(
            "  - name: {name}\n    image: registry.example/app:1\n    \
             env: [{{ name: VERSION, value: \"{version}\" }}]\n{more}"
        )
    };
    let init = match pod {
        1 => {
            let setup = container("setup", "");
            format!("  initContainers:\n{setup}{}", container("proxy", "    restartPolicy: Always\n"))
        }
        _ => String::new(),
    };
    let regular: String = match pod {
        1 => container("web", ""),
        LATE => lasting(pod).iter().map(|name| container(name, PORT)).collect(),
        _ => lasting(pod).iter().map(|name| container(name, "")).collect(),
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: pod-{pod} }}\nspec:\n  hostNetwork: true\n  \
         terminationGracePeriodSeconds: 1\n{init}  containers:\n{regular}"
    )
}
