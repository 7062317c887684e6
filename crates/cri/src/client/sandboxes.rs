//! Calls that change or describe a sandbox.

use rubelet_model::SandboxId;
use tokio::time::Instant;

use super::{NO_TIME, RuntimeClient, method};
use crate::{Error, ErrorKind, Operation, v1};

impl RuntimeClient {
    /// Creates and starts a sandbox. An empty `runtime_handler` means the default handler.
    pub async fn run_pod_sandbox(
        &self,
        config: v1::PodSandboxConfig,
        runtime_handler: &str,
    ) -> Result<SandboxId, Error> {
        let request =
            v1::RunPodSandboxRequest { config: Some(config), runtime_handler: runtime_handler.to_owned() };
        let start = Instant::now();
        let answer: Result<v1::RunPodSandboxResponse, Error> =
            self.0.unary(Operation::RunPodSandbox, method!("RunPodSandbox"), NO_TIME, &request).await;
        let id = answer.and_then(|answer| {
            let is_missing = answer.pod_sandbox_id.is_empty();
            if is_missing {
                Err(self.missing(Operation::RunPodSandbox, "pod_sandbox_id"))
            } else {
                Ok(answer.pod_sandbox_id.into())
            }
        });
        self.0.metrics().sandbox_run(runtime_handler, start.elapsed(), id.is_err());
        id
    }

    /// Stops a sandbox: kills what is running in it, and releases its network. It is no error if the sandbox is gone.
    pub async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let request = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        let _: v1::StopPodSandboxResponse =
            self.0.unary(Operation::StopPodSandbox, method!("StopPodSandbox"), NO_TIME, &request).await?;
        Ok(())
    }

    /// Removes a sandbox and its containers, by force if they are running. It is no error if the sandbox is gone.
    pub async fn remove_pod_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let request = v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        let path = method!("RemovePodSandbox");
        let _: v1::RemovePodSandboxResponse =
            self.0.unary(Operation::RemovePodSandbox, path, NO_TIME, &request).await?;
        Ok(())
    }

    /// Returns everything that the runtime reports about a sandbox, unconverted. For the state of a sandbox,
    /// [`RuntimeClient::sandbox_status`] is enough.
    pub async fn describe_sandbox(
        &self,
        id: &SandboxId,
        verbose: bool,
    ) -> Result<v1::PodSandboxStatusResponse, Error> {
        let request = v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose };
        self.0.unary(Operation::PodSandboxStatus, method!("PodSandboxStatus"), NO_TIME, &request).await
    }

    /// Returns the sandboxes that match the filter, with all their labels and annotations, in one answer.
    /// [`RuntimeClient::list_sandboxes`] is much cheaper and copes with any number.
    pub async fn describe_sandboxes(
        &self,
        filter: Option<v1::PodSandboxFilter>,
    ) -> Result<Vec<v1::PodSandbox>, Error> {
        let request = v1::ListPodSandboxRequest { filter };
        let answer: v1::ListPodSandboxResponse =
            self.0.unary(Operation::ListPodSandbox, method!("ListPodSandbox"), NO_TIME, &request).await?;
        Ok(answer.items)
    }

    /// Changes the resources that a sandbox may use.
    pub async fn update_pod_sandbox_resources(
        &self,
        request: v1::UpdatePodSandboxResourcesRequest,
    ) -> Result<(), Error> {
        let path = method!("UpdatePodSandboxResources");
        let _: v1::UpdatePodSandboxResourcesResponse =
            self.0.unary(Operation::UpdatePodSandboxResources, path, NO_TIME, &request).await?;
        Ok(())
    }

    /// Prepares to forward ports into a sandbox. Returns a URL of the runtime's streaming server, which can be used
    /// once.
    pub async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> Result<String, Error> {
        let port = ports.iter().copied().map(i32::from).collect();
        let request = v1::PortForwardRequest { pod_sandbox_id: id.to_string(), port };
        let answer: v1::PortForwardResponse =
            self.0.unary(Operation::PortForward, method!("PortForward"), NO_TIME, &request).await?;
        Ok(answer.url)
    }

    /// The error for an answer that lacks a required field.
    pub(super) fn missing(&self, operation: Operation, field: &'static str) -> Error {
        Error::new(operation, ErrorKind::Invalid(field), self.endpoint(), "missing")
    }
}
