//! The files of volumes follow what they are made from, whatever happened to agent and disk meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Volume, VolumeMount};

use super::*;
use crate::manifest::{ObjectKey, Objects};

/// A pod that mounts the config map `settings`.
fn pod_with_settings() -> Arc<Pod> {
    let mut pod = testkit::pod("Always", &[], &["web"]);
    let spec = pod.spec.as_mut().unwrap();
    spec.volumes = Some(vec![Volume {
        name: "settings".to_owned(),
        config_map: Some(ConfigMapVolumeSource { name: "settings".to_owned(), ..Default::default() }),
        ..Volume::default()
    }]);
    spec.containers[0].volume_mounts = Some(vec![VolumeMount {
        name: "settings".to_owned(),
        mount_path: "/settings".to_owned(),
        ..VolumeMount::default()
    }]);
    Arc::new(pod)
}

fn settings(color: &str) -> Objects {
    let config_map = ConfigMap {
        data: Some(BTreeMap::from([("color".to_owned(), color.to_owned())])),
        ..ConfigMap::default()
    };
    let config_maps = BTreeMap::from([(ObjectKey::new("default", "settings"), Arc::new(config_map))]);
    Objects { config_maps, ..Objects::default() }
}

fn volume(folder: &Path) -> PathBuf {
    folder.join("pods/uid/volumes/kubernetes.io~configmap/settings")
}

async fn until_color(folder: &Path, wanted: &str) {
    let file = volume(folder).join("color");
    let waiting = async {
        while std::fs::read_to_string(&file).ok().as_deref() != Some(wanted) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("it never became {wanted}"));
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_no_agent_was_there_reaches_a_pod_that_runs() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send_objects(settings("red")).await;
    scene.send(Operation::Add, &[pod_with_settings()]).await;
    scene.until_running(&["web-0"]).await;
    until_color(folder.path(), "red").await;
    scene.task.abort();
    drop(scene);
    tokio::task::yield_now().await;
    runtime.take_calls();

    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send_objects(settings("green")).await;
    scene.send(Operation::Add, &[pod_with_settings()]).await;
    until_color(folder.path(), "green").await;
    assert_eq!(runtime.take_calls(), Vec::<String>::new(), "the pod goes on");
}

#[tokio::test(start_paused = true)]
async fn what_keeps_a_container_from_starting_does_not_hold_up_the_end_of_its_pod() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let mut pod = Pod::clone(&pod_with_settings());
    pod.spec
        .as_mut()
        .unwrap()
        .containers
        .extend(testkit::pod("Always", &[], &["db"]).spec.unwrap().containers);
    let pod = Arc::new(pod);
    scene.send_objects(settings("red")).await;
    scene.send(Operation::Add, std::slice::from_ref(&pod)).await;
    scene.until_running(&["db-0", "web-0"]).await;
    scene.send_objects(Objects::default()).await;
    runtime.exit("web", 1);
    scene.until("trouble", |all| all[0].events.iter().any(|one| one.reason == "FailedMount")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.take_calls();
    scene.send(Operation::Remove, &[pod]).await;
    scene.until_gone().await;
    assert!(runtime.take_calls().contains(&"stop db in 30s".to_owned()), "it gets all of its grace");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_is_tried_again() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    scene.send_objects(settings("red")).await;
    scene.send(Operation::Add, &[pod_with_settings()]).await;
    scene.until_running(&["web-0"]).await;
    // The link to the new files cannot be made while something else is in its place.
    let in_the_way = volume(folder.path()).join("..data_tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    scene.send_objects(settings("green")).await;
    let failed = |view: &Arc<PodView>| view.events.iter().any(|event| event.reason == "FailedMount");
    scene.until("failure", |all| all.iter().any(failed)).await;
    until_color(folder.path(), "red").await;
    std::fs::remove_dir(&in_the_way).unwrap();
    until_color(folder.path(), "green").await;
    assert_eq!(scene.runtime.running(), ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn what_became_of_the_files_meanwhile_is_mended_at_the_next_look() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    scene.send_objects(settings("red")).await;
    scene.send(Operation::Add, &[pod_with_settings()]).await;
    scene.until_running(&["web-0"]).await;
    std::fs::write(volume(folder.path()).join("color"), "blue").unwrap();
    let before = std::fs::read_link(volume(folder.path()).join("..data")).unwrap();
    until_color(folder.path(), "red").await;
    let mended = std::fs::read_link(volume(folder.path()).join("..data")).unwrap();
    assert_ne!(mended, before);
    // And what is as it should be is not written again.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(std::fs::read_link(volume(folder.path()).join("..data")).unwrap(), mended);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_gives_its_volumes_back_and_stays_to_be_looked_at() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send_objects(settings("red")).await;
    let mut job = Pod::clone(&pod_with_settings());
    job.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    let job = Arc::new(job);
    scene.send(Operation::Add, std::slice::from_ref(&job)).await;
    scene.until_running(&["web-0"]).await;
    until_color(folder.path(), "red").await;
    runtime.exit("web", 0);
    scene.until("end", |all| all[0].stage == Stage::Terminated).await;
    let waiting = async {
        while folder.path().join("pods/uid/volumes").exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the volumes go");
    assert!(folder.path().join("pods/uid").exists(), "what tells of it stays");
    assert_eq!(runtime.known(), (1, 1));

    // What it has given back is not made again, by no change and by no other agent.
    scene.send_objects(settings("green")).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    scene.task.abort();
    drop(scene);
    tokio::task::yield_now().await;
    let scene = Scene::start(runtime, folder.path());
    scene.send_objects(settings("green")).await;
    scene.send(Operation::Add, std::slice::from_ref(&job)).await;
    scene.until("end", |all| all.first().is_some_and(|view| view.stage == Stage::Terminated)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!folder.path().join("pods/uid/volumes").exists());
    scene.send(Operation::Remove, &[job]).await;
    scene.until_gone().await;
    assert!(!folder.path().join("pods/uid").exists());
}
