//! Probes, hooks and stop signals of real containers. `/state` in a container is a folder of the test.

use std::fs;

use rubelet_testbed::{BUSYBOX, Flavor, require};
use serde_json::Value;

use crate::node::{NODE, Node, restarts, text};
use crate::tls_server::TlsServer;

/// A pod whose only container has this command and these fields.
fn pod(node: &Node, image: &str, command: &str, fields: &str) -> String {
    let state = node.path("state");
    fs::create_dir_all(&state).expect("a folder");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  os: {{name: linux}}\n  \
         terminationGracePeriodSeconds: 20\n  containers:\n  - name: c\n    image: {image}\n    \
         imagePullPolicy: IfNotPresent\n    command: {command}\n    {fields}\n    \
         volumeMounts: [{{name: state, mountPath: /state}}]\n  \
         volumes: [{{name: state, hostPath: {{path: {}}}}}]\n",
        state.display()
    )
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Makes the container ready, unready and broken, through files that its probes check.
fn is_probed(mut node: Node, manifest: &str) {
    let file = |name: &str| node.path("state").join(name);
    let (alive, ready) = (file("alive"), file("ready"));
    fs::write(&alive, "").expect("writable");
    node.write("web.yaml", manifest);
    let running = node.until_phase("web", "Running");
    assert!(!is_ready(&running), "{running:#?}");
    fs::write(&ready, "").expect("writable");
    node.until_pod("web", "ready", is_ready);
    fs::remove_file(&ready).expect("it was there");
    node.until_pod("web", "unready", |pod| !is_ready(pod) && restarts(pod) == 0);
    fs::write(&ready, "").expect("writable");
    node.until_pod("web", "ready again", is_ready);

    node.end_agent("-KILL");
    node.start_agent();
    // It need not become ready again: it still is.
    let adopted = node.until_phase("web", "Running");
    assert!(is_ready(&adopted) && restarts(&adopted) == 0, "{adopted:#?}");

    fs::remove_file(&alive).expect("it was there");
    node.until_pod("web", "restarted", |pod| restarts(pod) >= 1);
    fs::write(&alive, "").expect("writable");
    node.until_pod("web", "ready after all", is_ready);
    let (_, told, _) = text(&node.ask(&["describe", &format!("web-{NODE}")]));
    for wanted in ["Liveness probe failed", "failed liveness probe, will be restarted"] {
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
    node.remove("web.yaml");
    node.until_gone("web");
}

/// Probes that check for files, every second and with a threshold of one.
fn by_files(liveness: &str, readiness: &str) -> String {
    format!(
        "livenessProbe: {{{liveness}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}}\n    \
         readinessProbe: {{{readiness}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}}"
    )
}

#[test]
fn containers_of_the_embedded_runtime_are_probed() {
    let Some(node) = Node::start() else { return };
    let looks_for = |name: &str| format!("exec: {{command: [test, -f, /state/{name}]}}");
    let command = format!("[sleep, \"{}\"]", node.seconds(1));
    let manifest = pod(&node, "host", &command, &by_files(&looks_for("alive"), &looks_for("ready")));
    is_probed(node, &manifest);
}

#[test]
fn containers_of_containerd_2_are_probed_over_their_network() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(node) = Node::start_on(containerd.endpoint()) else { return };
    let fields = by_files("exec: {command: [test, -f, /state/alive]}", "httpGet: {port: web, path: /ready}");
    let fields = format!("{fields}\n    ports: [{{name: web, containerPort: 8080}}]");
    let command = "[httpd, -f, -p, '8080', -h, /state]";
    let manifest = pod(&node, BUSYBOX, command, &fields);
    is_probed(node, &manifest);
}

/// Probes over TLS, with a self-signed certificate. An HTTPS server on this machine stands in for one in the container,
/// since no image here has one.
fn is_probed_over_tls(node: Node, image: &str, command: &str) {
    let state = node.path("state");
    let server = TlsServer::start(move |path| state.join(path.trim_start_matches('/')).exists());
    let readiness =
        format!("httpGet: {{host: 127.0.0.1, port: {}, path: /ready, scheme: HTTPS}}", server.port());
    let fields = by_files("exec: {command: [test, -f, /state/alive]}", &readiness);
    let manifest = pod(&node, image, command, &fields);
    is_probed(node, &manifest);
    assert!(server.was_asked(), "the probes asked somebody else");
}

#[test]
fn containers_of_the_embedded_runtime_are_probed_over_tls() {
    let Some(node) = Node::start() else { return };
    let command = format!("[sleep, \"{}\"]", node.seconds(1));
    is_probed_over_tls(node, "host", &command);
}

#[test]
fn containers_of_containerd_2_are_probed_over_tls() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(node) = Node::start_on(containerd.endpoint()) else { return };
    let command = format!("[sleep, \"{}\"]", node.seconds(1));
    is_probed_over_tls(node, BUSYBOX, &command);
}

/// Starts a container that records what happens to it, and ends it.
fn is_ended_politely(mut node: Node, image: &str) {
    let command = "[sh, -c, 'trap \"echo signal >> /state/log; exit 0\" USR1; trap \"\" TERM; \
                   while :; do sleep 0.1; done']";
    let says = |word: &str| format!("{{exec: {{command: [sh, -c, 'echo {word} >> /state/log']}}}}");
    let fields =
        format!("lifecycle: {{stopSignal: SIGUSR1, postStart: {}, preStop: {}}}", says("begin"), says("end"));
    let manifest = pod(&node, image, command, &fields);
    let path = node.path("state").join("log");
    let log = || fs::read_to_string(&path).unwrap_or_default();
    let begins = |node: &Node| {
        let _ = fs::remove_file(&path);
        node.write("web.yaml", &manifest);
        node.until_phase("web", "Running");
        node.until("its first hook", || log() == "begin\n");
    };
    begins(&node);
    node.remove("web.yaml");
    node.until_gone("web");
    assert_eq!(log(), "begin\nend\nsignal\n");

    // Its manifest is gone by now, so what to do is read from the container's annotations. It has one second for all of
    // this, which may be too little on a busy machine.
    let mut ends = Vec::new();
    while ends.last().is_none_or(|log| log != "begin\nend\nsignal\n") {
        assert!(ends.len() < 5, "the end of an orphan: {ends:?}");
        begins(&node);
        node.end_agent("-KILL");
        node.remove("web.yaml");
        node.start_agent();
        // An agent that has just started knows of no pods yet.
        node.until("the end of an orphan", || node.pod_groups().is_empty());
        ends.push(log());
    }

    begins(&node);
    node.end_agent("-INT");
    let (code, out, err) = text(&node.ask(&["stop", "web"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}{err}");
    assert_eq!(log(), "begin\nend\nsignal\n", "without an agent");
}

#[test]
fn hooks_and_stop_signals_reach_containers_of_the_embedded_runtime() {
    let Some(node) = Node::start() else { return };
    is_ended_politely(node, "host");
}

#[test]
fn hooks_and_stop_signals_reach_containers_of_containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(node) = Node::start_on(containerd.endpoint()) else { return };
    is_ended_politely(node, BUSYBOX);
}
