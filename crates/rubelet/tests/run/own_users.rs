//! Pods with user namespaces (`hostUsers: false`): each has host ids of its own, where the runtime supports that.

use std::fs;

use rubelet_testbed::requirement::require_own_users;
use rubelet_testbed::{BUSYBOX, Flavor, require};

use crate::node::{Node, restarts, signal_to, text};

/// A pod whose container sleeps, with a volume of each kind.
fn pod(node: &Node, name: &str, container: u32, host_users: bool) -> String {
    let hosted = node.path("hosted");
    let (hosted, seconds) = (hosted.display(), node.seconds(container));
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}-uid}}\nspec:\n  hostUsers: {host_users}\n  \
         terminationGracePeriodSeconds: 1\n  securityContext: {{fsGroup: 2000}}\n  volumes:\n  \
         - {{name: disk, emptyDir: {{}}}}\n  - {{name: memory, emptyDir: {{medium: Memory}}}}\n  \
         - {{name: facts, downwardAPI: {{items: [{{path: name, fieldRef: {{fieldPath: metadata.name}}}}]}}}}\n  \
         - {{name: hosted, hostPath: {{path: {hosted}}}}}\n  containers:\n  \
         - name: c\n    image: {BUSYBOX}\n    imagePullPolicy: IfNotPresent\n    command: [sleep, \"{seconds}\"]\n    \
         volumeMounts:\n    - {{name: disk, mountPath: /disk}}\n    - {{name: disk, mountPath: /part, subPath: part}}\n    \
         - {{name: memory, mountPath: /memory}}\n    - {{name: facts, mountPath: /facts}}\n    \
         - {{name: hosted, mountPath: /hosted}}\n"
    )
}

fn inside(node: &Node, pod: &str, command: &[&str]) -> String {
    let (code, out, err) = text(&node.ask(&[&["exec", pod, "--"], command].concat()));
    assert_eq!(code, Some(0), "{pod} {command:?}: {out}{err}");
    out.trim().to_owned()
}

/// Returns the first host id of the pod's users and their number, which must be the same for its groups.
fn ids(node: &Node, pod: &str) -> (u32, u32) {
    let map = |kind: &str| {
        let text = inside(node, pod, &["cat", &format!("/proc/self/{kind}_map")]);
        text.split_whitespace().map(|word| word.parse().expect("a number")).collect::<Vec<u32>>()
    };
    let users = map("uid");
    assert_eq!((users.len(), users[0]), (3, 0), "{users:?}");
    assert_eq!(users, map("gid"));
    (users[1], users[2])
}

#[test]
fn pods_have_users_of_their_own_on_containerd_2() {
    let Some(containerd) = require_own_users() else { return };
    let Some(mut node) = Node::start_on(containerd.endpoint()) else { return };
    fs::create_dir(node.path("hosted")).expect("a folder");
    for (name, container) in [("web", 1), ("db", 2)] {
        node.write(&format!("{name}.yaml"), &pod(&node, name, container, false));
    }
    for name in ["web", "db"] {
        node.until_phase(name, "Running");
    }
    let (of_web, of_db) = (ids(&node, "web"), ids(&node, "db"));
    assert_ne!(of_web.0, of_db.0);
    for ids in [of_web, of_db] {
        assert!(ids.0 >= 65_536 && ids.1 == 65_536, "{ids:?}");
    }

    // Root inside is an unprivileged user outside, and owns the pod's files.
    let pid = node.sleeper(1);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let uid = status.lines().find(|line| line.starts_with("Uid:")).expect("a user");
    assert_eq!(uid.split_whitespace().nth(1), Some(of_web.0.to_string().as_str()), "{uid}");
    for (path, owner) in [
        ("/disk", "0:2000"),
        ("/part", "0:2000"),
        ("/memory", "0:2000"),
        ("/facts/..data/name", "0:2000"),
        ("/hosted", "0:0"),
        ("/etc/hosts", "0:0"),
        ("/dev/termination-log", "0:0"),
    ] {
        assert_eq!(inside(&node, "web", &["stat", "-c", "%u:%g", path]), owner, "{path}");
    }
    assert_eq!(inside(&node, "web", &["cat", "/facts/name"]), "web-n");
    for path in ["/disk/mine", "/part/mine", "/memory/mine", "/hosted/mine", "/dev/termination-log"] {
        inside(&node, "web", &["sh", "-c", &format!("echo mine > {path} && chown 7:7 {path}")]);
        assert_eq!(inside(&node, "web", &["stat", "-c", "%u:%g", path]), "7:7", "{path}");
    }

    // A new agent restarts nothing, and a container that it does restart has the same ids.
    node.end_agent("-KILL");
    node.start_agent();
    node.until_phase("web", "Running");
    node.write("more.yaml", &pod(&node, "more", 3, false));
    node.until_phase("more", "Running");
    assert_eq!((node.sleepers(1), ids(&node, "web"), ids(&node, "db")), (vec![pid], of_web, of_db));
    assert!(![of_web.0, of_db.0].contains(&ids(&node, "more").0));
    signal_to(pid, "-9");
    node.until_pod("web", "restarted", |pod| restarts(pod) == 1);
    node.until_phase("web", "Running");
    assert_eq!(ids(&node, "web"), of_web);

    // A change to the host's users replaces the sandbox.
    node.write("web.yaml", &pod(&node, "web", 1, true));
    node.until("the host's users", || {
        let (code, out, _) = text(&node.ask(&["exec", "web", "--", "cat", "/proc/self/uid_map"]));
        code == Some(0) && out.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"]
    });
    for name in ["web", "db", "more"] {
        node.remove(&format!("{name}.yaml"));
        node.until_gone(name);
    }
    assert_eq!(fs::read_dir(node.path("data/pods")).expect("a folder").count(), 0);
}

/// On a runtime without support, the pod does not start, and an event says why.
fn is_refused(node: &Node) {
    fs::create_dir(node.path("hosted")).expect("a folder");
    node.write("web.yaml", &pod(node, "web", 1, false));
    let events = || text(&node.ask(&["events", "web-n"])).1;
    node.until("the event", || events().contains("FailedCreatePodSandBox"));
    assert!(events().contains("runtime does not support user namespaces"), "{}", events());
    node.until_phase("web", "Pending");
    assert!(node.sleepers(1).is_empty());
}

#[test]
fn a_pod_with_users_of_its_own_does_not_start_on_the_embedded_runtime() {
    let Some(node) = Node::start() else { return };
    is_refused(&node);
}

#[test]
fn a_pod_with_users_of_its_own_does_not_start_on_containerd_1_6() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    let Some(node) = Node::start_on(containerd.endpoint()) else { return };
    is_refused(&node);
    node.end_pods();
}
