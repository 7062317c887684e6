//! Pods that cannot run say why, in the kubelet's words, and harm no other pod.

use crate::node::{Node, restarts, state, text};

fn pod(name: &str, container: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  hostNetwork: true\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: c\n    {}\n{more}",
        container.replace('\n', "\n    ")
    )
}

#[test]
fn what_keeps_a_pod_from_running_is_told_and_harms_nobody() {
    let Some(node) = Node::start() else { return };
    let table = [
        (
            "no-image",
            pod("no-image", "image: nowhere/none:1\nimagePullPolicy: Never", ""),
            "ErrImageNeverPull",
        ),
        (
            "no-command",
            pod("no-command", "image: host\nimagePullPolicy: IfNotPresent\ncommand: [/no/such/program]", ""),
            "RunContainerError",
        ),
        (
            "no-user",
            pod(
                "no-user",
                "image: host\nimagePullPolicy: IfNotPresent\ncommand: [sleep, '9']\nsecurityContext: {runAsNonRoot: true}",
                "",
            ),
            "CreateContainerConfigError",
        ),
    ];
    for (name, manifest, _) in &table {
        node.write(&format!("{name}.yaml"), manifest);
    }
    let volume = "  volumes:\n  - name: v\n    hostPath: {path: /no/such/folder, type: Directory}\n";
    let container = "image: host\nimagePullPolicy: IfNotPresent\ncommand: [sleep, '9']\nvolumeMounts: [{name: v, mountPath: /v}]";
    node.write("no-volume.yaml", &pod("no-volume", container, volume));
    node.write("web.yaml", &node.sleeping("web", 1));

    for (name, _, reason) in &table {
        let reasons = [*reason, "CrashLoopBackOff"];
        node.until_pod(name, reason, |pod| {
            reasons.iter().any(|reason| state(pod)["waiting"]["reason"] == *reason)
        });
        let happened = || text(&node.ask(&["describe", &format!("{name}-n")])).1;
        node.until(reason, || happened().contains("Warning"));
    }
    node.until("the volume's reason", || {
        let (_, out, _) = text(&node.ask(&["describe", "no-volume-n"]));
        out.contains("FailedMount") && out.contains("hostPath type check failed")
    });
    let web = node.until_phase("web", "Running");
    assert_eq!(restarts(&web), 0);
}

#[test]
fn a_pod_that_ignores_the_polite_signal_is_gone_after_its_grace() {
    let Some(node) = Node::start() else { return };
    // The first process of a container hears no signal that it has not asked for.
    node.write("stubborn.yaml", &node.sleeping("stubborn", 1));
    node.until_phase("stubborn", "Running");
    node.sleeper(1);
    node.remove("stubborn.yaml");
    node.until_gone("stubborn");
    assert!(node.sleepers(1).is_empty());
}

#[test]
fn what_a_container_leaves_behind_ends_with_it() {
    let Some(node) = Node::start() else { return };
    let seconds = node.seconds(1);
    let container = format!(
        "image: host\nimagePullPolicy: IfNotPresent\ncommand: [sh, -c, 'sleep {seconds} & sleep {seconds} & sleep 1; exit 3']"
    );
    node.write("forks.yaml", &pod("forks", &container, "  restartPolicy: Never\n"));
    let ended = node.until_phase("forks", "Failed");
    assert_eq!(state(&ended)["terminated"]["exitCode"], 3);
    assert!(node.sleepers(1).is_empty());
}
