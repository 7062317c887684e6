//! Pods on a real runtime.

use anyhow::Result;
use rubelet_cri::{Endpoint, Metrics, Options, RuntimeClient, v1};
use rubelet_model::{ContainerId, SandboxId};

use super::super::request::namespaces;

/// A runtime, and an image that is present on it.
#[derive(Clone, Debug)]
pub(in super::super) struct Node {
    pub(in super::super) name: &'static str,
    endpoint: Endpoint,
    image: &'static str,
}

impl Node {
    pub(in super::super) fn new(name: &'static str, endpoint: &str, image: &'static str) -> Result<Self> {
        Ok(Self { name, endpoint: endpoint.parse()?, image })
    }

    /// Opens a connection of its own.
    pub(in super::super) fn client(&self) -> RuntimeClient {
        RuntimeClient::new(self.endpoint.clone(), Options::default(), Metrics::default())
    }

    pub(in super::super) fn image(&self) -> &'static str {
        self.image
    }

    pub(in super::super) fn endpoint(&self) -> String {
        self.endpoint.to_string()
    }

    pub(in super::super) async fn run_pod(&self, client: &RuntimeClient, name: &str) -> Result<Pod> {
        let uid = format!("uid-{name}");
        let labels = [
            ("io.kubernetes.pod.uid", uid.as_str()),
            ("io.kubernetes.pod.name", name),
            ("io.kubernetes.pod.namespace", "bench"),
        ];
        let config = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: name.to_owned(),
                uid: uid.clone(),
                namespace: "bench".to_owned(),
                attempt: 0,
            }),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            linux: Some(v1::LinuxPodSandboxConfig {
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let sandbox = client.run_pod_sandbox(config.clone(), "").await?;
        Ok(Pod { config, sandbox, image: self.image })
    }
}

pub(in super::super) struct Pod {
    config: v1::PodSandboxConfig,
    sandbox: SandboxId,
    image: &'static str,
}

impl Pod {
    /// Starts a container that does nothing until it is killed.
    pub(in super::super) async fn start_sleeper(
        &self,
        client: &RuntimeClient,
        name: &str,
    ) -> Result<ContainerId> {
        let mut labels = self.config.labels.clone();
        labels.insert("io.kubernetes.container.name".to_owned(), name.to_owned());
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: self.image.to_owned(), ..Default::default() }),
            command: ["/bin/sh", "-c", "exec sleep 1000000"].map(str::to_owned).to_vec(),
            labels,
            linux: Some(v1::LinuxContainerConfig {
                security_context: Some(v1::LinuxContainerSecurityContext {
                    namespace_options: Some(namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let id = client.create_container(&self.sandbox, config, self.config.clone()).await?;
        client.start_container(&id).await?;
        Ok(id)
    }

    pub(in super::super) async fn remove(self, client: &RuntimeClient) -> Result<()> {
        client.stop_pod_sandbox(&self.sandbox).await?;
        client.remove_pod_sandbox(&self.sandbox).await?;
        Ok(())
    }
}
