//! Manifests whose resources change while their pod runs.

use k8s_openapi::api::core::v1::{ContainerResizePolicy, ResourceRequirements};

use super::*;
use crate::cgroup::PodGroups;
use crate::pod::testkit::resources;
use crate::settings::Settings;

/// A pod whose containers have this much cpu and memory.
fn sized(sizes: &[(&str, &str, &str)]) -> Pod {
    let names: Vec<&str> = sizes.iter().map(|(name, _, _)| *name).collect();
    let mut pod = testkit::pod("Always", &[], &names);
    let containers = &mut pod.spec.as_mut().unwrap().containers;
    for (container, (_, cpu, memory)) in containers.iter_mut().zip(sizes) {
        container.resources = Some(resources(cpu, memory));
    }
    pod
}

fn has_event(all: &[Arc<PodView>], reason: &str, words: &str) -> bool {
    // In a summary, quotes are escaped.
    let says = |message: &str| message.contains(words) || message.contains(&words.replace('"', "\\\""));
    all.iter().flat_map(|view| &view.events).any(|event| event.reason == reason && says(&event.message))
}

/// How often an event was reported.
fn count(scene: &Scene, reason: &str) -> u32 {
    let all = scene.handle.board().all();
    let events = all.iter().flat_map(|view| &view.events).filter(|event| event.reason == reason);
    events.map(|event| event.count).sum()
}

/// The cpu and memory of the first container, according to its status.
fn has(view: &PodView) -> (String, String) {
    let status = &view.status.container_statuses.as_ref().unwrap()[0];
    let limits = status.resources.as_ref().unwrap().limits.clone().unwrap();
    (limits["cpu"].0.clone(), limits["memory"].0.clone())
}

async fn started(scene: &Scene, sizes: &[(&str, &str, &str)]) {
    scene.send(Operation::Add, &[Arc::new(sized(sizes))]).await;
    scene.until_phase("Running").await;
    scene.runtime.take_calls();
}

#[tokio::test(start_paused = true)]
async fn memory_comes_before_cpu_and_less_before_more() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    started(&scene, &[("a", "100m", "64Mi"), ("b", "400m", "64Mi")]).await;
    scene.send(Operation::Update, &[Arc::new(sized(&[("a", "200m", "128Mi"), ("b", "300m", "32Mi")]))]).await;
    scene
        .until("a resize", |all| has_event(all, "ResizeCompleted", r#"{"cpu":"200m","memory":"128Mi"}"#))
        .await;
    assert!(has_event(&scene.handle.board().all(), "ResizeStarted", r#"{"cpu":"300m","memory":"32Mi"}"#));
    assert_eq!(["ResizeStarted", "ResizeCompleted"].map(|reason| count(&scene, reason)), [1, 1]);
    assert_eq!(
        scene.runtime.take_calls(),
        [
            "resize the pod: memory 167772160, cpu 512 shares, quota 50000",
            "resize b: memory 33554432",
            "resize a: memory 134217728",
            "resize b: cpu 307 shares, quota 30000",
            "resize a: cpu 204 shares, quota 20000"
        ]
    );
    assert_eq!(scene.runtime.running(), ["a-0", "b-0"], "nobody was restarted");
    let view = scene.handle.board().all()[0].clone();
    assert_eq!(has(&view), ("200m".to_owned(), "128Mi".to_owned()));
    // Nothing is left to do, however often the pod is looked at.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(scene.runtime.take_calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_change_while_nobody_watched_is_made_by_the_next_agent() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    started(&scene, &[("a", "100m", "64Mi")]).await;
    scene.task.abort();
    drop(scene);
    let scene = Scene::start(runtime, folder.path());
    scene.send(Operation::Add, &[Arc::new(sized(&[("a", "100m", "128Mi")]))]).await;
    scene.until("a resize", |all| has_event(all, "ResizeCompleted", r#""memory":"128Mi""#)).await;
    let of_pod = "resize the pod: memory 134217728, cpu 102 shares, quota 10000";
    assert_eq!(scene.runtime.take_calls(), [of_pod, "resize a: memory 134217728"]);
    assert_eq!(count(&scene, "ResizeStarted"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_wants_to_restart_for_it_is_restarted() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    started(&scene, &[("a", "100m", "64Mi")]).await;
    let mut pod = sized(&[("a", "100m", "128Mi")]);
    pod.spec.as_mut().unwrap().containers[0].resize_policy = Some(vec![ContainerResizePolicy {
        resource_name: "memory".to_owned(),
        restart_policy: "RestartContainer".to_owned(),
    }]);
    scene.send(Operation::Update, &[Arc::new(pod)]).await;
    scene.until_running(&["a-1"]).await;
    assert!(has_event(&scene.handle.board().all(), "Killing", "Container a resize requires restart"));
    scene.until("its new size", |all| has(&all[0]).1 == "128Mi").await;
    let of_pod = "resize the pod: memory 134217728, cpu 102 shares, quota 10000";
    assert_eq!(scene.runtime.take_calls(), ["stop a in 30s", of_pod, "create a-1", "start"]);
    assert_eq!(["ResizeStarted", "ResizeCompleted"].map(|reason| count(&scene, reason)), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn its_pod_has_the_room_before_it_starts_with_more() {
    let folder = folder();
    let group = folder.path().join("groups/kubepods/poduid");
    std::fs::create_dir_all(&group).unwrap();
    for file in ["memory.max", "cpu.max", "pids.max"] {
        std::fs::write(group.join(file), "").unwrap();
    }
    let groups = PodGroups::in_folder(&folder.path().join("groups"));
    let scene = Scene::start_in(FakeRuntime::default(), folder.path(), Some(groups), |_| {});
    let limited = |memory: &str| {
        let mut pod = sized(&[("a", "100m", memory)]);
        pod.spec.as_mut().unwrap().containers[0].resize_policy = Some(vec![ContainerResizePolicy {
            resource_name: "memory".to_owned(),
            restart_policy: "RestartContainer".to_owned(),
        }]);
        Arc::new(pod)
    };
    scene.send(Operation::Add, &[limited("64Mi")]).await;
    scene.until_phase("Running").await;
    scene.runtime.fail("create_container", Some("not now"));
    scene.send(Operation::Update, &[limited("128Mi")]).await;
    scene.until("an attempt", |all| has_event(all, "Failed", "not now")).await;
    assert_eq!(std::fs::read_to_string(group.join("memory.max")).unwrap(), (128 << 20).to_string());
}

#[tokio::test(start_paused = true)]
async fn less_memory_than_is_used_is_refused_and_tried_again() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    started(&scene, &[("a", "100m", "64Mi")]).await;
    scene.runtime.uses_memory(50 << 20);
    scene.send(Operation::Update, &[Arc::new(sized(&[("a", "200m", "32Mi")]))]).await;
    let words = "attempting to set container \"a\" memory limit (33554432) below current usage (52428800)";
    scene.until("a refusal", |all| has_event(all, "ResizeError", words)).await;
    assert_eq!(scene.runtime.take_calls(), Vec::<String>::new());
    let view = scene.handle.board().all()[0].clone();
    assert_eq!(has(&view), ("100m".to_owned(), "64Mi".to_owned()), "it has what it had");
    scene.until("why it goes on", |all| in_progress(&all[0]) == Some(format!("Error: {words}"))).await;
    let view = scene.handle.board().all()[0].clone();
    let whole = view.status.resources.as_ref().unwrap().limits.as_ref().unwrap()["memory"].0.clone();
    let allotted = view.status.allocated_resources.as_ref().unwrap()["memory"].0.clone();
    assert_eq!((whole.as_str(), allotted.as_str()), ("64Mi", "32Mi"), "so does the pod as a whole");
    scene.runtime.uses_memory(10 << 20);
    scene.until("a resize", |all| has_event(all, "ResizeCompleted", r#""memory":"32Mi""#)).await;
    scene.until("an end of it", |all| in_progress(&all[0]).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn less_memory_than_a_whole_pod_uses_is_refused_too() {
    let folder = folder();
    let group = folder.path().join("groups/kubepods/burstable/poduid");
    std::fs::create_dir_all(&group).unwrap();
    for file in ["memory.max", "cpu.max", "pids.max"] {
        std::fs::write(group.join(file), "").unwrap();
    }
    let groups = PodGroups::in_folder(&folder.path().join("groups"));
    let scene = Scene::start_in(FakeRuntime::default(), folder.path(), Some(groups), |_| {});
    let limited = |memory: &str| {
        let mut pod = testkit::pod("Always", &[], &["a", "b"]);
        pod.spec.as_mut().unwrap().resources = Some(ResourceRequirements {
            limits: Some(resources("100m", memory).limits.unwrap()),
            requests: resources("50m", "16Mi").requests,
            claims: None,
        });
        Arc::new(pod)
    };
    scene.send(Operation::Add, &[limited("128Mi")]).await;
    scene.until_phase("Running").await;
    scene.runtime.uses_memory(30 << 20);
    scene.send(Operation::Update, &[limited("60Mi")]).await;
    let words = "attempting to set pod memory limit (62914560) below current usage (62914560)";
    scene.until("a refusal", |all| has_event(all, "ResizeError", words)).await;
    let limit = || std::fs::read_to_string(group.join("memory.max")).unwrap();
    assert_eq!(limit(), (128 << 20).to_string());
    scene.runtime.uses_memory(29 << 20);
    scene.runtime.take_calls();
    scene.until("a resize", |all| has_event(all, "ResizeCompleted", r#""memory":"60Mi""#)).await;
    assert_eq!(limit(), (60 << 20).to_string());
    let resized: Vec<String> =
        scene.runtime.take_calls().into_iter().filter(|call| call.starts_with("resize")).collect();
    assert_eq!(
        resized,
        [
            "resize the pod: memory 62914560, cpu 51 shares, quota 10000",
            "resize a: memory 62914560",
            "resize b: memory 62914560"
        ],
        "those that have its limit"
    );
    // Nothing is left to do, however often the pod is looked at.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!scene.runtime.take_calls().iter().any(|call| call.starts_with("resize")));
}

/// The message of a resize in progress.
fn in_progress(view: &PodView) -> Option<String> {
    let mut conditions = view.status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == "PodResizeInProgress")?;
    assert_eq!(condition.status, "True");
    let word = |word: &Option<String>| word.clone().unwrap_or_default();
    Some(format!("{}: {}", word(&condition.reason), word(&condition.message)))
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_takes_long_is_told_of() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    started(&scene, &[("a", "100m", "64Mi")]).await;
    assert_eq!(in_progress(&scene.handle.board().all()[0]), None);
    scene.runtime.hang("resize_container");
    scene.send(Operation::Update, &[Arc::new(sized(&[("a", "200m", "64Mi")]))]).await;
    scene.until("a word of it", |all| in_progress(&all[0]).as_deref() == Some(": ")).await;
    assert_eq!(has(&scene.handle.board().all()[0]).0, "100m");
    assert_eq!(["ResizeStarted", "ResizeCompleted"].map(|reason| count(&scene, reason)), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_refuses_is_asked_again_and_not_all_the_time() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    started(&scene, &[("a", "100m", "64Mi")]).await;
    scene.runtime.fail("resize_container", Some("no such file"));
    scene.send(Operation::Update, &[Arc::new(sized(&[("a", "200m", "64Mi")]))]).await;
    let words = "container \"a\": cannot change its cpu: no such file";
    scene.until("a refusal", |all| has_event(all, "ResizeError", words)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = scene.runtime.take_calls().iter().filter(|call| call.starts_with("resize a")).count();
    assert!((2..=8).contains(&asked), "{asked}");
    assert_eq!(count(&scene, "ResizeStarted"), 1, "however often it is tried");
    scene.send(Operation::Update, &[Arc::new(sized(&[("a", "300m", "64Mi")]))]).await;
    scene.until("another", |all| has_event(all, "ResizeStarted", r#""cpu":"300m""#)).await;
    scene.runtime.fail("resize_container", None);
    scene.until("a resize", |all| has_event(all, "ResizeCompleted", r#""cpu":"300m""#)).await;
    assert_eq!(["ResizeStarted", "ResizeCompleted"].map(|reason| count(&scene, reason)), [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_stays_in_its_class() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    started(&scene, &[("a", "100m", "64Mi")]).await;
    let mut pod = sized(&[("a", "100m", "64Mi")]);
    pod.spec.as_mut().unwrap().containers[0].resources = None;
    scene.send(Operation::Update, &[Arc::new(pod)]).await;
    let words = "Pod QOS Class may not change";
    scene.until("a refusal", |all| has_event(all, "ResizeInfeasible", words)).await;
    assert_eq!(scene.runtime.take_calls(), Vec::<String>::new());
    assert_eq!(scene.runtime.running(), ["a-0"]);

    scene.runtime.exit("a", 1);
    scene.until("a restart", |_| scene.runtime.running() == ["a-1"]).await;
    scene
        .until("its status", |all| all[0].status.container_statuses.as_ref().unwrap()[0].restart_count == 1)
        .await;
    let view = &scene.handle.board().all()[0];
    assert_eq!(view.status.qos_class.as_deref(), Some("Guaranteed"), "a restart is no way round it");
    assert_eq!(has(view), ("100m".to_owned(), "64Mi".to_owned()));
    let conditions = view.status.conditions.as_deref().unwrap_or_default();
    assert!(conditions.iter().any(|one| one.type_ == "PodResizePending" && one.status == "True"));
}

#[tokio::test(start_paused = true)]
async fn a_change_for_which_there_is_no_room_waits_and_says_so() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let roomy = |settings: &mut Settings| {
        settings.admission.allocatable = [("cpu".to_owned(), "1".parse().unwrap())].into();
    };
    let scene = Scene::start_with(runtime.clone(), folder.path(), roomy);
    started(&scene, &[("a", "400m", "64Mi")]).await;
    scene.send(Operation::Update, &[Arc::new(sized(&[("a", "4", "64Mi")]))]).await;
    let waits = |all: &[Arc<PodView>], reason: &str| {
        let conditions = all[0].status.conditions.clone().unwrap_or_default();
        conditions.iter().any(|one| {
            (one.type_.as_str(), one.status.as_str(), one.reason.as_deref())
                == ("PodResizePending", "True", Some(reason))
        })
    };
    scene.until("a pending resize", |all| waits(all, "Infeasible")).await;
    let words = r#""error":"Node didn't have enough capacity: cpu, requested: 4000, capacity: 1000""#;
    assert!(has_event(&scene.handle.board().all(), "ResizeInfeasible", r#""limits":{"cpu":"4","#));
    scene.until("an event", |all| has_event(all, "ResizeInfeasible", words)).await;
    assert_eq!(scene.runtime.take_calls(), Vec::<String>::new());

    // Nor is a pod ended because of what it wants when the agent comes back.
    scene.task.abort();
    drop(scene);
    let scene = Scene::start_with(runtime, folder.path(), roomy);
    scene.send(Operation::Add, &[Arc::new(sized(&[("a", "4", "64Mi")]))]).await;
    scene.until("the same", |all| !all.is_empty() && waits(all, "Infeasible")).await;
    assert_eq!(scene.runtime.running(), ["a-0"]);
    scene.send(Operation::Update, &[Arc::new(sized(&[("a", "500m", "64Mi")]))]).await;
    scene.until("a resize", |all| has_event(all, "ResizeCompleted", r#""cpu":"500m""#)).await;
    scene.until("nothing pending", |all| !waits(all, "Infeasible")).await;
    assert_eq!(scene.runtime.running(), ["a-0"]);
}
