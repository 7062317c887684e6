//! Pods that are refused, or have to wait for room.

use tokio::time::Instant;

use super::*;

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
    let events = scene.handle.board().all()[1].events.clone();
    assert!(events.iter().any(|event| event.reason == "OutOfpods"), "why it comes so late is told still");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_refused_is_gone_at_once() {
    let folder = folder();
    let begun = Instant::now();
    let scene = Scene::start_with(FakeRuntime::default(), folder.path(), |settings| {
        settings.admission.max_pods = 0;
    });
    scene.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    scene.until("refusal", |all| all.iter().any(|view| view.stage == Stage::Terminated)).await;
    scene.send(Operation::Remove, &[pod("Always", &[], &["web"])]).await;
    scene.until_gone().await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}
