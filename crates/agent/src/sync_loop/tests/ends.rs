//! Pods that are ended, and what waits for that.

use std::net::Ipv4Addr;

use super::*;
use crate::reach::testkit::{TestServer, reply};

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
    // The runtime in memory does not accept two sandboxes of one name.
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
async fn a_runtime_that_is_away_takes_nothing_of_the_grace() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = pod("Always", &[], &["web"]);
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_running(&["web-0"]).await;
    for call in ["stop_container", "stop_sandbox"] {
        stage.runtime.be_away(call, true);
    }
    stage.send(Operation::Remove, &[web]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.runtime.running(), ["web-0"]);
    stage.runtime.take_calls();
    for call in ["stop_container", "stop_sandbox"] {
        stage.runtime.be_away(call, false);
    }
    stage.until_gone().await;
    assert_eq!(stage.runtime.take_calls()[0], "stop web in 30s");
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_an_instance_that_ended_long_ago_takes_nothing_of_the_grace_of_its_pod() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let of_image = |image: &str| {
        let mut web = testkit::pod("Always", &[], &["web"]);
        let flush = ExecAction { command: Some(vec!["flush".to_owned()]) };
        let flush = LifecycleHandler { exec: Some(flush), ..LifecycleHandler::default() };
        let container = &mut web.spec.as_mut().unwrap().containers[0];
        container.image = Some(image.to_owned());
        container.lifecycle = Some(Lifecycle { pre_stop: Some(flush), ..Lifecycle::default() });
        Arc::new(web)
    };
    stage.send(Operation::Add, &[of_image("one")]).await;
    stage.until_running(&["web-0"]).await;
    stage.send(Operation::Update, &[of_image("two")]).await;
    stage.until_running(&["web-1"]).await;
    assert_eq!(stage.runtime.take_execs().len(), 1);
    // The runtime cannot be asked anything, not even to run the hook.
    for call in ["exec", "stop_container", "stop_sandbox"] {
        stage.runtime.be_away(call, true);
    }
    stage.send(Operation::Remove, &[of_image("two")]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    stage.runtime.take_calls();
    for call in ["exec", "stop_container", "stop_sandbox"] {
        stage.runtime.be_away(call, false);
    }
    stage.until_gone().await;
    assert_eq!(stage.runtime.take_calls()[..2], ["exec flush", "stop web in 30s"]);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_goes_away_in_the_middle_gives_no_time_back_and_no_hook_runs_twice() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.runtime.exec_takes("flush", 0, "", Duration::from_secs(4));
    let mut web = testkit::pod("Always", &[], &["web"]);
    let flush = ExecAction { command: Some(vec!["flush".to_owned()]) };
    let flush = LifecycleHandler { exec: Some(flush), ..LifecycleHandler::default() };
    web.spec.as_mut().unwrap().containers[0].lifecycle =
        Some(Lifecycle { pre_stop: Some(flush), ..Lifecycle::default() });
    let web = Arc::new(web);
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_running(&["web-0"]).await;
    for call in ["stop_container", "stop_sandbox"] {
        stage.runtime.hang_up(call, true);
    }
    stage.send(Operation::Remove, &[web]).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(stage.runtime.running(), ["web-0"]);
    assert_eq!(stage.runtime.take_execs().len(), 1);
    stage.runtime.take_calls();
    for call in ["stop_container", "stop_sandbox"] {
        stage.runtime.hang_up(call, false);
    }
    stage.until_gone().await;
    let stop = stage.runtime.take_calls().remove(0);
    let granted =
        stop.strip_prefix("stop web in ").and_then(|rest| rest.strip_suffix('s')?.parse::<u64>().ok());
    assert!(granted.is_some_and(|granted| granted <= 10), "{stop}");
    assert_eq!(stage.runtime.take_execs().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_comes_up_after_its_pod_has_ended_is_ended_too() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.runtime.sandboxes_are_late(Some(Duration::from_secs(100)));
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    let is_told = |view: &Arc<PodView>| view.events.iter().any(|one| one.reason == "FailedCreatePodSandBox");
    stage.until("no answer", |all| all.iter().any(is_told)).await;
    stage.handle.stop(PodSelector::One("uid".into()), None);
    stage.until("end", |all| all[0].stage == Stage::Terminated).await;
    assert_eq!(stage.runtime.known(), (0, 0));
    stage.runtime.take_calls();
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(stage.runtime.known(), (1, 0));
    assert_eq!(stage.runtime.take_calls(), ["stop sandbox"]);
    assert_eq!(stage.handle.board().all()[0].stage, Stage::Terminated);
}

/// On real time: the hook is requested over a real network.
#[tokio::test]
async fn the_hook_of_a_container_whose_start_failed_is_asked_where_its_new_sandbox_is() {
    let server = TestServer::start(|_| reply(200, "", "")).await;
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.gives_addresses(&[Ipv4Addr::LOCALHOST.into()]);
    runtime.exec_answers("greet", 1, "nobody is there");
    let stage = Scene::start(runtime, folder.path());
    let mut web = testkit::pod("Always", &[], &["web"]);
    let greet = ExecAction { command: Some(vec!["greet".to_owned()]) };
    let spec = web.spec.as_mut().unwrap();
    spec.host_network = None;
    spec.containers[0].lifecycle = Some(Lifecycle {
        post_start: Some(LifecycleHandler { exec: Some(greet), ..LifecycleHandler::default() }),
        pre_stop: Some(LifecycleHandler {
            http_get: Some(server.action("/bye", "HTTP")),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    });
    stage.send(Operation::Add, &[Arc::new(web)]).await;
    stage.until_waiting("PostStartHookError").await;
    assert!(server.asked().iter().any(|asked| asked.starts_with("GET /bye")), "{:?}", server.asked());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_removed_while_a_call_hangs_is_said_to_end() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.runtime.hang("run_sandbox");
    let web = pod("Always", &[], &["web"]);
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until("a pod", |all| !all.is_empty()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.send(Operation::Remove, &[web]).await;
    stage.until("the word", |all| all[0].stage == Stage::Terminating).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_may_have_no_other_sandbox_fails_when_it_loses_its_own() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let mut job = testkit::pod("Never", &[], &["one", "two"]);
    job.spec.as_mut().unwrap().containers[1].image = Some("none:1".to_owned());
    stage.runtime.image_is_absent("none:1", true);
    stage.runtime.fail("pull", Some("no such image"));
    stage.send(Operation::Add, &[Arc::new(job)]).await;
    stage.until_running(&["one-0"]).await;
    stage.runtime.break_sandboxes();
    stage.until_phase("Failed").await;
    let view = &stage.handle.board().all()[0];
    assert_eq!(view.status.reason.as_deref(), Some("SandboxLost"));
    let conditions = view.status.conditions.as_deref().unwrap_or_default();
    let has_sandbox = conditions.iter().find(|one| one.type_ == "PodReadyToStartContainers");
    assert_eq!(has_sandbox.map(|one| one.status.as_str()), Some("False"));
    assert!(view.events.iter().any(|event| event.reason == "SandboxLost"));
}

#[tokio::test(start_paused = true)]
async fn an_init_container_that_is_ended_with_its_sandbox_does_not_end_its_pod() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let mut web = testkit::pod("Always", &["setup"], &["web"]);
    let setup = &mut web.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0];
    testkit::on_exit(setup, "Restart", &[1]);
    stage.send(Operation::Add, &[Arc::new(web)]).await;
    stage.until_running(&["setup-0"]).await;
    stage.runtime.ends_with("setup", 143);
    stage.runtime.break_sandboxes();
    stage.until_running(&["setup-1"]).await;
    stage.runtime.exit("setup", 0);
    stage.until_running(&["web-0"]).await;
    stage.until_phase("Running").await;
}
