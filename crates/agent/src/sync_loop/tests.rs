//! The whole agent, on paused time, over a runtime in memory.

mod images;
mod probes;
mod resize;
mod survival;
mod told;
mod volumes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Lifecycle, LifecycleHandler, Pod, SleepAction};
use pleg::{Config, Metrics, Pleg};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Agent, AgentHandle, AgentParts, PodSelector};
use crate::board::{PodView, Stage};
use crate::event::Severity;
use crate::manifest::Objects;
use crate::merge::{Delta, Operation};
use crate::pod::testkit;
use crate::settings::Settings;
use crate::source::{SourceId, SourceKind, SourceUpdate};
use crate::testkit::FakeRuntime;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(3600);

/// An agent and its world.
struct Scene {
    runtime: FakeRuntime,
    handle: AgentHandle,
    updates: mpsc::Sender<SourceUpdate>,
    task: JoinHandle<()>,
    _stop: oneshot::Sender<()>,
    _pleg: Pleg<FakeRuntime>,
}

fn source() -> SourceId {
    SourceId::new(SourceKind::File, "/pods")
}

impl Scene {
    fn start(runtime: FakeRuntime, folder: &Path) -> Self {
        Self::start_with(runtime, folder, |_| {})
    }

    fn start_with(runtime: FakeRuntime, folder: &Path, change: impl FnOnce(&mut Settings)) -> Self {
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
            groups: None,
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(agent.run(async {
            let _ = stopped.await;
        }));
        pleg.start();
        Self { runtime, handle, updates, task, _stop: stop, _pleg: pleg }
    }

    async fn send(&self, operation: Operation, pods: &[Arc<Pod>]) {
        let delta = Delta { source: source(), operation, pods: pods.to_vec() };
        self.updates.send(SourceUpdate::Pods(delta)).await.unwrap();
    }

    /// What the pods may refer to from now on.
    async fn send_objects(&self, objects: Objects) {
        let update = SourceUpdate::Objects { source: source(), objects: Arc::new(objects) };
        self.updates.send(update).await.unwrap();
    }

    /// Waits until a pod is as it should be.
    async fn until(&self, what: &str, holds: impl Fn(&[Arc<PodView>]) -> bool) {
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

    async fn until_phase(&self, wanted: &str) {
        let phase = |view: &Arc<PodView>| view.status.phase.clone().unwrap_or_default();
        self.until(wanted, |all| all.iter().any(|view| phase(view) == wanted)).await;
    }

    async fn until_waiting(&self, wanted: &str) {
        self.until(wanted, |all| all.iter().any(|view| waits_for(view).as_deref() == Some(wanted))).await;
    }

    async fn until_running(&self, wanted: &[&str]) {
        let waiting = async {
            while self.runtime.running() != wanted {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("{wanted:?} do not run, but {:?}", self.runtime.running());
        }
    }

    async fn until_gone(&self) {
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

/// What people are told, as `reason: message`.
fn told(scene: &Scene) -> Vec<String> {
    let views = scene.handle.board().all();
    let events = views.iter().flat_map(|view| view.events.clone());
    events.map(|one| format!("{}: {}", one.reason, one.message)).collect()
}

/// Why the first container waits.
fn waits_for(view: &PodView) -> Option<String> {
    let state = view.status.container_statuses.as_ref()?.first()?.state.as_ref()?;
    state.waiting.as_ref()?.reason.clone()
}

fn pod(policy: &str, init: &[&str], containers: &[&str]) -> Arc<Pod> {
    Arc::new(testkit::pod(policy, init, containers))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_started_and_taken_down() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = pod("Always", &[], &["web"]);
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_phase("Running").await;
    assert_eq!(stage.runtime.take_calls(), ["run sandbox 0", "create web-0", "start"]);
    assert!(folder.path().join("pods/uid").exists());
    stage.send(Operation::Remove, &[web]).await;
    stage.until_gone().await;
    assert_eq!(
        stage.runtime.take_calls(),
        ["stop web in 30s", "stop sandbox", "remove web-0", "stop sandbox", "remove sandbox"]
    );
    assert_eq!(stage.runtime.known(), (0, 0));
    assert!(!folder.path().join("pods/uid").exists());
}

#[tokio::test(start_paused = true)]
async fn a_crashing_container_restarts_at_once_and_then_waits_longer_and_longer() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_running(&["web-0"]).await;
    let mut waits = Vec::new();
    for attempt in 1..6 {
        stage.runtime.exit("web", 1);
        let begun = tokio::time::Instant::now();
        stage.until_running(&[&format!("web-{attempt}")]).await;
        waits.push(begun.elapsed().as_secs());
    }
    // Up to a second is the period of the PLEG, which hears of the exit by looking.
    let wanted = [0, 10, 20, 40, 80];
    assert!(waits.iter().zip(wanted).all(|(wait, wanted)| (wanted..=wanted + 1).contains(wait)), "{waits:?}");
    stage.runtime.exit("web", 1);
    stage.until_waiting("CrashLoopBackOff").await;
    let view = stage.handle.board().all()[0].clone();
    let status = &view.status.container_statuses.as_ref().unwrap()[0];
    let message = status.state.as_ref().unwrap().waiting.as_ref().unwrap().message.clone().unwrap();
    assert_eq!(message, "back-off 2m40s restarting failed container=web pod=web_default(uid)");
    assert_eq!(status.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 1);
    assert_eq!(stage.runtime.known(), (1, 1), "of those that ended only the newest is kept");
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_sidecars_stay() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &["setup", "proxy*"], &["web"])]).await;
    stage.until_running(&["setup-0"]).await;
    stage.runtime.exit("setup", 0);
    stage.until_running(&["proxy-0", "web-0"]).await;
    let calls = stage.runtime.take_calls();
    assert_eq!(
        calls,
        ["run sandbox 0", "create setup-0", "start", "create proxy-0", "start", "create web-0", "start"]
    );
    stage.until_phase("Running").await;
    stage.send(Operation::Remove, &[pod("Always", &["setup", "proxy*"], &["web"])]).await;
    stage.until_gone().await;
    let calls = stage.runtime.take_calls();
    let place = |wanted: &str| calls.iter().position(|call| call.starts_with(wanted)).unwrap();
    assert!(
        place("stop web") < place("stop proxy") && place("stop proxy") < place("stop sandbox"),
        "{calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_by_itself_and_stays_to_be_looked_at() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let job = pod("Never", &[], &["job"]);
    stage.send(Operation::Add, std::slice::from_ref(&job)).await;
    stage.until_running(&["job-0"]).await;
    stage.runtime.exit("job", 3);
    stage.until("end", |all| all[0].stage == Stage::Terminated).await;
    assert_eq!(stage.handle.board().all()[0].status.phase.as_deref(), Some("Failed"));
    assert_eq!(stage.runtime.known(), (1, 1));
    assert_eq!(stage.runtime.take_calls().last().unwrap(), "stop sandbox");
    stage.send(Operation::Remove, &[job]).await;
    stage.until_gone().await;
    assert_eq!(stage.runtime.known(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_broken_sandbox_is_replaced_with_everything_in_it() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_running(&["web-0"]).await;
    stage.runtime.break_sandboxes();
    stage.until_running(&["web-1"]).await;
    let calls = stage.runtime.take_calls();
    assert!(calls.contains(&"run sandbox 1".to_owned()), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_moves_to_another_network_gets_another_sandbox() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let on_host = |is_on_host: bool| {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        pod.spec.as_mut().unwrap().host_network = Some(is_on_host);
        Arc::new(pod)
    };
    stage.send(Operation::Add, &[on_host(true)]).await;
    stage.until_running(&["web-0"]).await;
    stage.runtime.take_calls();
    stage.send(Operation::Update, &[on_host(false)]).await;
    stage.until_running(&["web-1"]).await;
    let calls = stage.runtime.take_calls();
    assert!(calls.contains(&"run sandbox 1".to_owned()), "{calls:?}");
    // And there it stays.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(stage.runtime.running(), ["web-1"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_had_is_asked_for_less_and_less() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_absent("image:1", true);
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_waiting("ErrImagePull").await;
    stage.send(Operation::Update, &[pod("Always", &[], &["web"])]).await;
    stage.until_waiting("ImagePullBackOff").await;
    let pulls = |calls: &[String]| calls.iter().filter(|call| call.starts_with("pull")).count();
    assert_eq!(pulls(&stage.runtime.take_calls()), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tried = pulls(&stage.runtime.take_calls());
    assert!((1..=3).contains(&tried), "{tried} pulls in a minute");
    stage.runtime.image_is_absent("image:1", false);
    stage.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_can_be_ended_while_its_image_is_fetched() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_absent("image:1", true);
    runtime.hang("pull");
    let stage = Scene::start(runtime, folder.path());
    let web = pod("Always", &[], &["web"]);
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until("a pod", |all| !all.is_empty()).await;
    while !stage.runtime.take_calls().contains(&"pull image:1".to_owned()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.send(Operation::Remove, &[web]).await;
    stage.until_gone().await;
    assert_eq!(stage.runtime.known(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_comes_back_adopts_what_runs_and_ends_what_is_no_longer_wanted() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let named = |uid: &str, name: &str| {
        let mut pod = testkit::pod("Always", &[], &[name]);
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.name = Some(name.to_owned());
        Arc::new(pod)
    };
    stage.send(Operation::Add, &[named("1", "stays"), named("2", "goes")]).await;
    stage.until_running(&["goes-0", "stays-0"]).await;
    let runtime = stage.runtime.clone();
    stage.task.abort();
    drop(stage);
    runtime.take_calls();

    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[named("1", "stays")]).await;
    stage.until_running(&["stays-0"]).await;
    stage.until("only one left", |all| all.len() == 1).await;
    let calls = stage.runtime.take_calls();
    assert!(!calls.iter().any(|call| call.starts_with("create") || call.starts_with("run")), "{calls:?}");
    assert_eq!(stage.runtime.known(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_new_version_starts_after_the_old_one_is_gone() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let version = |uid: &str| {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        pod.metadata.uid = Some(uid.to_owned());
        Arc::new(pod)
    };
    stage.send(Operation::Add, &[version("1")]).await;
    stage.until_running(&["web-0"]).await;
    // The runtime in memory would not stand two sandboxes of one name.
    for number in 2..20 {
        stage.send(Operation::Remove, &[version(&(number - 1).to_string())]).await;
        stage.send(Operation::Add, &[version(&number.to_string())]).await;
    }
    stage
        .until("the last version alone", |all| {
            all.len() == 1
                && all[0].pod.metadata.uid.as_deref() == Some("19")
                && all[0].status.phase.as_deref() == Some("Running")
        })
        .await;
    assert_eq!(stage.runtime.running(), ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_pod_stays_stopped_until_it_is_changed() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_running(&["web-0"]).await;
    stage.handle.stop(PodSelector::One("uid".into()), Some(5));
    stage.until("end", |all| all[0].stage == Stage::Terminated).await;
    assert!(stage.runtime.take_calls().contains(&"stop web in 5s".to_owned()));
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(stage.runtime.running().is_empty());

    stage.send(Operation::Update, &[pod("Always", &[], &["web", "db"])]).await;
    stage.until_running(&["db-0", "web-0"]).await;
    stage.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_or_ends_while_nobody_knows_which_pods_there_are() {
    let folder = folder();
    let version = |uid: &str| {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        pod.metadata.uid = Some(uid.to_owned());
        Arc::new(pod)
    };
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[version("1")]).await;
    stage.until_running(&["web-0"]).await;
    let runtime = stage.runtime.clone();
    stage.task.abort();
    drop(stage);
    runtime.take_calls();

    // What should be a folder is none for a while,
    let (pods, away) = (folder.path().join("pods"), folder.path().join("away"));
    std::fs::rename(&pods, &away).unwrap();
    std::fs::write(&pods, "").unwrap();
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[version("2")]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.runtime.take_calls(), Vec::<String>::new());
    assert!(!stage.handle.ready().borrow().is_ready());

    std::fs::remove_file(&pods).unwrap();
    std::fs::rename(away, &pods).unwrap();
    stage
        .until("the new version alone", |all| {
            all.len() == 1 && all[0].pod.metadata.uid.as_deref() == Some("2") && waits_for(&all[0]).is_none()
        })
        .await;
    assert!(stage.handle.ready().borrow().is_ready());
}

#[tokio::test(start_paused = true)]
async fn hooks_eat_into_the_grace_and_a_shorter_grace_cuts_them_short() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let mut web = testkit::pod("Always", &[], &["web"]);
    let sleep = LifecycleHandler { sleep: Some(SleepAction { seconds: 12 }), ..LifecycleHandler::default() };
    web.spec.as_mut().unwrap().containers[0].lifecycle =
        Some(Lifecycle { pre_stop: Some(sleep), ..Lifecycle::default() });
    let web = Arc::new(web);
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_running(&["web-0"]).await;
    stage.runtime.take_calls();
    stage.send(Operation::Remove, std::slice::from_ref(&web)).await;
    stage.until_gone().await;
    assert_eq!(stage.runtime.take_calls()[0], "stop web in 18s");

    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_running(&["web-0"]).await;
    stage.send(Operation::Remove, &[web]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.runtime.take_calls();
    stage.handle.stop(PodSelector::All, Some(1));
    stage.until_gone().await;
    assert_eq!(stage.runtime.take_calls()[0], "stop web in 2s");
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_one_container_does_not_hold_up_another() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_absent("image:1", false);
    let stage = Scene::start(runtime, folder.path());
    let mut two = testkit::pod("Always", &[], &["bad", "good"]);
    two.spec.as_mut().unwrap().containers[0].image = Some("NOT AN IMAGE".to_owned());
    stage.send(Operation::Add, &[Arc::new(two)]).await;
    stage.until_running(&["good-0"]).await;
    stage.until_waiting("InvalidImageName").await;
    stage.runtime.exit("good", 1);
    stage.until_running(&["good-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_is_tried_again_without_haste() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.fail("run_sandbox", Some("no room"));
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let tried = stage.runtime.take_calls().len();
    assert!((5..=12).contains(&tried), "{tried} times in 100 s");
    let happened = stage.handle.board().all()[0].events.clone();
    assert!(
        happened.iter().any(|one| one.reason == "FailedCreatePodSandBox" && one.message.contains("no room"))
    );
    stage.runtime.fail("run_sandbox", None);
    stage.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_answer_was_lost_is_not_made_again_if_it_worked() {
    for call in ["run_sandbox", "create_container", "start_container"] {
        let folder = folder();
        let runtime = FakeRuntime::default();
        runtime.lose_answers(call, true);
        let stage = Scene::start(runtime, folder.path());
        stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.runtime.lose_answers(call, false);
        stage.until_running(&["web-0"]).await;
        stage.until_phase("Running").await;
        assert_eq!(stage.runtime.known(), (1, 1), "{call}");
    }
}

/// Things that happen to pods, runtimes and agents, in an order that a seed decides.
async fn upheaval(seed: u64) {
    const CALLS: [&str; 5] =
        ["run_sandbox", "create_container", "start_container", "stop_container", "stop_sandbox"];
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = folder();
    let runtime = FakeRuntime::default();
    let mut stage = Scene::start(runtime.clone(), folder.path());
    let version = |number: u32| {
        let mut pod = testkit::pod("Always", &["setup", "proxy*"], &["web", "db"]);
        pod.metadata.uid = Some(format!("uid-{number}"));
        Arc::new(pod)
    };
    let mut number = 0;
    stage.send(Operation::Add, &[version(number)]).await;
    for _ in 0..40 {
        let call = CALLS[random.usize(..CALLS.len())];
        match random.u8(..10) {
            0 => runtime.exit("setup", i32::from(random.bool())),
            1 => runtime.exit("web", 1),
            2 => runtime.exit("proxy", 0),
            3 => runtime.break_sandboxes(),
            4 => runtime.fail(call, Some("no")),
            5 => runtime.fail(call, None),
            6 => runtime.lose_answers(call, random.bool()),
            7 => {
                stage.send(Operation::Remove, &[version(number)]).await;
                number += 1;
                stage.send(Operation::Add, &[version(number)]).await;
            }
            8 => {
                stage.task.abort();
                drop(stage);
                stage = Scene::start(runtime.clone(), folder.path());
                stage.send(Operation::Add, &[version(number)]).await;
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.u64(..15_000))).await;
    }
    for call in CALLS {
        runtime.fail(call, None);
        runtime.lose_answers(call, false);
    }
    let last = format!("uid-{number}");
    let is_well = |all: &[Arc<PodView>]| {
        all.len() == 1
            && all[0].pod.metadata.uid.as_deref() == Some(last.as_str())
            && all[0].status.phase.as_deref() == Some("Running")
    };
    // Init containers end by themselves, sooner or later.
    let waiting = async {
        while !(is_well(&stage.handle.board().all()) && runtime.running().len() == 3) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            runtime.exit("setup", 0);
        }
    };
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(ended.is_ok(), "seed {seed}: {:?} {:#?}", runtime.running(), stage.handle.board().all());
    assert_eq!(runtime.broken_rules(), Vec::<String>::new(), "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn never_two_of_a_name_and_never_a_lost_pod_whatever_happens() {
    // As for the other random histories, the variable raises their number; each of these takes as long as many of those.
    let cases: u64 = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600);
    let histories = (cases / 25).max(1);
    for seed in 0..histories {
        upheaval(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_refused_has_failed_and_says_why() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until_running(&["web-0"]).await;
    let which = PodSelector::One("uid".into());
    scene.handle.reject(which, "OutOfcpu", "Node didn't have enough resource: cpu");
    scene.until("end", |all| all[0].stage == Stage::Terminated).await;
    let view = scene.handle.board().all()[0].clone();
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    assert_eq!(said(&view.status.phase), "Failed");
    assert_eq!(said(&view.status.reason), "OutOfcpu");
    assert_eq!(said(&view.status.message), "Pod was rejected: Node didn't have enough resource: cpu");
    assert_eq!(said(&view.status.qos_class), "BestEffort");
    assert!(view.events.iter().any(|one| {
        one.reason == "OutOfcpu"
            && one.severity == Severity::Warning
            && one.message == "Node didn't have enough resource: cpu"
    }));
    assert!(runtime.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_room_costs_nothing_and_runs_as_soon_as_there_is_some() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start_with(runtime.clone(), folder.path(), |settings| settings.admission.max_pods = 1);
    let named = |name: &str| {
        let mut pod = testkit::pod("Never", &[], &[name]);
        (pod.metadata.name, pod.metadata.uid) = (Some(name.to_owned()), Some(format!("uid-{name}")));
        Arc::new(pod)
    };
    scene.send(Operation::Add, &[named("first")]).await;
    scene.until_running(&["first-0"]).await;
    runtime.take_calls();
    scene.send(Operation::Add, &[named("second")]).await;
    scene.until("refusal", |all| all.len() == 2 && all[1].stage == Stage::Terminated).await;
    let refused = scene.handle.board().all()[1].status.clone();
    assert_eq!(refused.reason.as_deref(), Some("OutOfpods"));
    assert_eq!(
        refused.message.as_deref(),
        Some("Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1")
    );
    assert_eq!(refused.container_statuses, None, "nothing of it was ever made");
    assert_eq!(runtime.take_calls(), Vec::<String>::new());
    assert!(!folder.path().join("pods/uid-second").exists());
    assert_eq!(scene.handle.outlook().borrow().waiting_for_room, 1);

    runtime.exit("first", 0);
    scene.until_running(&["second-0"]).await;
    assert_eq!(scene.handle.outlook().borrow().waiting_for_room, 0);
    scene.until("a new life", |all| all[1].status.phase.as_deref() == Some("Running")).await;
}
