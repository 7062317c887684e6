//! The files of volumes follow their sources, whatever happened to agent and disk in the meantime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, HostPathVolumeSource, Volume, VolumeMount,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

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
    // With its files gone as well, the volume is like one that was never set up.
    std::fs::remove_dir_all(volume(folder.path())).unwrap();
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
async fn a_container_comes_back_though_what_its_volumes_were_made_from_is_gone() {
    let folder = folder();
    let of_host = folder.path().join("of-host");
    std::fs::create_dir(&of_host).unwrap();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let mut pod = Pod::clone(&pod_with_settings());
    let spec = pod.spec.as_mut().unwrap();
    spec.volumes.as_mut().unwrap().push(Volume {
        name: "host".to_owned(),
        host_path: Some(HostPathVolumeSource {
            path: of_host.display().to_string(),
            type_: Some("Directory".to_owned()),
        }),
        ..Volume::default()
    });
    spec.containers[0].volume_mounts.as_mut().unwrap().push(VolumeMount {
        name: "host".to_owned(),
        mount_path: "/host".to_owned(),
        ..VolumeMount::default()
    });
    scene.send_objects(settings("red")).await;
    scene.send(Operation::Add, &[Arc::new(pod)]).await;
    scene.until_running(&["web-0"]).await;
    std::fs::remove_dir(&of_host).unwrap();
    scene.send_objects(Objects::default()).await;
    scene.until("trouble", |all| all[0].events.iter().any(|one| one.reason == "FailedMount")).await;
    runtime.exit("web", 1);
    scene.until_running(&["web-1"]).await;
    until_color(folder.path(), "red").await;
    // The same in a new sandbox.
    runtime.break_sandboxes();
    scene.until_running(&["web-2"]).await;
    let told = told(&scene);
    assert!(told.iter().all(|one| !one.contains("hostPath")), "it is not looked at again: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn who_runs_is_not_ended_for_a_manifest_whose_volume_is_refused() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let web = pod("Always", &[], &["web"]);
    scene.send(Operation::Add, std::slice::from_ref(&web)).await;
    scene.until_running(&["web-0"]).await;
    let mut changed = Pod::clone(&web);
    let spec = changed.spec.as_mut().unwrap();
    spec.containers[0].image = Some("image:2".to_owned());
    spec.containers[0].volume_mounts = Some(vec![VolumeMount {
        name: "host".to_owned(),
        mount_path: "/host".to_owned(),
        ..VolumeMount::default()
    }]);
    spec.volumes = Some(vec![Volume {
        name: "host".to_owned(),
        host_path: Some(HostPathVolumeSource {
            path: folder.path().join("absent").display().to_string(),
            type_: Some("Directory".to_owned()),
        }),
        ..Volume::default()
    }]);
    scene.send(Operation::Update, &[Arc::new(changed)]).await;
    scene.until("trouble", |all| all[0].events.iter().any(|one| one.reason == "FailedMount")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(runtime.running(), ["web-0"]);
    std::fs::create_dir(folder.path().join("absent")).unwrap();
    scene.until_running(&["web-1"]).await;
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
async fn files_follow_though_the_pod_cannot_be_given_what_its_manifest_says() {
    let folder = folder();
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    scene.send_objects(settings("red")).await;
    scene.send(Operation::Add, &[pod_with_settings()]).await;
    scene.until_running(&["web-0"]).await;
    until_color(folder.path(), "red").await;
    let mut of_another_class = Pod::clone(&pod_with_settings());
    of_another_class.spec.as_mut().unwrap().containers[0].resources = Some(testkit::resources("1", "64Mi"));
    scene.send(Operation::Update, &[Arc::new(of_another_class)]).await;
    scene
        .until("a refusal", |all| all[0].events.iter().any(|event| event.reason == "ResizeInfeasible"))
        .await;
    scene.send_objects(settings("green")).await;
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
    // Files that are up to date are not written again.
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

    // What the pod has given back is not made again, whether by a change or by another agent.
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

#[tokio::test(start_paused = true)]
async fn what_was_begun_for_a_container_is_over_before_its_pod_is_taken_down() {
    let folder = folder();
    // A reader blocks until something has been written.
    let hosts = folder.path().join("hosts");
    mknodat(CWD, &hosts, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let scene = Scene::start_with(FakeRuntime::default(), folder.path(), |settings| {
        settings.host_hosts.clone_from(&hosts);
    });
    let mut pod = testkit::pod("Always", &[], &["web"]);
    let web = &mut pod.spec.as_mut().unwrap().containers[0];
    web.termination_message_path = Some("/dev/termination-log".to_owned());
    let pod = Arc::new(pod);
    scene.send(Operation::Add, std::slice::from_ref(&pod)).await;
    let opened = tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).open(hosts));
    let writer = opened.await.unwrap().unwrap();
    scene.send(Operation::Remove, &[pod]).await;
    scene.until("end", |all| all.first().is_some_and(|view| view.stage == Stage::Terminated)).await;
    drop(writer);
    scene.until_gone().await;
    assert!(!folder.path().join("pods/uid").exists());
}

/// Lets time pass until this is done: by itself it does not pass while a thread is at work.
async fn while_time_passes<T>(waiting: impl Future<Output = T>) -> T {
    let mut waiting = std::pin::pin!(waiting);
    loop {
        if let std::task::Poll::Ready(done) = futures_util::poll!(&mut waiting) {
            return done;
        }
        // Work on a disk that does not hang makes progress as well: as much as this.
        let looked = tokio::task::spawn_blocking(|| std::fs::read("/proc/self/mountinfo")).await.unwrap();
        looked.unwrap();
        tokio::time::advance(Duration::from_millis(20)).await;
    }
}

/// Replaces a file by something that blocks its readers until it is released.
fn freeze(file: &Path) -> impl FnOnce() + use<> {
    if file.exists() {
        std::fs::remove_file(file).unwrap();
    }
    mknodat(CWD, file, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let file = file.to_owned();
    move || {
        // Later readers are no longer blocked.
        let writer = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        drop(writer);
    }
}

fn was_told(scene: &Scene, wanted: &str) -> bool {
    told(scene).iter().any(|one| one.contains(wanted))
}

impl Scene {
    async fn until_words(&self, wanted: &str) {
        while_time_passes(self.until(wanted, |_| was_told(self, wanted))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_keeps_no_container_from_being_seen_started_and_ended_but_folders_from_being_removed()
 {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    scene.send_objects(settings("red")).await;
    scene.send(Operation::Add, &[pod_with_settings()]).await;
    scene.until_running(&["web-0"]).await;
    let thaw = freeze(&std::fs::canonicalize(volume(folder.path()).join("color")).unwrap());
    scene.send_objects(settings("green")).await;
    scene.until_words("FailedMount: waiting for the disk: volume \"settings\"").await;
    runtime.exit("web", 1);
    while_time_passes(scene.until_running(&["web-1"])).await;

    scene.send(Operation::Remove, &[pod_with_settings()]).await;
    let begun = tokio::time::Instant::now();
    while_time_passes(scene.until_running(&[])).await;
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    let mut next = Pod::clone(&pod_with_settings());
    next.metadata.uid = Some("uid-2".to_owned());
    scene.send(Operation::Add, &[Arc::new(next)]).await;
    let waits = "error cleaning up after the pod: waiting for the disk: volume \"settings\"";
    scene.until_words(&format!("FailedKillPod: {waits}")).await;
    let waits = format!("NameTaken: waiting for the previous pod of this name (uid) to go: {waits}");
    scene.until_words(&waits).await;
    assert!(volume(folder.path()).exists(), "nothing is removed under who writes");
    assert_eq!(runtime.running(), Vec::<String>::new());
    thaw();
    while_time_passes(scene.until_running(&["web-0"])).await;
    assert!(!folder.path().join("pods/uid").exists());
}

#[tokio::test(start_paused = true)]
async fn last_words_that_hang_keep_no_container_of_the_pod_from_being_ended() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    let scene = Scene::start(runtime.clone(), folder.path());
    let mut pod = testkit::pod("Always", &[], &["web", "log"]);
    let web = &mut pod.spec.as_mut().unwrap().containers[0];
    web.termination_message_path = Some("/dev/termination-log".to_owned());
    let pod = Arc::new(pod);
    scene.send(Operation::Add, std::slice::from_ref(&pod)).await;
    scene.until_running(&["log-0", "web-0"]).await;
    let thaw = freeze(&folder.path().join("pods/uid/containers/web/00000000"));
    runtime.exit("web", 1);
    while_time_passes(scene.until_running(&["log-0"])).await;
    scene.send(Operation::Remove, &[pod]).await;
    let begun = tokio::time::Instant::now();
    while_time_passes(scene.until_running(&[])).await;
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    thaw();
    while_time_passes(scene.until_gone()).await;
    assert!(!folder.path().join("pods/uid").exists());
}

#[tokio::test(start_paused = true)]
async fn volumes_that_hang_before_a_pod_has_had_them_are_waited_for_and_told() {
    let folder = folder();
    let files = volume(folder.path()).join("..files");
    std::fs::create_dir_all(&files).unwrap();
    std::os::unix::fs::symlink("..files", volume(folder.path()).join("..data")).unwrap();
    let thaw = freeze(&files.join("color"));
    let scene = Scene::start(FakeRuntime::default(), folder.path());
    scene.send_objects(settings("red")).await;
    let begun = tokio::time::Instant::now();
    scene.send(Operation::Add, &[pod_with_settings()]).await;
    scene.until_words("FailedMount: waiting for the disk: volume \"settings\"").await;
    assert!((10..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    scene.until_words("timed out waiting for the condition: volume \"settings\"").await;
    assert!((123..200).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(scene.runtime.known(), (0, 0));
    thaw();
    while_time_passes(scene.until_running(&["web-0"])).await;
    assert_eq!(std::fs::read_to_string(volume(folder.path()).join("color")).unwrap(), "red");
}
