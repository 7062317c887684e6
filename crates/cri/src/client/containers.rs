//! Calls that change or describe a container.

use std::time::Duration;

use rubelet_model::{ContainerId, SandboxId};

use super::{NO_TIME, RuntimeClient, method};
use crate::options::whole_seconds;
use crate::{Error, Operation, v1};

impl RuntimeClient {
    /// Creates a container in a sandbox. `sandbox_config` is the configuration that the sandbox was created with.
    pub async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<ContainerId, Error> {
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_string(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let answer: v1::CreateContainerResponse =
            self.0.unary(Operation::CreateContainer, method!("CreateContainer"), NO_TIME, &request).await?;
        if answer.container_id.is_empty() {
            return Err(self.missing(Operation::CreateContainer, "container_id"));
        }
        Ok(answer.container_id.into())
    }

    /// Starts a container.
    pub async fn start_container(&self, id: &ContainerId) -> Result<(), Error> {
        let request = v1::StartContainerRequest { container_id: id.to_string() };
        let _: v1::StartContainerResponse =
            self.0.unary(Operation::StartContainer, method!("StartContainer"), NO_TIME, &request).await?;
        Ok(())
    }

    /// Stops a container: sends its stop signal, and kills it after `grace`, in whole seconds rounded up. A `grace` of
    /// zero kills it at once. It is no error if the container is gone or has already stopped.
    pub async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), Error> {
        let request =
            v1::StopContainerRequest { container_id: id.to_string(), timeout: whole_seconds(grace) };
        let _: v1::StopContainerResponse =
            self.0.unary(Operation::StopContainer, method!("StopContainer"), grace, &request).await?;
        Ok(())
    }

    /// Removes a container, by force if it is running. It is no error if the container is gone.
    pub async fn remove_container(&self, id: &ContainerId) -> Result<(), Error> {
        let request = v1::RemoveContainerRequest { container_id: id.to_string() };
        let _: v1::RemoveContainerResponse =
            self.0.unary(Operation::RemoveContainer, method!("RemoveContainer"), NO_TIME, &request).await?;
        Ok(())
    }

    /// Returns everything that the runtime reports about a container, unconverted. For the state of a container,
    /// [`RuntimeClient::container_status`] is enough.
    pub async fn describe_container(
        &self,
        id: &ContainerId,
        verbose: bool,
    ) -> Result<v1::ContainerStatusResponse, Error> {
        let request = v1::ContainerStatusRequest { container_id: id.to_string(), verbose };
        self.0.unary(Operation::ContainerStatus, method!("ContainerStatus"), NO_TIME, &request).await
    }

    /// Returns the containers that match the filter, with all their labels and annotations, in one answer.
    /// [`RuntimeClient::list_containers`] is much cheaper and copes with any number.
    pub async fn describe_containers(
        &self,
        filter: Option<v1::ContainerFilter>,
    ) -> Result<Vec<v1::Container>, Error> {
        let request = v1::ListContainersRequest { filter };
        let answer: v1::ListContainersResponse =
            self.0.unary(Operation::ListContainers, method!("ListContainers"), NO_TIME, &request).await?;
        Ok(answer.containers)
    }

    /// Changes the resources that a container may use.
    pub async fn update_container_resources(
        &self,
        request: v1::UpdateContainerResourcesRequest,
    ) -> Result<(), Error> {
        let path = method!("UpdateContainerResources");
        let _: v1::UpdateContainerResourcesResponse =
            self.0.unary(Operation::UpdateContainer, path, NO_TIME, &request).await?;
        Ok(())
    }

    /// Makes the runtime reopen the log of a container, after the file was moved away.
    pub async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), Error> {
        let request = v1::ReopenContainerLogRequest { container_id: id.to_string() };
        let path = method!("ReopenContainerLog");
        let _: v1::ReopenContainerLogResponse =
            self.0.unary(Operation::ReopenContainerLog, path, NO_TIME, &request).await?;
        Ok(())
    }

    /// Saves a running container to the archive at `location`. The runtime gets `timeout` to do so, in whole seconds
    /// rounded up; a `timeout` of zero leaves it to the runtime.
    pub async fn checkpoint_container(
        &self,
        id: &ContainerId,
        location: &str,
        timeout: Duration,
    ) -> Result<(), Error> {
        let request = v1::CheckpointContainerRequest {
            container_id: id.to_string(),
            location: location.to_owned(),
            timeout: whole_seconds(timeout),
        };
        let path = method!("CheckpointContainer");
        let _: v1::CheckpointContainerResponse =
            self.0.unary(Operation::CheckpointContainer, path, timeout, &request).await?;
        Ok(())
    }
}
