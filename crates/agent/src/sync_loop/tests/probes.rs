//! Probes, run by the whole agent.

use k8s_openapi::api::core::v1::{Container, ExecAction, Probe};
use tokio::time::Instant;

use super::*;
use crate::reach::testkit::{TestServer, reply};
use crate::settings::HostIps;

fn probe(command: &str) -> Probe {
    let words = command.split(' ').map(str::to_owned).collect();
    Probe { exec: Some(ExecAction { command: Some(words) }), ..Probe::default() }
}

/// A pod with one container that has these probes.
fn probed(change: impl FnOnce(&mut Container)) -> Arc<Pod> {
    let mut pod = testkit::pod("Always", &[], &["web"]);
    change(&mut pod.spec.as_mut().unwrap().containers[0]);
    Arc::new(pod)
}

fn is_ready(view: &PodView) -> bool {
    let conditions = view.status.conditions.iter().flatten();
    conditions.clone().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn container_started(view: &PodView) -> bool {
    view.status.container_statuses.iter().flatten().all(|status| status.started == Some(true))
}

impl Scene {
    async fn until_ready(&self, wanted: bool) {
        let what = format!("ready is {wanted}");
        self.until(&what, |all| all.iter().any(|view| is_ready(view) == wanted)).await;
    }

    /// Returns the commands that were started, without their containers.
    fn commands(&self) -> Vec<String> {
        self.runtime.take_execs().into_iter().map(|(_, command)| command).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_its_liveness_probe_three_times_is_replaced() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = probed(|web| {
        web.liveness_probe = Some(Probe { termination_grace_period_seconds: Some(5), ..probe("live") });
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_running(&["web-0"]).await;
    stage.until_ready(true).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(stage.runtime.running(), ["web-0"]);
    assert!((10..=11).contains(&stage.commands().len()), "every ten seconds");

    stage.runtime.exec_answers("live", 1, "dead");
    let begun = Instant::now();
    stage.runtime.take_calls();
    stage.until_running(&["web-1"]).await;
    let took = begun.elapsed().as_secs();
    assert!((20..=32).contains(&took), "three rounds: {took} s");
    let calls = stage.runtime.take_calls();
    assert!(calls.contains(&"stop web in 5s".to_owned()), "the grace of the probe: {calls:?}");
    let told = told(&stage);
    for wanted in [
        "Unhealthy: Liveness probe failed: dead",
        "Killing: Container web failed liveness probe, will be restarted",
    ] {
        assert!(told.contains(&wanted.to_owned()), "{wanted}: {told:?}");
    }
    stage.runtime.exec_answers("live", 0, "");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(stage.runtime.running(), ["web-1"], "a new instance begins anew");
}

#[tokio::test(start_paused = true)]
async fn what_a_probe_says_while_the_pod_is_acted_on_in_vain_is_acted_on_next() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.runtime.image_is_absent("r.io/none:1", true);
    stage.runtime.pulls_take(Duration::from_secs(40));
    let mut pod = testkit::pod("Always", &[], &["web", "db"]);
    let containers = &mut pod.spec.as_mut().unwrap().containers;
    containers[0].liveness_probe = Some(probe("live"));
    containers[1].image = Some("r.io/none:1".to_owned());
    stage.send(Operation::Add, &[Arc::new(pod)]).await;
    stage.until_running(&["web-0"]).await;
    // Until there is a long wait between two attempts to pull the image.
    tokio::time::sleep(Duration::from_secs(1500)).await;
    stage.runtime.take_calls();
    let until_pull = async {
        while !stage.runtime.take_calls().iter().any(|call| call.starts_with("pull ")) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_pull).await.expect("it is tried again");
    let begun = Instant::now();
    stage.runtime.exec_answers("live", 1, "dead");
    stage.until_running(&["web-1"]).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(45), "as soon as the image has not come: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_killed_again_and_again_waits_longer_and_longer() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.runtime.exec_answers("live", 1, "dead");
    let web = probed(|web| {
        let hasty = Probe { period_seconds: Some(1), failure_threshold: Some(1), ..probe("live") };
        web.liveness_probe = Some(hasty);
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_waiting("CrashLoopBackOff").await;
    stage.runtime.take_calls();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let calls = stage.runtime.take_calls();
    let made = calls.iter().filter(|call| call.starts_with("create ")).count();
    assert!((3..=7).contains(&made), "{made}: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_readiness_probe_makes_a_pod_ready_and_unready_and_nothing_else() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_answers("ready", 1, "not yet");
    let stage = Scene::start(runtime, folder.path());
    let web = probed(|web| {
        web.readiness_probe =
            Some(Probe { initial_delay_seconds: Some(5), period_seconds: Some(2), ..probe("ready") });
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_phase("Running").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(stage.commands().is_empty(), "it is left alone at first");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!is_ready(&stage.handle.board().all()[0]));
    stage.runtime.take_calls();
    let changes = [true, false, true];
    for wanted in changes {
        stage.runtime.exec_answers("ready", i32::from(!wanted), "no");
        let begun = Instant::now();
        stage.until_ready(wanted).await;
        let took = begun.elapsed().as_secs();
        let wanted_time = if wanted { 0..=2 } else { 4..=6 };
        assert!(wanted_time.contains(&took), "{took} s until ready is {wanted}");
    }
    let calls = stage.runtime.take_calls();
    assert!(calls.iter().all(|call| call == "exec ready"), "only questions: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn other_probes_wait_for_the_startup_probe() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_answers("started", 1, "");
    runtime.exec_answers("live", 1, "would be killed");
    let stage = Scene::start(runtime, folder.path());
    let web = probed(|web| {
        web.startup_probe = Some(Probe { failure_threshold: Some(100), ..probe("started") });
        web.liveness_probe = Some(probe("live"));
        web.readiness_probe = Some(probe("ready"));
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_phase("Running").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let commands = stage.commands();
    assert!(commands.len() >= 12 && commands.iter().all(|command| command == "started"), "{commands:?}");
    assert!(!is_ready(&stage.handle.board().all()[0]));

    stage.runtime.exec_answers("live", 0, "");
    stage.runtime.exec_answers("started", 0, "");
    stage.until_ready(true).await;
    assert!(container_started(&stage.handle.board().all()[0]));
    stage.commands();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let commands = stage.commands();
    let count = |wanted: &str| commands.iter().filter(|command| *command == wanted).count();
    assert_eq!(count("started"), 0, "it has started for good");
    assert!(count("live") >= 5 && count("ready") >= 5, "{commands:?}");
    assert_eq!(stage.runtime.running(), ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_has_all_of_its_first_period_to_start_and_to_live_but_may_be_quicker() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_answers("up", 1, "not yet");
    let stage = Scene::start(runtime, folder.path());
    let at_once = Probe { failure_threshold: Some(1), period_seconds: Some(20), ..probe("up") };
    let mut pod = testkit::pod("Always", &[], &["starts", "lives"]);
    let containers = &mut pod.spec.as_mut().unwrap().containers;
    containers[0].startup_probe = Some(at_once.clone());
    containers[1].liveness_probe = Some(at_once);
    stage.send(Operation::Add, &[Arc::new(pod)]).await;
    stage.until_running(&["lives-0", "starts-0"]).await;
    tokio::time::sleep(Duration::from_secs(18)).await;
    assert_eq!(stage.runtime.take_execs(), [("starts-0".to_owned(), "up".to_owned())]);
    assert!(!told(&stage).iter().any(|one| one.starts_with("Unhealthy")), "{:?}", told(&stage));
    stage.runtime.exec_answers("up", 0, "");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(stage.runtime.running(), ["lives-0", "starts-0"]);
    assert!(container_started(&stage.handle.board().all()[0]));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_does_not_start_in_time_is_replaced() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_answers("started", 1, "");
    let stage = Scene::start(runtime, folder.path());
    let web = probed(|web| {
        web.startup_probe =
            Some(Probe { failure_threshold: Some(2), period_seconds: Some(3), ..probe("started") });
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_running(&["web-0"]).await;
    let begun = Instant::now();
    stage.until_running(&["web-1"]).await;
    let took = begun.elapsed().as_secs();
    assert!((5..=7).contains(&took), "it had two whole periods: {took} s");
    let wanted = "Killing: Container web failed startup probe, will be restarted".to_owned();
    assert!(told(&stage).contains(&wanted), "{:?}", told(&stage));
    stage.runtime.exec_answers("started", 0, "");
    stage.until_ready(true).await;
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_is_ended_is_told_as_an_init_container() {
    type Change = fn(&mut Container);
    let table: [(Change, &str); 2] = [
        (|side| side.liveness_probe = Some(probe("dead")), "Init container side failed liveness probe"),
        (|side| side.startup_probe = Some(probe("dead")), "Init container side failed startup probe"),
    ];
    for (change, wanted) in table {
        let folder = folder();
        let stage = Scene::start(FakeRuntime::default(), folder.path());
        stage.runtime.exec_answers("dead", 1, "");
        let mut pod = testkit::pod("Always", &["side*"], &["web"]);
        change(&mut pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0]);
        stage.send(Operation::Add, &[Arc::new(pod)]).await;
        stage
            .until(wanted, |all| {
                all.iter().flat_map(|view| &view.events).any(|event| event.message == wanted)
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn containers_wait_for_the_startup_probe_of_a_sidecar() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_answers("started", 1, "");
    let stage = Scene::start(runtime, folder.path());
    let mut pod = testkit::pod("Always", &["proxy*"], &["web"]);
    let sidecar = &mut pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0];
    sidecar.startup_probe = Some(Probe { failure_threshold: Some(100), ..probe("started") });
    stage.send(Operation::Add, &[Arc::new(pod)]).await;
    stage.until_running(&["proxy-0"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.runtime.running(), ["proxy-0"]);
    stage.runtime.exec_answers("started", 0, "");
    stage.until_running(&["proxy-0", "web-0"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_old_instance_answers_is_not_held_against_the_new_one() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_takes("live", 1, "dead", Duration::from_secs(5));
    let stage = Scene::start(runtime, folder.path());
    let web = probed(|web| {
        let slow = Probe { failure_threshold: Some(1), timeout_seconds: Some(60), ..probe("live") };
        web.liveness_probe = Some(slow);
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_running(&["web-0"]).await;
    while stage.runtime.take_execs().is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The probe is in progress and will fail, but it is about an instance that is ending now.
    stage.runtime.exec_answers("live", 0, "");
    stage.runtime.exit("web", 0);
    stage.until_running(&["web-1"]).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(stage.runtime.running(), ["web-1"]);
    let asked = stage.runtime.take_execs();
    assert!(asked.iter().all(|(container, _)| container == "web-1"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_tried_three_times_and_says_nothing() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = probed(|web| {
        web.liveness_probe = Some(Probe { failure_threshold: Some(1), ..probe("live") });
        web.readiness_probe = Some(probe("ready"));
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_ready(true).await;
    stage.runtime.take_execs();
    stage.runtime.fail("exec", Some("no shim"));
    tokio::time::sleep(Duration::from_millis(95_500)).await;
    let asked = stage.commands().iter().filter(|command| *command == "live").count();
    assert!((27..=33).contains(&asked), "three tries, every ten seconds: {asked}");
    assert!(is_ready(&stage.handle.board().all()[0]));
    assert_eq!(stage.runtime.running(), ["web-0"]);
    let wanted = "Unhealthy: Liveness probe errored and resulted in unknown state: no shim".to_owned();
    assert!(told(&stage).contains(&wanted), "{:?}", told(&stage));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_comes_back_knows_what_was_started_and_ready() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = probed(|web| {
        web.startup_probe = Some(Probe { failure_threshold: Some(1), ..probe("started") });
        web.readiness_probe = Some(probe("ready"));
    });
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_ready(true).await;
    let runtime = stage.runtime.clone();
    // Once the verdict is published it is also on disk.
    while !folder.path().join("pods/uid/probes.json").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.task.abort();
    drop(stage);
    // If it were probed now, it would be killed.
    runtime.exec_answers("started", 1, "no longer");
    runtime.take_execs();

    let stage = Scene::start(runtime, folder.path());
    let mut changes = stage.handle.board().changes();
    stage.send(Operation::Add, &[web]).await;
    let watching = async {
        loop {
            changes.changed().await.unwrap();
            for view in stage.handle.board().all() {
                let runs = view.status.phase.as_deref() == Some("Running");
                assert!(!runs || is_ready(&view), "it was ready all the time: {:#?}", view.status);
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(100), watching).await;
    stage.until_ready(true).await;
    let commands = stage.commands();
    assert!(commands.iter().all(|command| command == "ready"), "{commands:?}");
    assert!((9..=11).contains(&commands.len()), "{commands:?}");
    assert_eq!(stage.runtime.running(), ["web-0"]);
    stage.runtime.exec_answers("ready", 1, "");
    stage.until_ready(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_is_still_asked_whether_it_is_ready_but_not_whether_it_lives() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = probed(|web| {
        web.liveness_probe = Some(Probe { period_seconds: Some(1), ..probe("live") });
        web.readiness_probe = Some(Probe { period_seconds: Some(1), ..probe("ready") });
        let sleep =
            LifecycleHandler { sleep: Some(SleepAction { seconds: 20 }), ..LifecycleHandler::default() };
        web.lifecycle = Some(Lifecycle { pre_stop: Some(sleep), ..Lifecycle::default() });
    });
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_ready(true).await;
    stage.send(Operation::Remove, &[web]).await;
    stage.until("its end", |all| all[0].stage == Stage::Terminating).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.runtime.exec_answers("ready", 1, "");
    stage.commands();
    stage.until_ready(false).await;
    assert_eq!(stage.handle.board().all()[0].stage, Stage::Terminating, "told while it ends");
    let commands = stage.commands();
    assert!(commands.len() >= 3 && commands.iter().all(|command| command == "ready"), "{commands:?}");
    stage.until_gone().await;
    stage.commands();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(stage.commands().is_empty(), "nobody is left to be asked");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_told_although_the_pod_is_busy_with_something_else() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let mut pod = testkit::pod("Always", &[], &["web", "slow"]);
    let containers = &mut pod.spec.as_mut().unwrap().containers;
    containers[0].readiness_probe = Some(probe("ready"));
    containers[1].image = Some("slow:1".to_owned());
    stage.send(Operation::Add, &[Arc::new(pod)]).await;
    stage.until_ready(true).await;
    stage.runtime.image_is_absent("slow:1", true);
    stage.runtime.hang("pull");
    stage.runtime.take_calls();
    stage.runtime.exit("slow", 0);
    while !stage.runtime.take_calls().contains(&"pull slow:1".to_owned()) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stage.runtime.exec_answers("ready", 1, "");
    let is_web_ready = |view: &PodView| {
        let statuses = view.status.container_statuses.iter().flatten();
        statuses.clone().any(|status| status.name == "web" && status.ready)
    };
    stage.until("web is not ready", |all| !is_web_ready(&all[0])).await;
    stage.runtime.exec_answers("ready", 0, "");
    stage.until("web is ready", |all| is_web_ready(&all[0])).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_definition_of_a_probe_counts_at_once_and_restarts_nothing() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.runtime.exec_answers("worse", 1, "");
    let asks = |command: &str| probed(|web| web.readiness_probe = Some(probe(command)));
    stage.send(Operation::Add, &[asks("ready")]).await;
    stage.until_ready(true).await;
    stage.send(Operation::Update, &[asks("worse")]).await;
    stage.until_ready(false).await;
    assert!(!stage.commands().is_empty());
    stage.send(Operation::Update, &[probed(|_| {})]).await;
    stage.until_ready(true).await;
    stage.commands();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(stage.commands().is_empty(), "it has no probe any more");
    assert_eq!(stage.runtime.running(), ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_taken_back_asks_no_more_and_kills_nothing_while_another_goes_on() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let both = probed(|web| {
        web.liveness_probe = Some(probe("live"));
        web.readiness_probe = Some(probe("ready"));
    });
    stage.send(Operation::Add, &[both]).await;
    stage.until_ready(true).await;
    stage.runtime.exec_answers("live", 1, "would be killed");
    stage.send(Operation::Update, &[probed(|web| web.readiness_probe = Some(probe("ready")))]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.commands();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let commands = stage.commands();
    assert!(commands.len() >= 9 && commands.iter().all(|command| command == "ready"), "{commands:?}");
    assert_eq!(stage.runtime.running(), ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_startup_probe_goes_on_when_that_is_taken_back() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_answers("started", 1, "");
    let stage = Scene::start(runtime, folder.path());
    let waits = probed(|web| {
        web.startup_probe = Some(Probe { failure_threshold: Some(100), ..probe("started") });
        web.readiness_probe = Some(probe("ready"));
    });
    stage.send(Operation::Add, &[waits]).await;
    stage.until_phase("Running").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!is_ready(&stage.handle.board().all()[0]));
    stage.send(Operation::Update, &[probed(|web| web.readiness_probe = Some(probe("ready")))]).await;
    stage.until_ready(true).await;
    assert!(container_started(&stage.handle.board().all()[0]));
    assert_eq!(stage.runtime.running(), ["web-0"]);
}

#[tokio::test]
async fn a_pod_on_the_hosts_network_is_asked_at_the_address_that_the_host_has_now() {
    let folder = folder();
    let server = TestServer::start(|_| reply(200, "", "")).await;
    // Nothing answers at the first address.
    let (told, host_ips) = HostIps::watched(vec!["127.0.0.2".parse().unwrap()]);
    let stage = Scene::start_with(FakeRuntime::default(), folder.path(), |settings| {
        settings.host_ips = host_ips;
    });
    let mut pod = probed(|web| {
        let action = server.action("/", "HTTP");
        web.readiness_probe =
            Some(Probe { http_get: Some(action), period_seconds: Some(1), ..Probe::default() });
    });
    Arc::make_mut(&mut pod).spec.as_mut().unwrap().host_network = Some(true);
    stage.send(Operation::Add, &[pod]).await;
    stage
        .until("it is not ready", |_| self::told(&stage).iter().any(|what| what.contains("127.0.0.2")))
        .await;
    told.send_replace(["127.0.0.1".parse().unwrap()].into());
    stage.until_ready(true).await;
}
