//! Pods that cannot run show the reason, in the kubelet's words, and harm no other pod: on the embedded runtime and on
//! containerd.

use std::net::TcpListener;

use rubelet_testbed::{BUSYBOX, Flavor, require};

use crate::node::{Node, restarts, state, text};

const HOST: &str = "host";

fn pod(name: &str, image: &str, container: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  hostNetwork: true\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: c\n    image: {image}\n    \
         imagePullPolicy: IfNotPresent\n    {}\n{more}",
        container.replace('\n', "\n    ")
    )
}

/// A pod, the reasons that its container waits for in turn (none, if the pod itself is held up), and what `describe`
/// shows.
struct Case {
    name: &'static str,
    manifest: String,
    waits: &'static [&'static str],
    events: &'static [&'static str],
}

fn cases(image: &str) -> Vec<Case> {
    let sleeps = "command: [sleep, '9']";
    let mounts = "command: [sleep, '9']\nvolumeMounts: [{name: v, mountPath: /v}]";
    let volume = |source: &str| format!("  volumes: [{{name: v, {source}}}]\n");
    let plain = |name, image, container: &str| pod(name, image, container, "");
    let case = |name, manifest, waits, events| Case { name, manifest, waits, events };
    vec![
        case(
            "no-image",
            plain("no-image", "localhost:1/none:1", sleeps),
            &["ErrImagePull", "ImagePullBackOff"],
            &["Pulling", "Failed to pull image \"localhost:1/none:1\"", "Back-off pulling image"],
        ),
        case(
            "never-pulled",
            plain("never-pulled", "localhost/none:1", sleeps)
                .replace("imagePullPolicy: IfNotPresent", "imagePullPolicy: Never"),
            &["ErrImageNeverPull"],
            &["Container image \"localhost/none:1\" is not present with pull policy of Never"],
        ),
        case(
            "bad-image",
            plain("bad-image", "'Not an image'", sleeps),
            &["InvalidImageName"],
            &["InspectFailed"],
        ),
        case(
            "no-command",
            plain("no-command", image, "command: [/no/such/program]"),
            &["RunContainerError", "CreateContainerError", "CrashLoopBackOff"],
            &["Failed", "/no/such/program"],
        ),
        case(
            "root-refused",
            plain("root-refused", image, &format!("{sleeps}\nsecurityContext: {{runAsNonRoot: true}}")),
            &["CreateContainerConfigError"],
            &["container has runAsNonRoot and image will run as root"],
        ),
        case(
            "no-variable",
            plain("no-variable", image, &format!("{sleeps}\nenvFrom: [{{configMapRef: {{name: none}}}}]")),
            &["CreateContainerConfigError"],
            &["configmap \"none\" not found"],
        ),
        case(
            "no-folder",
            pod("no-folder", image, mounts, &volume("hostPath: {path: /no/such/folder, type: Directory}")),
            &[],
            &["FailedMount", "hostPath type check failed: /no/such/folder is not a directory"],
        ),
        case(
            "no-config-map",
            pod("no-config-map", image, mounts, &volume("configMap: {name: none}")),
            &[],
            &["FailedMount", "configmap \"none\" not found"],
        ),
        case(
            "exits-at-once",
            plain("exits-at-once", image, "command: [sh, -c, 'exit 3']"),
            &["CrashLoopBackOff"],
            &["Back-off restarting failed container c in pod exits-at-once-n_default("],
        ),
    ]
}

fn reasons_are_told(node: &Node, image: &str) {
    node.write("web.yaml", &node.sleeping("web", 1).replace("image: host", &format!("image: {image}")));
    node.until_phase("web", "Running");
    let pid = node.sleeper(1);
    let cases = cases(image);
    for case in &cases {
        node.write(&format!("{}.yaml", case.name), &case.manifest);
    }
    for Case { name, waits, events, .. } in &cases {
        let full = format!("{name}-n");
        if !waits.is_empty() {
            node.until_pod(name, &waits.join(" or "), |pod| {
                waits.iter().any(|reason| state(pod)["waiting"]["reason"] == *reason)
            });
        }
        for event in *events {
            node.until(&format!("{name}: {event}"), || {
                text(&node.ask(&["describe", &full])).1.contains(event)
            });
        }
    }
    let web = node.until_phase("web", "Running");
    assert_eq!((restarts(&web), node.sleepers(1)), (0, vec![pid]), "nobody else was harmed");
}

#[test]
fn what_keeps_a_pod_from_running_is_told_and_harms_nobody() {
    let Some(node) = Node::start() else { return };
    reasons_are_told(&node, HOST);
}

#[test]
fn what_keeps_a_pod_from_running_on_containerd_is_told_and_harms_nobody() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(node) = Node::start_on(containerd.endpoint()) else { return };
    reasons_are_told(&node, BUSYBOX);
    node.end_pods();
}

#[test]
fn a_registry_that_never_answers_is_told_and_harms_nobody() {
    let Some(node) = Node::start() else { return };
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/none:1", registry.local_addr().unwrap());
    node.write("waits.yaml", &pod("waits", &image, "command: [sleep, '9']", ""));
    let asked = registry.accept().unwrap();
    node.until("the pull is told", || text(&node.ask(&["describe", "waits-n"])).1.contains("Pulling image"));
    let web = node.sleeping("web", 1).replace("    imagePullPolicy: IfNotPresent\n", "");
    node.write("web.yaml", &web);
    node.until_phase("web", "Running");
    drop(asked);
}

fn ends_whatever_it_does(node: &Node, image: &str) {
    // The first process of a container receives only signals that it handles.
    node.write(
        "stubborn.yaml",
        &node.sleeping("stubborn", 1).replace("image: host", &format!("image: {image}")),
    );
    let seconds = node.seconds(2);
    let script = format!("command: [sh, -c, 'sleep {seconds} & sleep {seconds} & sleep 1; exit 3']");
    node.write("forks.yaml", &pod("forks", image, &script, "  restartPolicy: Never\n"));

    let ended = node.until_phase("forks", "Failed");
    assert_eq!(state(&ended)["terminated"]["exitCode"], 3);
    assert_eq!(state(&ended)["terminated"]["reason"], "Error");
    node.until("its children end", || node.sleepers(2).is_empty());

    node.until_phase("stubborn", "Running");
    node.sleeper(1);
    node.remove("stubborn.yaml");
    node.until_gone("stubborn");
    assert!(node.sleepers(1).is_empty());
}

#[test]
fn a_pod_that_ignores_signals_and_one_that_leaves_children_end() {
    let Some(node) = Node::start() else { return };
    ends_whatever_it_does(&node, HOST);
}

#[test]
fn a_pod_that_ignores_signals_and_one_that_leaves_children_end_on_containerd() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(node) = Node::start_on(containerd.endpoint()) else { return };
    ends_whatever_it_does(&node, BUSYBOX);
    node.end_pods();
}
