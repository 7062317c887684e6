//! On real containerds: what a test does to them appears, with the right exit codes, across a restart.

use std::time::Duration;

use rubelet_cri::v1::{self, NamespaceMode};
use rubelet_cri::{Metrics, Options, RuntimeClient};
use rubelet_model::{ContainerId, SandboxId};
use rubelet_testbed::{BUSYBOX, Containerd, Flavor, require};

use crate::program::Watching;

/// A pod on the host network, and the means to run containers in it.
struct Pod {
    client: RuntimeClient,
    config: v1::PodSandboxConfig,
    sandbox: SandboxId,
}

fn host_namespaces() -> v1::NamespaceOption {
    v1::NamespaceOption {
        network: NamespaceMode::Node.into(),
        pid: NamespaceMode::Container.into(),
        ipc: NamespaceMode::Pod.into(),
        ..Default::default()
    }
}

impl Pod {
    async fn run(client: &RuntimeClient, name: &str) -> Self {
        let labels = [
            ("io.kubernetes.pod.uid", format!("uid-{name}")),
            ("io.kubernetes.pod.name", name.to_owned()),
            ("io.kubernetes.pod.namespace", "lab".to_owned()),
        ];
        let config = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                namespace: "lab".to_owned(),
                attempt: 0,
            }),
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            linux: Some(v1::LinuxPodSandboxConfig {
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(host_namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let sandbox = client.run_pod_sandbox(config.clone(), "").await.expect("a sandbox");
        Self { client: client.clone(), config, sandbox }
    }

    async fn start(&self, name: &str, script: &str) -> ContainerId {
        let mut labels = self.config.labels.clone();
        labels.insert("io.kubernetes.container.name".to_owned(), name.to_owned());
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: BUSYBOX.to_owned(), ..Default::default() }),
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            labels,
            linux: Some(v1::LinuxContainerConfig {
                security_context: Some(v1::LinuxContainerSecurityContext {
                    namespace_options: Some(host_namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let id =
            self.client.create_container(&self.sandbox, config, self.config.clone()).await.expect("created");
        self.client.start_container(&id).await.expect("started");
        id
    }

    async fn remove(self) {
        self.client.stop_pod_sandbox(&self.sandbox).await.expect("stopped");
        self.client.remove_pod_sandbox(&self.sandbox).await.expect("removed");
    }
}

async fn everything_appears(mut containerd: Containerd) {
    let endpoint = containerd.endpoint();
    let client =
        RuntimeClient::new(endpoint.parse().expect("an endpoint"), Options::default(), Metrics::default());
    let old = Pod::run(&client, "old").await;
    old.start("sleeper", "exec sleep 100000").await;

    let mut watching = Watching::start(&endpoint, &[]);
    watching.pod("old").await;

    let new = Pod::run(&client, "new").await;
    watching.event("ContainerStarted", "new", "").await;
    new.start("fails", "exit 3").await;
    let failed = watching.event("ContainerDied", "new", "fails").await;
    assert_eq!((&failed["exitCode"], &failed["reason"]), (&3.into(), &"Error".into()), "{failed}");
    new.start("completes", "exit 0").await;
    let completed = watching.event("ContainerDied", "new", "completes").await;
    assert_eq!(
        (&completed["exitCode"], &completed["reason"]),
        (&0.into(), &"Completed".into()),
        "{completed}"
    );
    let killed = new.start("killed", "exec sleep 100000").await;
    watching.event("ContainerStarted", "new", "killed").await;
    client.stop_container(&killed, Duration::ZERO).await.expect("stopped");
    assert_eq!(watching.event("ContainerDied", "new", "killed").await["exitCode"], 137);
    client.remove_container(&killed).await.expect("removed");
    watching.event("ContainerRemoved", "new", "killed").await;

    containerd.restart().expect("restarted");
    watching.wait_for("word of the restart", |object| object["type"] == "runtimeBack").await;
    assert!(
        watching.seen().iter().all(|object| object["pod"] != "old" || object["type"] == "pod"),
        "the restart changed nothing for a pod that runs on: {:#?}",
        watching.seen()
    );
    old.start("after", "exit 42").await;
    assert_eq!(watching.event("ContainerDied", "old", "after").await["exitCode"], 42);
    new.remove().await;
    watching.event("ContainerRemoved", "new", "").await;
    old.remove().await;
    watching.event("ContainerRemoved", "old", "").await;
    assert_eq!(watching.end().await.code(), Some(0));
}

#[tokio::test]
async fn containerd_1_6() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    everything_appears(containerd).await;
}

#[tokio::test]
async fn containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    everything_appears(containerd).await;
}
