//! An implementation of the runtime traits over CRI.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use rubelet_cri::{Operation, RuntimeClient, v1};
use rubelet_model::{ContainerId, SandboxId};

use super::{CallBook, CallError, ImageStore, MOST_OUTPUT, Runtime, Target};

/// A runtime that is accessed through a CRI client. It should have its own client, so that the PLEG's requests never
/// wait for its calls.
#[derive(Clone, Debug)]
pub struct CriRuntime {
    client: RuntimeClient,
    book: CallBook,
}

impl CriRuntime {
    /// Creates a runtime that uses this client.
    #[must_use]
    pub fn new(client: RuntimeClient) -> Self {
        Self { client, book: CallBook::default() }
    }

    /// Records its calls in this book while they are waited for.
    #[must_use]
    pub fn noting(self, book: &CallBook) -> Self {
        Self { book: book.clone(), ..self }
    }

    fn begin(&self, operation: Operation, target: Target) -> impl Drop + use<> {
        self.book.begin(operation, target, Some(Duration::ZERO))
    }
}

fn pod_of(config: &v1::PodSandboxConfig) -> Target {
    let metadata = config.metadata.clone().unwrap_or_default();
    Target::Pod(format!("{}/{}", metadata.namespace, metadata.name))
}

fn thing(id: &impl ToString) -> Target {
    Target::Thing(id.to_string())
}

impl Runtime for CriRuntime {
    async fn run_sandbox(&self, config: v1::PodSandboxConfig, handler: &str) -> Result<SandboxId, CallError> {
        let _under_way = self.begin(Operation::RunPodSandbox, pod_of(&config));
        Ok(self.client.run_pod_sandbox(config, handler).await?)
    }

    async fn network_problem(&self) -> Result<Option<String>, CallError> {
        let _under_way = self.begin(Operation::Status, Target::Node);
        let conditions = self.client.status(false).await?.status.unwrap_or_default().conditions;
        Ok(conditions.iter().find_map(network_problem))
    }

    async fn sandbox_ips(&self, id: &SandboxId) -> Result<Vec<IpAddr>, CallError> {
        let _under_way = self.begin(Operation::PodSandboxStatus, thing(id));
        Ok(self.client.sandbox_status(id).await?.map(|status| status.ips).unwrap_or_default())
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::StopPodSandbox, thing(id));
        gone_is_fine(self.client.stop_pod_sandbox(id).await)
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::RemovePodSandbox, thing(id));
        gone_is_fine(self.client.remove_pod_sandbox(id).await)
    }

    async fn resize_sandbox(
        &self,
        id: &SandboxId,
        resources: v1::LinuxContainerResources,
        overhead: Option<v1::LinuxContainerResources>,
    ) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::UpdatePodSandboxResources, thing(id));
        let request = v1::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.to_string(),
            overhead,
            resources: Some(resources),
        };
        match self.client.update_pod_sandbox_resources(request).await {
            Err(error) if error.is_unimplemented() => Ok(()),
            result => Ok(result?),
        }
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<ContainerId, CallError> {
        let _under_way = self.begin(Operation::CreateContainer, pod_of(&sandbox_config));
        Ok(self.client.create_container(sandbox, config, sandbox_config).await?)
    }

    async fn stop_signal(&self, id: &ContainerId) -> Result<Option<v1::Signal>, CallError> {
        let _under_way = self.begin(Operation::ContainerStatus, thing(id));
        let status = self.client.describe_container(id, false).await?.status;
        let signal = status.map(|status| status.stop_signal());
        Ok(signal.filter(|signal| *signal != v1::Signal::RuntimeDefault))
    }

    async fn is_unstarted(&self, id: &ContainerId) -> Result<bool, CallError> {
        let _under_way = self.begin(Operation::ContainerStatus, thing(id));
        let status = self.client.describe_container(id, false).await?.status;
        Ok(status.is_some_and(|status| status.state() == v1::ContainerState::ContainerCreated))
    }

    async fn annotations(&self, id: &ContainerId) -> Result<HashMap<String, String>, CallError> {
        let _under_way = self.begin(Operation::ContainerStatus, thing(id));
        let status = self.client.describe_container(id, false).await?.status;
        Ok(status.map(|status| status.annotations).unwrap_or_default())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::StartContainer, thing(id));
        Ok(self.client.start_container(id).await?)
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CallError> {
        let _under_way = self.book.begin(Operation::StopContainer, thing(id), Some(grace));
        gone_is_fine(self.client.stop_container(id, grace).await)
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::RemoveContainer, thing(id));
        gone_is_fine(self.client.remove_container(id).await)
    }

    async fn resize_container(
        &self,
        id: &ContainerId,
        resources: v1::LinuxContainerResources,
    ) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::UpdateContainer, thing(id));
        let request = v1::UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(resources),
            ..v1::UpdateContainerResourcesRequest::default()
        };
        Ok(self.client.update_container_resources(request).await?)
    }

    async fn memory_used(&self, id: &ContainerId) -> Result<Option<u64>, CallError> {
        let _under_way = self.begin(Operation::ContainerStats, thing(id));
        let memory = self.client.container_stats(id).await?.memory;
        // Memory that the kernel can reclaim at any time does not count.
        let used = memory.and_then(|memory| memory.working_set_bytes.or(memory.usage_bytes));
        Ok(used.map(|used| used.value))
    }

    async fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<v1::ExecSyncResponse, CallError> {
        let _under_way = self.book.begin(Operation::ExecSync, thing(id), timeout);
        Ok(self.client.exec_sync_excerpt(id, command, timeout.unwrap_or_default(), MOST_OUTPUT).await?)
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::ReopenContainerLog, thing(id));
        Ok(self.client.reopen_container_log(id).await?)
    }
}

impl ImageStore for CriRuntime {
    async fn image(&self, name: &str) -> Result<Option<v1::Image>, CallError> {
        let _under_way = self.begin(Operation::ImageStatus, Target::Image(name.to_owned()));
        Ok(self.client.images().image_status(spec(name)).await?)
    }

    async fn pull(
        &self,
        name: &str,
        auth: Option<v1::AuthConfig>,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<String, CallError> {
        let _under_way = self.book.begin(Operation::PullImage, Target::Image(name.to_owned()), None);
        Ok(self.client.images().pull_image(spec(name), auth, Some(sandbox_config)).await?)
    }

    async fn images(&self) -> Result<Vec<v1::Image>, CallError> {
        let _under_way = self.begin(Operation::ListImages, Target::Node);
        Ok(self.client.images().list_images(None).await?)
    }

    async fn sandbox_image(&self) -> Result<Option<String>, CallError> {
        let _under_way = self.begin(Operation::Status, Target::Node);
        let info = self.client.status(true).await?.info;
        Ok(info.get("config").and_then(|config| sandbox_image(config)))
    }

    async fn image_folder(&self) -> Result<Option<PathBuf>, CallError> {
        let _under_way = self.begin(Operation::ImageFsInfo, Target::Node);
        let info = self.client.images().image_fs_info().await?;
        let place = info.image_filesystems.into_iter().find_map(|filesystem| filesystem.fs_id);
        Ok(place.map(|place| PathBuf::from(place.mountpoint)))
    }

    async fn remove_image(&self, id: &str) -> Result<(), CallError> {
        let _under_way = self.begin(Operation::RemoveImage, Target::Image(id.to_owned()));
        gone_is_fine(self.client.images().remove_image(spec(id)).await)
    }
}

/// Returns the sandbox image from the configuration of a containerd before 2.0. Newer ones pin it, as CRI-O does.
fn sandbox_image(config: &str) -> Option<String> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    config.get("sandboxImage")?.as_str().map(str::to_owned)
}

fn spec(image: &str) -> v1::ImageSpec {
    v1::ImageSpec { image: image.to_owned(), ..v1::ImageSpec::default() }
}

/// Returns the network problem that a condition describes, if any, in the kubelet's words.
fn network_problem(condition: &v1::RuntimeCondition) -> Option<String> {
    let v1::RuntimeCondition { r#type, status, reason, message } = condition;
    (r#type == "NetworkReady" && !status)
        .then(|| format!("NetworkReady=false reason:{reason} message:{message}"))
}

fn gone_is_fine(answer: Result<(), rubelet_cri::Error>) -> Result<(), CallError> {
    match answer {
        Err(error) if !error.is_not_found() => Err(error.into()),
        Err(_) | Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_containerd_names_its_sandbox_image() {
        let config = r#"{"containerd": {}, "sandboxImage": "registry.k8s.io/pause:3.6"}"#;
        assert_eq!(sandbox_image(config).as_deref(), Some("registry.k8s.io/pause:3.6"));
        for other in ["{}", r#"{"sandboxImage": 1}"#, "nonsense"] {
            assert_eq!(sandbox_image(other), None, "{other}");
        }
    }

    #[test]
    fn only_a_network_that_is_not_ready_is_a_problem() {
        let condition = |name: &str, status: bool| v1::RuntimeCondition {
            r#type: name.to_owned(),
            status,
            reason: "NetworkPluginNotReady".to_owned(),
            message: "cni plugin not initialized".to_owned(),
        };
        let table = [
            (condition("RuntimeReady", false), None),
            (condition("NetworkReady", true), None),
            (
                condition("NetworkReady", false),
                Some("NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"),
            ),
        ];
        for (condition, wanted) in table {
            assert_eq!(network_problem(&condition).as_deref(), wanted, "{condition:?}");
        }
    }
}
