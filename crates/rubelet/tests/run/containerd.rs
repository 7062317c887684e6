//! On real containerds: the same pod lives, addresses from CNI, a runtime that restarts, and foreign pods that are left
//! alone.

use rubelet_cri::v1;
use rubelet_cri::{ListFilter, Metrics, Options, RuntimeClient};
use rubelet_model::SandboxState;
use rubelet_testbed::{BUSYBOX, Containerd, Flavor, require};

use crate::node::{Node, restarts, signal_to, text};

fn pod(node: &Node, name: &str, container: u32) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
         containers:\n  - name: c\n    image: {BUSYBOX}\n    imagePullPolicy: IfNotPresent\n    command: [sleep, \"{}\"]\n",
        node.seconds(container)
    )
}

/// Creates a pod that is not the agent's.
async fn foreign_pod(client: &RuntimeClient) {
    let config = v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: "foreign".to_owned(),
            uid: "foreign-uid".to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        labels: [
            ("io.kubernetes.pod.uid".to_owned(), "foreign-uid".to_owned()),
            ("io.kubernetes.pod.name".to_owned(), "foreign".to_owned()),
            ("io.kubernetes.pod.namespace".to_owned(), "default".to_owned()),
        ]
        .into(),
        linux: Some(v1::LinuxPodSandboxConfig::default()),
        ..v1::PodSandboxConfig::default()
    };
    client.run_pod_sandbox(config, "").await.expect("a sandbox");
}

fn lives_on(mut containerd: Containerd) {
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("tokio");
    let endpoint = containerd.endpoint();
    let client =
        RuntimeClient::new(endpoint.parse().expect("an endpoint"), Options::default(), Metrics::default());
    tokio.block_on(foreign_pod(&client));

    let Some(mut node) = Node::start_on(endpoint) else { return };
    node.write("web.yaml", &pod(&node, "web", 1));
    let running = node.until_phase("web", "Running");
    assert!(running["status"]["podIP"].as_str().is_some_and(|ip| !ip.is_empty()), "{running:#?}");
    signal_to(node.sleeper(1), "-9");
    node.until_pod("web", "restarted", |pod| restarts(pod) == 1);
    let pid = node.sleeper(1);

    containerd.restart().expect("containerd comes back");
    node.write("db.yaml", &pod(&node, "db", 2));
    node.until_phase("db", "Running");
    let web = node.until_phase("web", "Running");
    assert_eq!((restarts(&web), node.sleepers(1)), (1, vec![pid]), "what ran went on");

    // Without an agent, commands find the runtime that it used.
    node.end_agent("-INT");
    assert!(node.said().contains("2 pods keep running"), "{}", node.said());
    let (code, out, err) = text(&node.ask(&["ps"]));
    assert!(code == Some(0) && out.contains("web-n") && out.contains("foreign"), "{out}{err}");
    let (code, out, err) = text(&node.ask(&["exec", "web", "--", "echo", "inside"]));
    assert_eq!((code, out.as_str()), (Some(0), "inside\n"), "{err}");
    let (code, out, err) = text(&node.ask(&["stop", "--all", "--grace-period", "0"]));
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{out}{err}");
    assert!(node.sleepers(1).is_empty() && node.sleepers(2).is_empty());
    node.assert_clean();
    assert_eq!(node.pod_groups(), Vec::<std::path::PathBuf>::new());
    node.start_agent();
    for (name, container) in [("web", 1), ("db", 2)] {
        node.until_phase(name, "Running");
        node.sleeper(container);
    }

    for name in ["web", "db"] {
        node.remove(&format!("{name}.yaml"));
        node.until_gone(name);
    }
    assert!(node.sleepers(1).is_empty() && node.sleepers(2).is_empty());
    let left = tokio.block_on(client.list_pods(&ListFilter::All)).expect("pods").pods;
    let names: Vec<String> = left.iter().map(|pod| pod.pod.to_string()).collect();
    assert_eq!(names, ["default/foreign"], "what others made is left alone, and nothing else is left");
    assert_eq!(left[0].sandboxes[0].state, SandboxState::Ready);
}

#[test]
fn pods_live_on_containerd_1_6() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    lives_on(containerd);
}

#[test]
fn pods_live_on_containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    lives_on(containerd);
}

/// Whether the runtime has a network for pods.
async fn has_network(client: &RuntimeClient) -> bool {
    let conditions = client.status(false).await.expect("a status").status.expect("conditions").conditions;
    conditions.iter().any(|condition| condition.r#type == "NetworkReady" && condition.status)
}

fn waits_for_the_network(containerd: &Containerd, knows_stop_signals: bool) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let endpoint = containerd.endpoint();
    let client =
        RuntimeClient::new(endpoint.parse().expect("an endpoint"), Options::default(), Metrics::default());
    let network = containerd.dir().join("cni/10-testbed.conflist");
    let away = containerd.dir().join("away.conflist");
    std::fs::rename(&network, &away).expect("the network goes away");
    let Some(node) = Node::start_on(endpoint) else { return };
    node.until("no network", || !tokio.block_on(has_network(&client)));
    let lifecycle = "    lifecycle: {stopSignal: SIGUSR1}\n  os: {name: linux}\n";
    node.write("web.yaml", &(pod(&node, "web", 1) + lifecycle));
    let events = || text(&node.ask(&["events", "web-n"])).1;
    node.until("the word that there is no network", || {
        events().contains("NetworkNotReady") && events().contains("NetworkReady=false")
    });
    assert!(!events().contains("FailedCreatePodSandBox"), "{}", events());
    // It is copied, not renamed: containerd rereads the folder only when a file is written.
    std::fs::copy(&away, &network).expect("the network comes back");
    node.until_phase("web", "Running");
    assert_eq!(events().contains("StopSignalIgnored"), !knows_stop_signals, "{}", events());
    node.end_pods();
}

#[test]
fn a_pod_waits_for_the_network_of_containerd_1_6() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    waits_for_the_network(&containerd, false);
}

#[test]
fn a_pod_waits_for_the_network_of_containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    waits_for_the_network(&containerd, true);
}
