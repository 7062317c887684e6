//! System call filters, from the manifest to the kernel, for containers and for commands in them.

use std::fs;

use rubelet_testbed::{BUSYBOX, Flavor, require};

use crate::node::{Node, text};

/// Allows everything except creating folders.
const NO_FOLDERS: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}"#;

fn pod(node: &Node, name: &str, number: u32, image: &str, context: &str) -> String {
    let sleeping = node.sleeping(name, number).replace("image: host", &format!("image: {image}"));
    format!("{sleeping}    securityContext: {context}\n")
}

/// The kernel's filter mode for the process that sleeps.
fn filters(node: &Node, number: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", node.sleeper(number))).expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).expect("a line");
    line.trim().to_owned()
}

fn profiles_are_enforced(mut node: Node, image: &str) {
    node.configure("seccompDefault: true\n");
    let folder = node.path("data").join("seccomp");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("no-folders.json"), NO_FOLDERS).expect("a file");
    node.start_agent();
    let contexts = [
        ("said", "{seccompProfile: {type: RuntimeDefault}}", "2"),
        ("unsaid", "{}", "2"),
        (
            "strict",
            "{seccompProfile: {type: RuntimeDefault}, runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
            "2",
        ),
        ("free", "{seccompProfile: {type: Unconfined}}", "0"),
        ("privileged", "{privileged: true}", "0"),
        ("local", "{seccompProfile: {type: Localhost, localhostProfile: no-folders.json}}", "2"),
    ];
    for (number, (name, context, _)) in (1..).zip(contexts) {
        node.write(&format!("{name}.yaml"), &pod(&node, name, number, image, context));
    }
    for (number, (name, _, expected)) in (1..).zip(contexts) {
        node.until_phase(name, "Running");
        assert_eq!(filters(&node, number), expected, "{name}");
    }
    let full = |name: &str| {
        let pod = node.pod(name).expect("a pod");
        pod["metadata"]["name"].as_str().expect("a name").to_owned()
    };
    let run = |name: &str, script: &str| text(&node.ask(&["exec", &full(name), "--", "sh", "-c", script]));
    assert_eq!(run("local", "mkdir /tmp/x; touch /tmp/y && echo made").1, "made\n");
    assert_eq!(run("local", "mkdir /tmp/x && echo made").1, "", "commands have the filter, too");
    assert_eq!(run("free", "mkdir /tmp/x && echo made").1, "made\n");

    let missing = "{seccompProfile: {type: Localhost, localhostProfile: none.json}}";
    node.write("missing.yaml", &pod(&node, "missing", 9, image, missing));
    node.until_waiting("missing", "CreateContainerError");
    let told = text(&node.ask(&["describe", &full("missing")])).1;
    assert!(told.contains(&folder.join("none.json").display().to_string()), "{told}");
    node.end_pods();
}

#[test]
fn profiles_of_system_calls_are_enforced() {
    let Some(node) = Node::new() else { return };
    profiles_are_enforced(node, "host");
}

#[test]
fn profiles_of_system_calls_are_enforced_on_containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(mut node) = Node::new() else { return };
    node.on(Some(containerd.endpoint()));
    profiles_are_enforced(node, BUSYBOX);
}
