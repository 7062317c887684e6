//! Images: what is reported about pulls, and the credentials that they use.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{LocalObjectReference, Secret};

use super::*;
use crate::manifest::{ObjectKey, Objects};

/// A pod with the image `r.io/team/app:1`, always pulled, and these secrets.
fn guarded_pod(secrets: &[&str]) -> Arc<Pod> {
    let mut pod = testkit::pod("Always", &[], &["web"]);
    let spec = pod.spec.as_mut().unwrap();
    spec.containers[0].image = Some("r.io/team/app:1".to_owned());
    spec.containers[0].image_pull_policy = Some("Always".to_owned());
    let reference = |name: &&str| LocalObjectReference { name: (*name).to_owned() };
    spec.image_pull_secrets = Some(secrets.iter().map(reference).collect());
    Arc::new(pod)
}

/// Secrets by name, each with users by registry.
fn secrets(all: &[(&str, &[(&str, &str)])]) -> Objects {
    let secret = |(name, users): &(&str, &[(&str, &str)])| {
        let auths: BTreeMap<&str, serde_json::Value> = users
            .iter()
            .map(|(registry, user)| (*registry, serde_json::json!({"username": user, "password": "hunter2"})))
            .collect();
        let json = serde_json::json!({ "auths": auths }).to_string();
        let secret = Secret {
            type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
            data: Some([(".dockerconfigjson".to_owned(), ByteString(json.into_bytes()))].into()),
            ..Secret::default()
        };
        (ObjectKey::new("default", *name), Arc::new(secret))
    };
    Objects { secrets: all.iter().map(secret).collect(), ..Objects::default() }
}

fn pulls(stage: &Scene) -> Vec<String> {
    stage.runtime.take_calls().into_iter().filter(|call| call.starts_with("pull ")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pull_is_told_with_its_time_and_size() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[guarded_pod(&[])]).await;
    stage.until_phase("Running").await;
    let told = told(&stage);
    assert!(told.contains(&"Pulling: Pulling image \"r.io/team/app:1\"".to_owned()), "{told:#?}");
    let pulled = "Pulled: Successfully pulled image \"r.io/team/app:1\" in 0s (0s including waiting). Image size: 4096 bytes.";
    assert!(told.contains(&pulled.to_owned()), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn credentials_that_fit_are_tried_in_order_until_one_is_let_in() {
    let folder = folder();
    let node = r#"{"auths":{"r.io":{"username":"node","password":"hunter2"}}}"#;
    std::fs::write(folder.path().join("config.json"), node).unwrap();
    let runtime = FakeRuntime::default();
    runtime.let_in("node");
    let stage = Scene::start(runtime, folder.path());
    let users: &[(&str, &str)] = &[("r.io", "anyone"), ("r.io/team", "team"), ("other.io", "stranger")];
    stage.send_objects(secrets(&[("first", users)])).await;
    stage.send(Operation::Add, &[guarded_pod(&["first", "nowhere"])]).await;
    stage.until_phase("Running").await;
    let wanted = ["team", "anyone", "node"].map(|user| format!("pull r.io/team/app:1 as {user}"));
    assert_eq!(pulls(&stage), wanted);
    let missing = "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (nowhere); \
                   attempting to pull the image may not succeed.";
    assert!(told(&stage).contains(&missing.to_owned()), "{:#?}", told(&stage));
    let everything = format!("{:?}", stage.handle.board().all());
    assert!(!everything.contains("hunter2"), "no password is told anybody");
}

#[tokio::test(start_paused = true)]
async fn what_every_credential_was_answered_is_told() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.let_in("somebody else");
    let stage = Scene::start(runtime, folder.path());
    stage.send_objects(secrets(&[("one", &[("r.io", "ann")]), ("two", &[("r.io", "bob")])])).await;
    stage.send(Operation::Add, &[guarded_pod(&["one", "two"])]).await;
    stage.until_waiting("ErrImagePull").await;
    let failed = "Failed: Failed to pull image \"r.io/team/app:1\": [no pull for ann, no pull for bob]";
    stage.until_waiting("ImagePullBackOff").await;
    let told = told(&stage);
    for wanted in [failed, "Failed: Error: ErrImagePull", "Failed: Error: ImagePullBackOff"] {
        assert!(told.iter().any(|event| event == wanted), "{wanted}: {told:#?}");
    }
    assert!(!told.iter().any(|event| event.starts_with("Failed: Error: [")), "it is told once: {told:#?}");
}

#[tokio::test(start_paused = true)]
async fn registries_are_not_asked_too_often() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let mut many = testkit::pod("Always", &[], &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]);
    for container in &mut many.spec.as_mut().unwrap().containers {
        container.image_pull_policy = Some("Always".to_owned());
        container.image = Some(format!("image:{}", container.name));
    }
    stage.send(Operation::Add, &[Arc::new(many)]).await;
    stage
        // By the status: a pod that starts a dozen containers has reached the limit of its events.
        .until("the pulls that are too many", |all| {
            let statuses = all.iter().filter_map(|view| view.status.container_statuses.as_ref()).flatten();
            let mut waits =
                statuses.filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.message.as_ref());
            waits.any(|message| message.ends_with("pull QPS exceeded"))
        })
        .await;
    let all: Vec<String> = ('a'..='l').map(|name| format!("{name}-0")).collect();
    stage.until_running(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

/// A pod of that name with an image that the runtime already has, and the default policy for such an image name.
fn built_in_pod(name: &str) -> Arc<Pod> {
    let mut pod = testkit::pod("Always", &[], &[name]);
    (pod.metadata.name, pod.metadata.uid) = (Some(name.to_owned()), Some(name.to_owned()));
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    container.image = Some("host".to_owned());
    container.image_pull_policy = Some("Always".to_owned());
    Arc::new(pod)
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_registry_waits_for_none() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_built_in("host:latest");
    runtime.hang("pull");
    let stage = Scene::start_with(runtime, folder.path(), |settings| settings.has_built_in_images = true);
    stage.send(Operation::Add, &[guarded_pod(&[])]).await;
    let asked = async {
        while pulls(&stage).is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("a registry is asked");
    stage.send(Operation::Add, &[built_in_pod("own")]).await;
    stage.until_running(&["own-0"]).await;
    stage.runtime.exit("own", 1);
    stage.until_running(&["own-1"]).await;
    let present =
        "Pulled: Container image \"host\" already present on machine and can be accessed by the pod";
    assert!(told(&stage).contains(&present.to_owned()), "{:#?}", told(&stage));
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_registry_is_not_held_to_how_often_registries_are_asked() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_built_in("host:latest");
    let stage = Scene::start_with(runtime, folder.path(), |settings| settings.has_built_in_images = true);
    let names: Vec<String> = (10..70).map(|number| format!("own{number}")).collect();
    let pods: Vec<Arc<Pod>> = names.iter().map(|name| built_in_pod(name)).collect();
    stage.send(Operation::Add, &pods).await;
    let running: Vec<String> = names.iter().map(|name| format!("{name}-0")).collect();
    stage.until_running(&running.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(pulls(&stage), [""; 0]);
    assert!(!told(&stage).iter().any(|one| one.contains("pull QPS exceeded")), "{:#?}", told(&stage));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_has_imported_and_pinned_is_asked_of_its_registry() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_built_in("host:latest");
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[built_in_pod("own")]).await;
    stage.until_running(&["own-0"]).await;
    assert_eq!(pulls(&stage), ["pull host:latest"]);
}

#[tokio::test(start_paused = true)]
async fn a_pull_with_many_credentials_is_one_pull() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.let_in("user19");
    let stage = Scene::start(runtime, folder.path());
    let users: Vec<String> = (0..20).map(|number| format!("user{number}")).collect();
    let names: Vec<String> = (0..20).map(|number| format!("secret{number}")).collect();
    let each: Vec<[(&str, &str); 1]> = users.iter().map(|user| [("r.io", user.as_str())]).collect();
    let all: Vec<(&str, &[(&str, &str)])> =
        names.iter().zip(&each).map(|(name, users)| (name.as_str(), users.as_slice())).collect();
    stage.send_objects(secrets(&all)).await;
    stage.send(Operation::Add, &[guarded_pod(&names.iter().map(String::as_str).collect::<Vec<_>>())]).await;
    stage.until_phase("Running").await;
    assert!(!told(&stage).iter().any(|one| one.starts_with("Failed")), "{:#?}", told(&stage));
}

#[tokio::test(start_paused = true)]
async fn an_image_of_which_the_runtime_does_not_tell_is_not_pulled_but_asked_for_again() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.fail("image", Some("the disk is broken"));
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_waiting("ImageInspectError").await;
    let told = told(&stage);
    let is_why = |one: &String| one.starts_with("InspectFailed: ") && one.contains("the disk is broken");
    assert!(told.iter().any(is_why), "{told:#?}");
    stage.runtime.fail("image", None);
    stage.until_running(&["web-0"]).await;
    assert_eq!(pulls(&stage), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_more_images_are_pulled_at_once_than_may_be() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.pulls_take(Duration::from_secs(60));
    let stage = Scene::start_with(runtime, folder.path(), |settings| settings.parallel_pulls = 2);
    let names = ["a", "b", "c", "d", "e"];
    let pods = names.map(|name| {
        let mut pod = Pod::clone(&guarded_pod(&[]));
        (pod.metadata.name, pod.metadata.uid) = (Some(name.to_owned()), Some(name.to_owned()));
        Arc::new(pod)
    });
    stage.send(Operation::Add, &pods).await;
    let mut pulled = Vec::new();
    // In the middle of each round.
    for seconds in [30, 60, 60] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        pulled.push(pulls(&stage).len());
    }
    assert_eq!(pulled, [2, 2, 1]);
    stage.until_running(&["web-0"; 5]).await;
}
