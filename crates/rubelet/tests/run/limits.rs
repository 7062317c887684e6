//! What pods may use, as the kernel has it: control groups of pods, and pods that do not fit.

use std::fs;
use std::path::{Path, PathBuf};

use rubelet_testbed::{BUSYBOX, Flavor, require};

use crate::node::{Node, text};

/// Where the group of a pod is, for a controller; this machine may have either version of control groups.
fn group(controller: &str, path: &str) -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    let below = if has_one_hierarchy() { root.to_owned() } else { root.join(controller) };
    below.join(path.trim_start_matches('/'))
}

fn has_one_hierarchy() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

fn read(controller: &str, path: &str, one: &str, two: &str) -> String {
    let file = if has_one_hierarchy() { two } else { one };
    let path = group(controller, path).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
}

fn pod(node: &Node, name: &str, image: &str, resources: &str) -> String {
    let sleeping = node.sleeping(name, 1).replace("image: host", &format!("image: {image}"));
    format!("{sleeping}    resources: {resources}\n")
}

fn limits_hold(mut node: Node, image: &str) {
    node.configure("podPidsLimit: 77\n");
    let root = node.cgroup_root();
    node.start_agent();
    let resources = "{requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}";
    node.write("web.yaml", &pod(&node, "web", image, resources));
    let running = node.until_phase("web", "Running");
    let uid = running["metadata"]["uid"].as_str().expect("a UID").to_owned();
    assert_eq!(running["status"]["qosClass"], "Burstable");
    let path = format!("{root}/kubepods/burstable/pod{uid}");
    let shares = |path: &str| read("cpu", path, "cpu.shares", "cpu.weight");
    let (of_pod, of_class) = if has_one_hierarchy() { ("10", "10") } else { ("256", "256") };
    assert_eq!(shares(&path), of_pod);
    assert_eq!(shares(&format!("{root}/kubepods/burstable")), of_class);
    let quota = read("cpu", &path, "cpu.cfs_quota_us", "cpu.max");
    assert!(quota.starts_with("50000"), "{quota}");
    assert_eq!(read("memory", &path, "memory.limit_in_bytes", "memory.max"), (64 << 20).to_string());
    assert_eq!(read("pids", &path, "pids.max", "pids.max"), "77");

    // The process of the container is below it.
    let pid = node.sleeper(1);
    let of_process = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("proc");
    assert!(of_process.contains(&format!("{path}/")), "{of_process}");
    node.remove("web.yaml");
    node.until_gone("web");
    assert!(!group("memory", &format!("{root}/kubepods")).exists(), "nothing is left behind");
}

#[test]
fn limits_of_a_pod_hold_for_all_of_it() {
    let Some(node) = Node::new() else { return };
    limits_hold(node, "host");
}

#[test]
fn limits_of_a_pod_hold_for_all_of_it_on_containerd_1_6() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    let Some(mut node) = Node::new() else { return };
    node.on(Some(containerd.endpoint()));
    limits_hold(node, BUSYBOX);
}

#[test]
fn limits_of_a_pod_hold_for_all_of_it_on_containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(mut node) = Node::new() else { return };
    node.on(Some(containerd.endpoint()));
    limits_hold(node, BUSYBOX);
}

#[test]
fn pods_are_where_the_runtime_puts_them_if_that_is_wanted() {
    let Some(mut node) = Node::new() else { return };
    node.configure("cgroupsPerQOS: false\n");
    node.start_agent();
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    let of_process = fs::read_to_string(format!("/proc/{}/cgroup", node.sleeper(1))).expect("proc");
    assert!(!of_process.contains("kubepods"), "{of_process}");
}

#[test]
fn a_pod_without_room_says_so_and_runs_when_there_is_some() {
    let Some(mut node) = Node::new() else { return };
    node.configure("maxPods: 1\n");
    node.start_agent();
    node.write("a.yaml", &node.sleeping("a", 1));
    node.until_phase("a", "Running");
    node.write("b.yaml", &node.sleeping("b", 2));
    node.write("c.yaml", &pod(&node, "c", "host", "{requests: {cpu: '4000'}}"));
    let refused = node.until_phase("b", "Failed");
    assert_eq!(refused["status"]["reason"], "OutOfpods");
    let (_, out, _) = text(&node.ask(&["ps"]));
    assert!(out.contains("OutOfpods"), "{out}");
    let (_, out, _) = text(&node.ask(&["describe", "b-n"]));
    assert!(
        out.contains("Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"),
        "{out}"
    );

    // Who was here first stays, also through a restart of the agent.
    let pid = node.sleeper(1);
    node.end_agent("-KILL");
    node.start_agent();
    node.until_phase("a", "Running");
    node.until_phase("b", "Failed");
    assert_eq!(node.sleepers(1), [pid]);

    node.remove("a.yaml");
    node.until_phase("b", "Running");
    node.remove("b.yaml");
    let huge = node.until_pod("c", "without room", |pod| pod["status"]["reason"] == "OutOfcpu");
    let message = huge["status"]["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with(
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000000, used: 0, capacity: "
        ),
        "{message}"
    );
}
