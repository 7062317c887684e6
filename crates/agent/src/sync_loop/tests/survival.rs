//! What is known of pods outlives the agent, the runtime, and both together.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    ContainerStatus, ExecAction, HostPathVolumeSource, PodStatus as ApiStatus, Volume, VolumeMount,
};

use super::*;
use crate::manifest::annotation;
use crate::settings::Settings;
use crate::source::SourceKind;

impl Scene {
    /// The agent dies without warning, and another one starts.
    async fn dies_and_comes_back(self, folder: &Path, runtime: &FakeRuntime) -> Self {
        self.dies_and_comes_back_with(folder, runtime, |_| {}).await
    }

    async fn dies_and_comes_back_with(
        self,
        folder: &Path,
        runtime: &FakeRuntime,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        self.task.abort();
        drop(self);
        // Until the one that was killed is really gone.
        tokio::task::yield_now().await;
        Self::start_with(runtime.clone(), folder, change)
    }

    fn status(&self) -> ApiStatus {
        self.handle.board().all()[0].status.clone()
    }

    fn container(&self) -> ContainerStatus {
        self.status().container_statuses.unwrap().remove(0)
    }
}

/// Waits until this phase is on disk.
async fn until_kept(folder: &Path, phase: &str) {
    until_kept_text(folder, &format!("\"phase\":\"{phase}\"")).await;
}

async fn until_kept_text(folder: &Path, wanted: &str) {
    let file = folder.join("pods/uid/status.json");
    let waiting = async {
        while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains(wanted)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{wanted} is not kept"));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_has_ended_for_good_stays_so_though_its_pod_begins_anew_elsewhere() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let both = || pod("OnFailure", &[], &["done", "web"]);
    scene.send(Operation::Add, &[both()]).await;
    scene.until_running(&["done-0", "web-0"]).await;
    runtime.exit("done", 0);
    until_kept_text(folder.path(), "\"reason\":\"Completed\"").await;
    runtime.forget_everything();
    let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
    scene.send(Operation::Add, &[both()]).await;
    scene.until_running(&["web-1"]).await;
    scene
        .until("word of it", |all| all[0].status.container_statuses.iter().flatten().any(|one| one.ready))
        .await;
    let done = scene.container();
    assert_eq!(done.state.unwrap().terminated.unwrap().exit_code, 0);
}

/// Changes the status on disk so that the pod started years ago.
fn began_long_ago(folder: &Path) {
    let file = folder.join("pods/uid/status.json");
    let mut kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    kept["status"]["startTime"] = "2020-01-01T00:00:00Z".into();
    std::fs::write(&file, kept.to_string()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_has_finished_never_runs_again_though_nothing_is_left_of_it() {
    for (policy, code, phase) in
        [("Never", 3, "Failed"), ("Never", 0, "Succeeded"), ("OnFailure", 0, "Succeeded")]
    {
        let folder = folder();
        let runtime = FakeRuntime::default();
        let scene = Scene::start(runtime.clone(), folder.path());
        scene.send(Operation::Add, &[pod(policy, &[], &["job"])]).await;
        scene.until_running(&["job-0"]).await;
        runtime.exit("job", code);
        scene.until("end", |all| all[0].stage == Stage::Terminated).await;
        until_kept(folder.path(), phase).await;
        let before = scene.status();
        runtime.forget_everything();
        runtime.take_calls();
        let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
        scene.send(Operation::Add, &[pod(policy, &[], &["job"])]).await;
        scene.until("end", |all| all.first().is_some_and(|view| view.stage == Stage::Terminated)).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(scene.status().phase.as_deref(), Some(phase));
        assert_eq!(scene.status().start_time, before.start_time);
        assert_eq!(scene.container().state, before.container_statuses.unwrap()[0].state);
        assert_eq!(runtime.take_calls(), Vec::<String>::new(), "{policy} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_refused_has_failed_but_the_next_agent_may_take_it() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until_running(&["web-0"]).await;
    until_kept(folder.path(), "Running").await;
    let full = |settings: &mut Settings| settings.admission.max_pods = 0;
    let scene = scene.dies_and_comes_back_with(folder.path(), &runtime, full).await;
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until("end", |all| all.first().is_some_and(|view| view.stage == Stage::Terminated)).await;
    assert!(runtime.running().is_empty());
    let why = "Node didn't have enough resource: pods, requested: 1, used: 0, capacity: 0";
    let ApiStatus { phase, reason, message, qos_class, .. } = scene.status();
    let said = [phase, reason, message, qos_class].map(Option::unwrap_or_default);
    assert_eq!(said, ["Failed", "OutOfpods", &format!("Pod was rejected: {why}"), "BestEffort"]);
    let events = scene.handle.board().all()[0].events.clone();
    assert!(
        events.iter().any(|one| {
            (&*one.reason, one.severity, &*one.message) == ("OutOfpods", Severity::Warning, why)
        })
    );
    until_kept(folder.path(), "Failed").await;

    let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until_running(&["web-1"]).await;
    scene.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_stopped_before_it_began_begins_under_the_next_agent() {
    for (policy, init) in [("Never", &[][..]), ("Always", &[][..]), ("Never", &["setup"][..])] {
        let folder = folder();
        let of_host = folder.path().join("of-host");
        let mut waiting = testkit::pod(policy, init, &["job"]);
        let annotation = (annotation::SOURCE.to_owned(), SourceKind::File.as_str().to_owned());
        waiting.metadata.annotations = Some([annotation].into());
        let spec = waiting.spec.as_mut().unwrap();
        spec.containers[0].volume_mounts = Some(vec![VolumeMount {
            name: "host".to_owned(),
            mount_path: "/host".to_owned(),
            ..VolumeMount::default()
        }]);
        spec.volumes = Some(vec![Volume {
            name: "host".to_owned(),
            host_path: Some(HostPathVolumeSource {
                path: of_host.display().to_string(),
                type_: Some("Directory".to_owned()),
            }),
            ..Volume::default()
        }]);
        let waiting = Arc::new(waiting);
        let runtime = FakeRuntime::default();
        let scene = Scene::start(runtime.clone(), folder.path());
        scene.send(Operation::Add, std::slice::from_ref(&waiting)).await;
        let lacks_volume = |all: &[Arc<PodView>]| {
            all.first().is_some_and(|view| view.events.iter().any(|one| one.reason == "FailedMount"))
        };
        scene.until("no volume", lacks_volume).await;
        scene.handle.stop(PodSelector::All, None);
        scene.until("end", |all| all[0].stage == Stage::Terminated).await;
        until_kept_text(folder.path(), "ContainerStatusUnknown").await;
        let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
        scene.send(Operation::Add, &[waiting]).await;
        scene.until("no volume", lacks_volume).await;
        assert_eq!(scene.status().phase.as_deref(), Some("Pending"), "{policy} {init:?}");
        std::fs::create_dir(&of_host).unwrap();
        scene.until_running(&[if init.is_empty() { "job-0" } else { "setup-0" }]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_by_a_reboot_ends_or_goes_on_as_its_policy_says() {
    for (policy, wanted) in [("Never", None), ("OnFailure", Some("web-2")), ("Always", Some("web-2"))] {
        let folder = folder();
        let runtime = FakeRuntime::default();
        let scene = Scene::start(runtime.clone(), folder.path());
        scene.send(Operation::Add, &[pod(policy, &[], &["web"])]).await;
        scene.until_running(&["web-0"]).await;
        if policy != "Never" {
            runtime.exit("web", 1);
            scene.until_running(&["web-1"]).await;
        }
        until_kept(folder.path(), "Running").await;
        let before = scene.status();
        runtime.forget_everything();
        let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
        runtime.take_calls();
        scene.send(Operation::Add, &[pod(policy, &[], &["web"])]).await;
        match wanted {
            Some(wanted) => {
                scene.until_running(&[wanted]).await;
                scene
                    .until("counted", |all| {
                        all[0].status.container_statuses.as_ref().unwrap()[0].restart_count == 2
                    })
                    .await;
                assert!(scene.container().last_state.unwrap().terminated.is_some());
            }
            None => {
                scene
                    .until("end", |all| all.first().is_some_and(|view| view.stage == Stage::Terminated))
                    .await;
                assert_eq!(scene.status().phase.as_deref(), Some("Failed"));
                let ended = scene.container().state.unwrap().terminated.unwrap();
                assert_eq!(ended.reason.as_deref(), Some("ContainerStatusUnknown"));
                assert!(!runtime.take_calls().iter().any(|call| call.starts_with("run")));
            }
        }
        assert_eq!(scene.status().start_time, before.start_time, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_count_of_restarts_never_goes_back_though_only_the_newest_instance_is_lost() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until_running(&["web-0"]).await;
    runtime.exit("web", 1);
    scene.until_running(&["web-1"]).await;
    let counts = |all: &[Arc<PodView>], count| {
        all[0].status.container_statuses.as_ref().unwrap()[0].restart_count == count
    };
    scene.until("one restart", |all| counts(all, 1)).await;
    runtime.forget_running();
    scene.until_running(&["web-2"]).await;
    scene.until("two restarts", |all| counts(all, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_lost_is_restarted_once_though_that_takes_a_while() {
    let count = |all: &[Arc<PodView>]| all[0].status.container_statuses.as_ref().unwrap()[0].restart_count;

    // Its sandbox is lost with it, so what comes before it has to run again.
    let (first, runtime) = (folder(), FakeRuntime::default());
    let scene = Scene::start(runtime.clone(), first.path());
    scene.send(Operation::Add, &[pod("Always", &["setup"], &["web"])]).await;
    scene.until_running(&["setup-0"]).await;
    runtime.exit("setup", 0);
    scene.until_phase("Running").await;
    runtime.lose_sight();
    runtime.break_sandboxes();
    scene.until_running(&["setup-1"]).await;
    runtime.exit("setup", 0);
    scene.until_running(&["web-1"]).await;
    scene.until("a restart", |all| waits_for(&all[0]).is_none() && count(all) == 1).await;

    // It has crashed before, so it has to wait; and while it waits, another agent starts.
    for dies in [false, true] {
        let (second, runtime) = (folder(), FakeRuntime::default());
        let mut scene = Scene::start(runtime.clone(), second.path());
        let both = pod("Always", &[], &["web", "zone"]);
        scene.send(Operation::Add, std::slice::from_ref(&both)).await;
        scene.until_running(&["web-0", "zone-0"]).await;
        runtime.exit("web", 1);
        scene.until_running(&["web-1", "zone-0"]).await;
        scene.until("the first restart", |all| waits_for(&all[0]).is_none() && count(all) == 1).await;
        // The end of the other container is what makes the agent look.
        runtime.exit("zone", 1);
        runtime.lose_sight();
        scene.until_waiting("CrashLoopBackOff").await;
        if dies {
            scene = scene.dies_and_comes_back(second.path(), &runtime).await;
            scene.send(Operation::Add, &[both]).await;
        }
        scene.until_running(&["web-2", "zone-1"]).await;
        scene.until("the second restart", |all| !all.is_empty() && waits_for(&all[0]).is_none()).await;
        assert_eq!(scene.container().restart_count, 2, "{dies}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_or_may_not_run_is_ended_before_it_is_started_again() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Always", &["side*"], &["web"])]).await;
    scene.until_running(&["side-0", "web-0"]).await;
    runtime.lose_sight();
    for what in ["Container", "Init container"] {
        let wanted = format!("{what} is in \"unknown\" state, try killing it before restart");
        scene
            .until(&wanted, |all| {
                all.iter().flat_map(|view| &view.events).any(|event| event.message == wanted)
            })
            .await;
    }
    scene.until_running(&["side-1", "web-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_agent_says_what_the_old_one_said() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Always", &["setup"], &["web"])]).await;
    scene.until_running(&["setup-0"]).await;
    runtime.exit("setup", 0);
    scene.until_phase("Running").await;
    until_kept(folder.path(), "Running").await;
    let before = scene.status();
    let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
    scene.send(Operation::Add, &[pod("Always", &["setup"], &["web"])]).await;
    scene.until("a running pod", |all| all.first().is_some_and(|view| view.stage == Stage::Syncing)).await;
    assert_eq!(scene.status(), before, "to the second");
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_another_folder_makes_one_for_the_pods_that_it_finds() {
    let (first, second) = (folder(), folder());
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), first.path());
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until_phase("Running").await;
    runtime.take_calls();
    let scene = scene.dies_and_comes_back(second.path(), &runtime).await;
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until_phase("Running").await;
    until_kept(second.path(), "Running").await;
    let calls = runtime.take_calls();
    assert!(!calls.iter().any(|call| call.starts_with("create") || call.starts_with("run")), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_the_first_start() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let mut job = testkit::pod("Always", &[], &["web"]);
    job.spec.as_mut().unwrap().active_deadline_seconds = Some(1000);
    let job = Arc::new(job);
    scene.send(Operation::Add, std::slice::from_ref(&job)).await;
    until_kept(folder.path(), "Running").await;
    began_long_ago(folder.path());
    let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
    scene.send(Operation::Add, &[job]).await;
    scene.until_phase("Failed").await;
    assert_eq!(scene.status().reason.as_deref(), Some("DeadlineExceeded"));
    let all = scene.handle.board().all();
    let told = all[0].events.iter().filter(|event| event.reason == "DeadlineExceeded");
    assert_eq!(told.map(|event| event.count).collect::<Vec<_>>(), [1]);
}

#[tokio::test(start_paused = true)]
async fn what_has_finished_stays_so_though_its_time_is_over_or_there_is_no_room() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let mut job = testkit::pod("Never", &[], &["job"]);
    job.spec.as_mut().unwrap().active_deadline_seconds = Some(100);
    let job = Arc::new(job);
    scene.send(Operation::Add, std::slice::from_ref(&job)).await;
    scene.until_running(&["job-0"]).await;
    runtime.exit("job", 0);
    scene.until("end", |all| all[0].stage == Stage::Terminated).await;
    until_kept(folder.path(), "Succeeded").await;
    began_long_ago(folder.path());
    let full = |settings: &mut Settings| settings.admission.max_pods = 0;
    let scene = scene.dies_and_comes_back_with(folder.path(), &runtime, full).await;
    scene.send(Operation::Add, &[job]).await;
    scene.until("end", |all| all.first().is_some_and(|view| view.stage == Stage::Terminated)).await;
    let ApiStatus { phase, reason, .. } = scene.status();
    assert_eq!((phase.as_deref(), reason.as_deref()), (Some("Succeeded"), None));
    let all = scene.handle.board().all();
    assert!(all[0].events.iter().all(|event| event.reason != "DeadlineExceeded"), "{:?}", all[0].events);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_damaged_harms_nobody() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    std::fs::create_dir_all(folder.path().join("pods/uid")).unwrap();
    std::fs::write(folder.path().join("pods/uid/status.json"), "{\"form\":1,\"uid\":\"uid\",\"sta").unwrap();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[pod("Never", &[], &["web"])]).await;
    scene.until_phase("Running").await;
    until_kept(folder.path(), "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_that_was_stopped_runs_again_with_the_next_agent() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let mut web = testkit::pod("Always", &[], &["web"]);
    web.metadata.annotations =
        Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into_iter().collect());
    let web = Arc::new(web);
    scene.send(Operation::Add, std::slice::from_ref(&web)).await;
    scene.until_running(&["web-0"]).await;
    scene.handle.stop(PodSelector::All, Some(1));
    scene.until("end", |all| all[0].stage == Stage::Terminated).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(runtime.running().is_empty());
    let scene = scene.dies_and_comes_back(folder.path(), &runtime).await;
    scene.send(Operation::Add, &[web]).await;
    scene.until_running(&["web-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_an_orphan_is_run_as_it_is_written_on_its_container() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let with_hook = |uid: &str| {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        pod.metadata.uid = Some(uid.to_owned());
        let exec = ExecAction { command: Some(vec!["bye".to_owned()]) };
        let pre_stop = LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() };
        let lifecycle = Lifecycle { pre_stop: Some(pre_stop), ..Lifecycle::default() };
        pod.spec.as_mut().unwrap().containers[0].lifecycle = Some(lifecycle);
        Arc::new(pod)
    };
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[with_hook("1")]).await;
    scene.until_running(&["web-0"]).await;
    scene.task.abort();
    drop(scene);
    runtime.take_calls();

    // Its manifest has changed while no agent was running: the old one is unknown.
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send(Operation::Add, &[with_hook("2")]).await;
    let gone = |all: &[Arc<PodView>]| all.iter().all(|view| view.pod.metadata.uid.as_deref() != Some("1"));
    scene.until("the end of the old one", gone).await;
    scene.until_phase("Running").await;
    let execs: Vec<String> = runtime.take_execs().into_iter().map(|(_, command)| command).collect();
    assert_eq!(execs, ["bye"]);
}
