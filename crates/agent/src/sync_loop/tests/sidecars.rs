//! The end of a pod that has sidecars: they outlive what they serve, within the grace period of the pod.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn running(command: &str) -> Option<Lifecycle> {
    let exec = ExecAction { command: Some(vec![command.to_owned()]) };
    let pre_stop = LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() };
    Some(Lifecycle { pre_stop: Some(pre_stop), ..Lifecycle::default() })
}

/// The calls to the runtime while a pod ends with a grace period of 30 seconds; it has these sidecars and the container
/// `web`, and all of them run.
async fn calls_at_the_end_of(
    runtime: FakeRuntime,
    change: impl FnOnce(&mut Pod),
    sidecars: &[&str],
) -> Vec<String> {
    let folder = folder();
    let stage = Scene::start(runtime, folder.path());
    let init: Vec<String> = sidecars.iter().map(|name| format!("{name}*")).collect();
    let init: Vec<&str> = init.iter().map(String::as_str).collect();
    let mut pod = testkit::pod("Always", &init, &["web"]);
    change(&mut pod);
    let pod = Arc::new(pod);
    stage.send(Operation::Add, std::slice::from_ref(&pod)).await;
    let all: Vec<String> = sidecars.iter().chain(&["web"]).map(|name| format!("{name}-0")).collect();
    stage.until_running(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    stage.runtime.take_calls();
    stage.send(Operation::Remove, &[pod]).await;
    stage.until_gone().await;
    let mut calls = stage.runtime.take_calls();
    let first = calls.iter().position(|call| call == "stop sandbox").unwrap();
    calls.truncate(first);
    calls
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_gets_what_the_containers_have_left() {
    for (takes, wanted) in [(0, "stop proxy in 30s"), (20, "stop proxy in 10s"), (29, "stop proxy in 2s")] {
        let runtime = FakeRuntime::default();
        runtime.takes_to_stop("web", SECOND * takes);
        let calls = calls_at_the_end_of(runtime, |_| {}, &["proxy"]).await;
        assert_eq!(calls, ["stop web in 30s", wanted], "{takes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_whose_turn_does_not_come_is_stopped_when_the_grace_is_over() {
    let runtime = FakeRuntime::default();
    runtime.takes_to_stop("web", SECOND * 100);
    let calls = calls_at_the_end_of(runtime, |_| {}, &["proxy"]).await;
    assert_eq!(calls, ["stop web in 30s", "stop proxy in 2s"]);
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_cannot_be_stopped_holds_up_those_before_it_until_the_grace_is_over() {
    let runtime = FakeRuntime::default();
    runtime.does_not_stop("second");
    let calls = calls_at_the_end_of(runtime, |_| {}, &["first", "second"]).await;
    assert_eq!(calls, ["stop web in 30s", "stop second in 30s", "stop first in 2s"]);
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_a_sidecar_runs_before_it_waits_for_its_turn() {
    let runtime = FakeRuntime::default();
    runtime.exec_takes("bye", 0, "", SECOND * 5);
    runtime.takes_to_stop("web", SECOND * 10);
    let with_hook = |pod: &mut Pod| {
        pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0].lifecycle = running("bye");
    };
    let mut calls = calls_at_the_end_of(runtime, with_hook, &["proxy"]).await;
    assert_eq!(calls.pop().as_deref(), Some("stop proxy in 20s"), "five of its own, and five of waiting");
    calls.sort();
    assert_eq!(calls, ["exec bye", "stop web in 30s"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_takes_the_whole_grace_leaves_two_seconds() {
    let runtime = FakeRuntime::default();
    runtime.exec_takes("bye", 0, "", SECOND * 100);
    let with_hook = |pod: &mut Pod| pod.spec.as_mut().unwrap().containers[0].lifecycle = running("bye");
    let calls = calls_at_the_end_of(runtime, with_hook, &[]).await;
    assert_eq!(calls, ["exec bye", "stop web in 2s"]);
}
