//! Pods with users of their own, on runtimes that support them and on those that do not.

use std::path::Path;

use super::*;

fn with_own_users(uid: &str, name: &str, has_own: bool) -> Arc<Pod> {
    let mut pod = testkit::pod("OnFailure", &[], &[name]);
    (pod.metadata.uid, pod.metadata.name) = (Some(uid.to_owned()), Some(name.to_owned()));
    pod.spec.as_mut().unwrap().host_users = has_own.then_some(false);
    Arc::new(pod)
}

fn start(folder: &Path, runtime: &FakeRuntime) -> Scene {
    Scene::start_with(runtime.clone(), folder, |settings| settings.admission.runtime.user_namespaces = true)
}

/// What the folder of a pod says about its ids.
fn noted(folder: &Path, uid: &str) -> Option<String> {
    std::fs::read_to_string(folder.join("pods").join(uid).join("userns")).ok()
}

#[tokio::test(start_paused = true)]
async fn where_the_runtime_cannot_the_pod_waits_and_an_event_says_why() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    scene.send(Operation::Add, &[with_own_users("1", "web", true)]).await;
    let why = "FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces";
    scene.until("the event", |_| told(&scene).iter().any(|event| event == why)).await;
    scene.until_phase("Pending").await;
    assert_eq!(scene.runtime.take_calls(), Vec::<String>::new());
    assert_eq!(noted(folder.path(), "1"), None);
}

#[tokio::test(start_paused = true)]
async fn ids_outlive_the_agent_and_end_with_the_pod() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = start(folder.path(), &runtime);
    let (a, b) = (with_own_users("1", "a", true), with_own_users("2", "b", true));
    scene.send(Operation::Add, &[a.clone(), b.clone()]).await;
    scene.until_running(&["a-0", "b-0"]).await;
    let (of_a, of_b) = (noted(folder.path(), "1"), noted(folder.path(), "2"));
    assert!(of_a.is_some() && of_b.is_some() && of_a != of_b, "{of_a:?} {of_b:?}");
    scene.task.abort();

    let scene = start(folder.path(), &runtime);
    let c = with_own_users("3", "c", true);
    scene.send(Operation::Add, &[a, b, c]).await;
    scene.until_running(&["a-0", "b-0", "c-0"]).await;
    let of_c = noted(folder.path(), "3");
    assert!(of_c.is_some() && of_c != of_a && of_c != of_b, "{of_c:?}");
    assert_eq!((noted(folder.path(), "1"), noted(folder.path(), "2")), (of_a, of_b));
    runtime.exit("a", 0);
    scene.until("the end of a", |all| all.iter().any(|view| view.stage == Stage::Terminated)).await;
    let given_back = async {
        while noted(folder.path(), "1").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, given_back).await.expect("its ids are given back");
    assert!(folder.path().join("pods/1").exists(), "what tells of the pod stays");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_for_other_users_gets_another_sandbox() {
    let folder = folder();
    let scene = start(folder.path(), &FakeRuntime::default());
    scene.send(Operation::Add, &[with_own_users("1", "web", false)]).await;
    scene.until_running(&["web-0"]).await;
    assert_eq!(noted(folder.path(), "1"), None);
    scene.send(Operation::Update, &[with_own_users("1", "web", true)]).await;
    scene.until_running(&["web-1"]).await;
    assert!(noted(folder.path(), "1").is_some());
    let calls = scene.runtime.take_calls();
    assert!(calls.contains(&"run sandbox 1".to_owned()), "{calls:?}");
}
