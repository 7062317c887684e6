//! Limits of pods as the kernel sees them: the control groups of pods, and pods that do not fit.

use std::fs;
use std::path::{Path, PathBuf};

use rubelet_testbed::{BUSYBOX, Flavor, require};

use crate::node::{Node, text};

/// Returns the path of a pod's group for a controller, on either version of cgroups.
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

/// The OOM score adjustment of a Burstable container that requests this many bytes of memory.
fn oom_score(asked: u64) -> u64 {
    let facts = fs::read_to_string("/proc/meminfo").expect("proc");
    let kib = facts.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"));
    let memory = kib.and_then(|kib| kib.trim().parse::<u64>().ok()).expect("how much memory there is") * 1024;
    (1000 - 1000 * asked / memory).clamp(3, 999)
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

    // The container's process is in a group below it.
    let pid = node.sleeper(1);
    let of_process = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("proc");
    assert!(of_process.contains(&format!("{path}/")), "{of_process}");
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("proc");
    assert_eq!(score.trim(), oom_score(32 << 20).to_string());
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

    // The pod that was here first stays, even through a restart of the agent.
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

/// Returns a container's limits as the kernel has them for its process: shares, quota, memory.
fn has(pid: u32) -> [String; 3] {
    let of_process = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("proc");
    let path = |controller: &str| {
        let of = |line: &str| {
            let mut words = line.splitn(3, ':').skip(1);
            let controllers = words.next()?.to_owned();
            let is_it = controllers.is_empty() || controllers.split(',').any(|one| one == controller);
            is_it.then(|| words.next().unwrap_or_default().to_owned())
        };
        of_process.lines().find_map(of).expect("its control group")
    };
    [
        read("cpu", &path("cpu"), "cpu.shares", "cpu.weight"),
        read("cpu", &path("cpu"), "cpu.cfs_quota_us", "cpu.max"),
        read("memory", &path("memory"), "memory.limit_in_bytes", "memory.max"),
    ]
}

fn a_pod_is_resized(mut node: Node, image: &str) {
    let root = node.cgroup_root();
    let uid = "11111111-2222-3333-4444-666666666666";
    let sized = |node: &Node, resources: &str| {
        pod(node, "web", image, resources).replace("  name: web\n", &format!("  name: web\n  uid: {uid}\n"))
    };
    node.start_agent();
    let small = "{requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}";
    node.write("web.yaml", &sized(&node, small));
    node.until_phase("web", "Running");
    let pid = node.sleeper(1);
    let before = has(pid);
    assert!(before[1].starts_with("50000") && before[2] == (64 << 20).to_string(), "{before:?}");

    let large = "{requests: {cpu: 500m, memory: 32Mi}, limits: {cpu: 750m, memory: 128Mi}}";
    node.write("web.yaml", &sized(&node, large));
    node.until("more of everything", || {
        let [shares, quota, memory] = has(pid);
        shares != before[0] && quota.starts_with("75000") && memory == (128 << 20).to_string()
    });
    let path = format!("{root}/kubepods/burstable/pod{uid}");
    let of_pod = || read("memory", &path, "memory.limit_in_bytes", "memory.max");
    node.until("the pod as a whole", || of_pod() == (128 << 20).to_string());
    node.until_pod("web", "its new size", |pod| {
        pod["status"]["containerStatuses"][0]["resources"]["limits"]["memory"] == "128Mi"
    });

    // Changed back while no agent is running.
    node.end_agent("-KILL");
    node.write("web.yaml", &sized(&node, small));
    node.start_agent();
    node.until("what it had", || has(pid) == before && of_pod() == (64 << 20).to_string());
    node.until("the word that it was", || {
        text(&node.ask(&["events", "web-n"])).1.contains("ResizeCompleted")
    });

    // Less memory than the container needs to live is refused, and an error says so.
    let tiny = "{requests: {cpu: 250m, memory: 4Ki}, limits: {cpu: 500m, memory: 4Ki}}";
    node.write("web.yaml", &sized(&node, tiny));
    node.until("a refusal", || text(&node.ask(&["events", "web-n"])).1.contains("below current usage"));
    assert_eq!(has(pid), before);
    assert_eq!(node.sleeper(1), pid, "all that without a restart");
    node.end_pods();
}

#[test]
fn a_running_pod_is_resized() {
    let Some(node) = Node::new() else { return };
    a_pod_is_resized(node, "host");
}

#[test]
fn a_running_pod_is_resized_on_containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(mut node) = Node::new() else { return };
    node.on(Some(containerd.endpoint()));
    a_pod_is_resized(node, BUSYBOX);
}
