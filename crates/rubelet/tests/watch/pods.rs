//! Pods on a real runtime, created as an agent would create them.

use std::collections::HashMap;

use rubelet_cri::v1::{self, NamespaceMode};
use rubelet_cri::{Metrics, Options, RuntimeClient};
use rubelet_model::{ContainerId, SandboxId};
use rubelet_testbed::BUSYBOX;

pub(crate) fn client_of(endpoint: &str) -> RuntimeClient {
    RuntimeClient::new(endpoint.parse().expect("an endpoint"), Options::default(), Metrics::default())
}

/// A pod on the host network, and the means to run containers in it.
pub(crate) struct Pod {
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
    pub(crate) async fn run(client: &RuntimeClient, name: &str) -> Self {
        Self::annotated(client, name, HashMap::new()).await
    }

    pub(crate) async fn annotated(
        client: &RuntimeClient,
        name: &str,
        annotations: HashMap<String, String>,
    ) -> Self {
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
            annotations,
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

    pub(crate) async fn start(&self, name: &str, script: &str) -> ContainerId {
        let id = self.create(name, &["/bin/sh", "-c", script], &[]).await;
        self.client.start_container(&id).await.expect("started");
        id
    }

    pub(crate) async fn create(
        &self,
        name: &str,
        command: &[&str],
        environment: &[(&str, &str)],
    ) -> ContainerId {
        let mut labels = self.config.labels.clone();
        labels.insert("io.kubernetes.container.name".to_owned(), name.to_owned());
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: BUSYBOX.to_owned(), ..Default::default() }),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            envs: environment
                .iter()
                .map(|(key, value)| v1::KeyValue { key: (*key).to_owned(), value: value.as_bytes().to_vec() })
                .collect(),
            annotations: self.config.annotations.clone(),
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
        self.client.create_container(&self.sandbox, config, self.config.clone()).await.expect("created")
    }

    pub(crate) async fn remove(self) {
        self.client.stop_pod_sandbox(&self.sandbox).await.expect("stopped");
        self.client.remove_pod_sandbox(&self.sandbox).await.expect("removed");
    }
}
