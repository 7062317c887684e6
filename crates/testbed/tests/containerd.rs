//! Real runtimes: they start ready, can be steered, run side by side, and leave nothing.

mod traces;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rubelet_testbed::{BUSYBOX, Containerd, Error, Flavor, PAUSE, go_cache, require, requirement, wait};
use serde_json::json;
use traces::Traces;

const LIMIT: Duration = Duration::from_secs(20);

fn said(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program is there");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A container of containerd's own client, which needs neither a pod nor a network. Returns its id.
fn run_container(containerd: &Containerd, name: &str, image: &str, command: &[&str]) -> String {
    // Control groups are named by the id alone, and other runtimes use the same names at the same time.
    let slot = containerd.dir().file_name().expect("a folder has a name").to_string_lossy();
    let id = format!("{name}-{slot}");
    let mut run = containerd.ctr();
    run.args(["run", "--detach", "--null-io", "--runc-root"]).arg(containerd.dir().join("runc"));
    said(run.args([image, &id]).args(command));
    id
}

fn run_sleeper(containerd: &Containerd, name: &str) -> String {
    run_container(containerd, name, BUSYBOX, &["sleep", "3600"])
}

fn task_state(containerd: &Containerd, id: &str) -> Option<String> {
    let tasks = said(containerd.ctr().args(["tasks", "list"]));
    let line = tasks.lines().find(|line| line.split_whitespace().next() == Some(id))?;
    line.split_whitespace().nth(2).map(str::to_owned)
}

fn crictl(containerd: &Containerd) -> Command {
    containerd.crictl().expect("checked before")
}

/// A pod with one container, as an agent would make it. Returns the pod's id.
fn run_pod(containerd: &Containerd) -> String {
    let pod = containerd.dir().join("pod.json");
    let container = containerd.dir().join("container.json");
    let pod_config = json!({
        "metadata": { "name": "web", "namespace": "default", "uid": "c0ffee" },
        "linux": {},
    });
    let container_config = json!({
        "metadata": { "name": "main" },
        "image": { "image": BUSYBOX },
        "command": ["sleep", "3600"],
        "linux": {},
    });
    fs::write(&pod, pod_config.to_string()).expect("writes");
    fs::write(&container, container_config.to_string()).expect("writes");
    let pod_id = said(crictl(containerd).arg("runp").arg(&pod));
    let container_id = said(crictl(containerd).args(["create", &pod_id]).arg(container).arg(pod));
    said(crictl(containerd).args(["start", &container_id]));
    pod_id
}

fn starts_ready_and_leaves_nothing(flavor: Flavor) {
    let Some(containerd) = require(flavor) else { return };
    let images = said(containerd.ctr().args(["images", "list", "--quiet"]));
    for image in [PAUSE, BUSYBOX] {
        assert!(images.lines().any(|line| line == image), "{image} is not among:\n{images}");
    }
    assert!(containerd.endpoint().starts_with("unix:///"));
    assert!(containerd.socket().as_os_str().len() < 108);
    assert!(!containerd.log().is_empty());
    run_sleeper(&containerd, "one");
    run_sleeper(&containerd, "another");
    let traces = Traces::of(containerd.dir(), &containerd.bridge());
    assert_eq!(traces.tasks(), 2);
    assert!(!traces.left().is_empty());
    containerd.take_down().expect("comes down");
    assert_eq!(traces.left(), Vec::<String>::new());
}

#[test]
fn containerd_1_6_starts_ready_and_leaves_nothing() {
    starts_ready_and_leaves_nothing(Flavor::V1_6);
}

#[test]
fn containerd_2_starts_ready_and_leaves_nothing() {
    starts_ready_and_leaves_nothing(Flavor::V2);
}

fn gives_pods_addresses_and_takes_them_back(flavor: Flavor) {
    if !requirement::is_met("crictl", &requirement::check_go_tool(&go_cache::CRICTL)) {
        return;
    }
    let Some(containerd) = require(flavor) else { return };
    let pod = run_pod(&containerd);
    let status = said(crictl(&containerd).args(["inspectp", &pod]));
    let prefix = containerd.subnet().replace(".0/24", ".");
    assert!(status.contains(&format!("\"ip\": \"{prefix}")), "no address of {prefix} in {status}");
    let traces = Traces::of(containerd.dir(), &containerd.bridge());
    assert_eq!(traces.tasks(), 2);
    drop(containerd);
    assert_eq!(traces.left(), Vec::<String>::new());
}

#[test]
fn containerd_1_6_gives_pods_addresses_and_takes_them_back() {
    gives_pods_addresses_and_takes_them_back(Flavor::V1_6);
}

#[test]
fn containerd_2_gives_pods_addresses_and_takes_them_back() {
    gives_pods_addresses_and_takes_them_back(Flavor::V2);
}

fn containers_outlive_the_daemon(flavor: Flavor) {
    let Some(mut containerd) = require(flavor) else { return };
    let survivor = run_sleeper(&containerd, "survivor");
    let first = containerd.pid();

    containerd.restart().expect("restarts");
    assert_ne!(containerd.pid(), first);
    assert_eq!(task_state(&containerd, &survivor).as_deref(), Some("RUNNING"));

    containerd.kill().expect("was running");
    assert_eq!(containerd.pid(), None);
    assert!(matches!(containerd.stop(), Err(Error::NotRunning)));
    containerd.start_again().expect("starts");
    assert!(matches!(containerd.start_again(), Err(Error::AlreadyRunning { .. })));
    assert_eq!(task_state(&containerd, &survivor).as_deref(), Some("RUNNING"));

    let traces = Traces::of(containerd.dir(), &containerd.bridge());
    containerd.kill().expect("was running");
    drop(containerd);
    assert_eq!(traces.left(), Vec::<String>::new());
}

#[test]
fn containers_outlive_containerd_1_6() {
    containers_outlive_the_daemon(Flavor::V1_6);
}

#[test]
fn containers_outlive_containerd_2() {
    containers_outlive_the_daemon(Flavor::V2);
}

#[test]
fn a_frozen_daemon_is_silent_until_it_is_thawed_and_can_be_dropped_frozen() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    containerd.freeze().expect("runs");
    let pid = containerd.pid().expect("runs");
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).expect("the daemon is there");
    wait::until(LIMIT, || state().contains(") T ").then_some(())).expect("the daemon stops");
    let impatient =
        containerd.ctr().args(["--connect-timeout", "200ms", "version"]).output().expect("ctr is there");
    assert!(!impatient.status.success(), "a frozen daemon answered: {impatient:?}");
    containerd.thaw().expect("runs");
    said(containerd.ctr().arg("version"));
    containerd.freeze().expect("runs");
    containerd.take_down().expect("comes down");
}

#[test]
fn the_pause_image_ends_at_once_when_asked_to() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    let pause = run_container(&containerd, "pause", PAUSE, &[]);
    assert_eq!(task_state(&containerd, &pause).as_deref(), Some("RUNNING"));
    let processes = || said(containerd.ctr().args(["tasks", "ps", &pause])).lines().skip(1).count();
    wait::until(LIMIT, || (processes() == 2).then_some(())).expect("its shell waits for its sleep");
    said(containerd.ctr().args(["tasks", "kill", "--signal", "SIGTERM", &pause]));
    let has_stopped = || (task_state(&containerd, &pause).as_deref() == Some("STOPPED")).then_some(());
    wait::until(LIMIT, has_stopped).expect("the pause container ends on SIGTERM");
}

#[test]
fn several_run_side_by_side() {
    let Some(first) = require(Flavor::V1_6) else { return };
    let Some(second) = require(Flavor::V1_6) else { return };
    assert_ne!(first.socket(), second.socket());
    assert_ne!(first.subnet(), second.subnet());
    assert_ne!(first.bridge(), second.bridge());
    run_sleeper(&first, "ends");
    let stays = run_sleeper(&second, "stays");
    drop(first);
    assert_eq!(task_state(&second, &stays).as_deref(), Some("RUNNING"));
}

#[test]
fn a_runtime_outlives_the_thread_that_started_it() {
    let started = std::thread::spawn(|| require(Flavor::V1_6)).join().expect("does not panic");
    let Some(containerd) = started else { return };
    said(containerd.ctr().arg("version"));
}
