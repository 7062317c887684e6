//! What is reported when a pod does not get what it asks for.

use k8s_openapi::api::core::v1::{ExecAction, ResourceRequirements, SELinuxOptions, SecurityContext};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;
use crate::settings::Settings;

/// A pod with one container, changed.
fn changed(change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let mut pod = testkit::pod("Always", &[], &["web"]);
    change(&mut pod);
    Arc::new(pod)
}

impl Scene {
    async fn until_told(&self, reason: &str) -> String {
        let find = |all: &[Arc<PodView>]| {
            let events = all.iter().flat_map(|view| view.events.iter());
            events.clone().find(|event| event.reason == reason).map(|event| event.message.clone())
        };
        self.until(reason, |all| find(all).is_some()).await;
        find(&self.handle.board().all()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_network_and_says_so_and_the_runtime_is_not_pestered() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let problem = "NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized";
    runtime.network_fails(Some(problem));
    let stage = Scene::start(runtime, folder.path());
    let off_the_hosts = changed(|pod| pod.spec.as_mut().unwrap().host_network = None);
    stage.send(Operation::Add, &[off_the_hosts]).await;
    let told = stage.until_told("NetworkNotReady").await;
    assert_eq!(told, format!("network is not ready: container runtime network not ready: {problem}"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let calls = stage.runtime.take_calls();
    let count = |call: &str| calls.iter().filter(|one| *one == call).count();
    assert_eq!(count("run sandbox 0"), 1, "{calls:?}");
    assert!(count("is there a network?") >= 25, "every second: {calls:?}");
    assert!(!super::told(&stage).iter().any(|one| one.starts_with("FailedCreatePodSandBox")));
    stage.runtime.network_fails(None);
    stage.until_running(&["web-0"]).await;
}

#[tokio::test(start_paused = true)]
async fn another_failure_of_a_sandbox_is_told_as_it_is() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.fail("run_sandbox", Some("out of sandboxes"));
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[changed(|_| {})]).await;
    let told = stage.until_told("FailedCreatePodSandBox").await;
    assert_eq!(told, "Failed to create pod sandbox: out of sandboxes");
}

#[tokio::test(start_paused = true)]
async fn a_file_of_name_servers_that_cannot_be_read_is_told_and_read_when_it_is_there() {
    let folder = folder();
    let resolv_conf = folder.path().join("resolv.conf");
    let configured = |settings: &mut Settings| settings.dns.resolv_conf.clone_from(&resolv_conf);
    let stage = Scene::start_with(FakeRuntime::default(), folder.path(), configured);
    stage.send(Operation::Add, &[changed(|_| {})]).await;
    let told = stage.until_told("FailedCreatePodSandBox").await;
    let why = "which lists the name servers: No such file or directory (os error 2)";
    assert_eq!(told, format!("Failed to create pod sandbox: cannot read {}, {why}", resolv_conf.display()));
    std::fs::write(&resolv_conf, "nameserver 192.0.2.53\n").unwrap();
    stage.until_running(&["web-0"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_hosts_file_in_another_encoding_keeps_no_pod_waiting() {
    let folder = folder();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, b"127.0.0.1 a # \xfc\n").unwrap();
    let configured = |settings: &mut Settings| settings.host_hosts.clone_from(&hosts);
    let stage = Scene::start_with(FakeRuntime::default(), folder.path(), configured);
    stage.send(Operation::Add, &[changed(|_| {})]).await;
    stage.until_running(&["web-0"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_signal_that_the_runtime_does_not_know_is_told() {
    for lacks in [false, true] {
        let folder = folder();
        let runtime = FakeRuntime::default();
        if lacks {
            runtime.lack_stop_signals();
        }
        let stage = Scene::start(runtime, folder.path());
        let web = changed(|pod| {
            let lifecycle = Lifecycle { stop_signal: Some("SIGUSR1".to_owned()), ..Lifecycle::default() };
            pod.spec.as_mut().unwrap().containers[0].lifecycle = Some(lifecycle);
        });
        stage.send(Operation::Add, &[web]).await;
        stage.until_phase("Running").await;
        let warned = super::told(&stage).iter().filter(|one| one.starts_with("StopSignalIgnored: ")).count();
        assert_eq!(warned, usize::from(lacks));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_is_told_once() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.exec_answers("greet", 1, "no");
    let stage = Scene::start(runtime, folder.path());
    let web = changed(|pod| {
        let exec = ExecAction { command: Some(vec!["greet".to_owned()]) };
        let hook = LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() };
        let lifecycle = Lifecycle { post_start: Some(hook), ..Lifecycle::default() };
        pod.spec.as_mut().unwrap().containers[0].lifecycle = Some(lifecycle);
    });
    stage.send(Operation::Add, &[web]).await;
    stage.until_told("FailedPostStartHook").await;
    // It has ended, so it is restarted like any other: at once, and then after a while.
    let begun = tokio::time::Instant::now();
    stage.until_waiting("CrashLoopBackOff").await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let calls = stage.runtime.take_calls();
    let made: Vec<_> = calls.iter().filter(|call| call.starts_with("create ")).collect();
    assert_eq!(made, ["create web-0", "create web-1"]);
    let told = super::told(&stage);
    assert!(!told.iter().any(|one| one.starts_with("Failed: ")), "{told:?}");
    assert!(told.contains(&"Killing: FailedPostStartHook".to_owned()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_limits_itself_does_not_run_where_nothing_would_hold_it_to_that() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let limited = changed(|pod| {
        let limits = [("memory".to_owned(), Quantity("64Mi".to_owned()))].into();
        pod.spec.as_mut().unwrap().resources =
            Some(ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() });
    });
    stage.send(Operation::Add, &[limited]).await;
    let told = stage.until_told("FailedCreatePodContainer").await;
    assert!(told.contains("spec.resources.limits"), "{told}");
    assert_eq!(stage.runtime.take_calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn labels_of_selinux_are_told_where_there_is_no_selinux() {
    for selinux in [false, true] {
        let folder = folder();
        let stage = Scene::start_with(FakeRuntime::default(), folder.path(), |settings| {
            settings.security.selinux = selinux;
        });
        let web = changed(|pod| {
            let options = Some(SELinuxOptions { level: Some("s0".to_owned()), ..SELinuxOptions::default() });
            pod.spec.as_mut().unwrap().containers[0].security_context =
                Some(SecurityContext { se_linux_options: options, ..SecurityContext::default() });
        });
        stage.send(Operation::Add, &[web]).await;
        stage.until_phase("Running").await;
        let warned = super::told(&stage).iter().any(|one| one.starts_with("SELinuxDisabled: "));
        assert_eq!(warned, !selinux);
    }
}

fn always_pulled() -> Arc<Pod> {
    changed(|pod| {
        pod.spec.as_mut().unwrap().containers[0].image_pull_policy = Some("Always".to_owned());
    })
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_an_image_comes_is_told_meanwhile() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.hang("pull");
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[always_pulled()]).await;
    assert_eq!(stage.until_told("Pulling").await, "Pulling image \"image:1\"");
    let may_start = |view: &Arc<PodView>| {
        let conditions = view.status.conditions.iter().flatten();
        conditions.clone().any(|one| one.type_ == "PodReadyToStartContainers" && one.status == "True")
    };
    stage.until("the sandbox is told", |all| all.iter().any(may_start)).await;
    assert_eq!(waits_for(&stage.handle.board().all()[0]).as_deref(), Some("ContainerCreating"));
}

#[tokio::test(start_paused = true)]
async fn what_is_ended_is_told_while_it_ends() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let slow = changed(|pod| {
        let sleep = LifecycleHandler { sleep: Some(SleepAction { seconds: 20 }), ..Default::default() };
        let lifecycle = Lifecycle { pre_stop: Some(sleep), ..Lifecycle::default() };
        pod.spec.as_mut().unwrap().containers[0].lifecycle = Some(lifecycle);
    });
    stage.send(Operation::Add, std::slice::from_ref(&slow)).await;
    stage.until_running(&["web-0"]).await;
    stage.send(Operation::Remove, &[slow]).await;
    assert_eq!(stage.until_told("Killing").await, "Stopping container web");
    assert_eq!(stage.handle.board().all()[0].stage, Stage::Terminating);
    assert_eq!(stage.runtime.running(), ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_be_asked_is_told_once_a_try() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[changed(|_| {})]).await;
    stage.until_running(&["web-0"]).await;
    stage.runtime.fail("inspect", Some("not now"));
    stage.runtime.exit("web", 1);
    stage.until_told("FailedSync").await;
    let told = |stage: &Scene| {
        let views = stage.handle.board().all();
        let events = views[0].events.iter().filter(|event| event.reason == "FailedSync");
        events.map(|event| event.count).sum::<u32>()
    };
    let before = told(&stage);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(told(&stage) - before <= 12, "{} and then {}", before, told(&stage));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_is_told_and_tried_again_later_and_later() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = changed(|_| {});
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_running(&["web-0"]).await;
    stage.runtime.fail("remove_sandbox", Some("it is in use"));
    stage.send(Operation::Remove, &[web]).await;
    let told = stage.until_told("FailedKillPod").await;
    assert_eq!(told, "error cleaning up after the pod: it is in use");
    stage.runtime.take_calls();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let tries = stage.runtime.take_calls().iter().filter(|call| *call == "remove sandbox").count();
    assert!((8..20).contains(&tries), "{tries} times in ten minutes");
    stage.runtime.fail("remove_sandbox", None);
    stage.until_gone().await;
}

#[tokio::test(start_paused = true)]
async fn what_of_a_changed_manifest_does_not_reach_what_runs_is_told_once() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until_phase("Running").await;
    let mut changed = testkit::pod("Always", &[], &["web"]);
    changed.spec.as_mut().unwrap().containers[0].command = Some(vec!["other".to_owned()]);
    let changed = Arc::new(changed);
    for _ in 0..2 {
        scene.send(Operation::Update, std::slice::from_ref(&changed)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let all = scene.handle.board().all();
    let told: Vec<_> = all[0].events.iter().filter(|event| event.reason == "ChangeNotApplied").collect();
    assert_eq!(told.iter().map(|event| event.count).collect::<Vec<_>>(), [1]);
    assert!(
        told[0].message.contains(": spec.containers[web].command. Remove metadata.uid"),
        "{}",
        told[0].message
    );
    assert_eq!(runtime.running(), ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn that_a_pod_which_has_finished_does_not_follow_its_manifest_is_told() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Never", &[], &["job"])]).await;
    scene.until_running(&["job-0"]).await;
    runtime.exit("job", 0);
    scene.until("end", |all| all[0].stage == Stage::Terminated).await;
    let mut changed = testkit::pod("Never", &[], &["job"]);
    changed.spec.as_mut().unwrap().containers[0].command = Some(vec!["other".to_owned()]);
    scene.send(Operation::Update, &[Arc::new(changed)]).await;
    let told = scene.until_told("ChangeNotApplied").await;
    assert!(told.contains("the pod has finished"), "{told}");
}
