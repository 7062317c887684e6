//! What the agent needs from a container runtime, as two narrow traits with an implementation over CRI.
//!
//! These are mostly actions: the state of pods is read from the PLEG's cache, not asked for by the code that acts.

mod book;
mod cri;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rubelet_cri::{ErrorKind, Operation, v1};
use rubelet_model::{ContainerId, SandboxId};

pub use book::{CallBook, CallUnderWay, Target};
pub use cri::CriRuntime;

/// Acts on sandboxes and containers. Stopping or removing what is already gone is not an error.
pub trait Runtime: Send + Sync + 'static {
    /// Creates and starts a sandbox.
    fn run_sandbox(
        &self,
        config: v1::PodSandboxConfig,
        handler: &str,
    ) -> impl Future<Output = Result<SandboxId, CallError>> + Send;

    /// Returns why pods currently have no network, according to the runtime; `None` if they have one, or if the runtime
    /// does not say.
    fn network_problem(&self) -> impl Future<Output = Result<Option<String>, CallError>> + Send;

    /// Returns the addresses of a sandbox that has just been created.
    fn sandbox_ips(&self, id: &SandboxId) -> impl Future<Output = Result<Vec<IpAddr>, CallError>> + Send;

    /// Stops a sandbox and everything in it.
    fn stop_sandbox(&self, id: &SandboxId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Removes a sandbox.
    fn remove_sandbox(&self, id: &SandboxId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Changes the resources of a sandbox's pod: those of its containers together, and its overhead. Not an error if
    /// the runtime does not implement it.
    fn resize_sandbox(
        &self,
        id: &SandboxId,
        resources: v1::LinuxContainerResources,
        overhead: Option<v1::LinuxContainerResources>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Creates a container in a sandbox.
    fn create_container(
        &self,
        sandbox: &SandboxId,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> impl Future<Output = Result<ContainerId, CallError>> + Send;

    /// Returns the signal that ends a container; `None` if the runtime does not say, because it was never given one
    /// that it understood.
    fn stop_signal(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<Option<v1::Signal>, CallError>> + Send;

    /// Whether a container has been created but never started, as the runtime itself knows it now (no cache does).
    fn is_unstarted(&self, id: &ContainerId) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// Returns the annotations of a container.
    fn annotations(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<HashMap<String, String>, CallError>> + Send;

    /// Starts a container.
    fn start_container(&self, id: &ContainerId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Stops a container, by force after `grace`.
    fn stop_container(
        &self,
        id: &ContainerId,
        grace: Duration,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Removes a container.
    fn remove_container(&self, id: &ContainerId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Changes the resources of a running container. Values of zero are left unchanged.
    fn resize_container(
        &self,
        id: &ContainerId,
        resources: v1::LinuxContainerResources,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Returns how much memory a container uses, in bytes, if the runtime says.
    fn memory_used(&self, id: &ContainerId) -> impl Future<Output = Result<Option<u64>, CallError>> + Send;

    /// Runs a command in a container until it ends, or until the runtime kills it after `timeout`; the failure is then
    /// [`CallFailure::Timeout`]. Returns the beginning of its output.
    fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<v1::ExecSyncResponse, CallError>> + Send;

    /// Makes the runtime reopen the log of a container.
    fn reopen_log(&self, id: &ContainerId) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// How much of the output of a command is kept.
const MOST_OUTPUT: usize = 10 << 10;

/// Returns the beginning of the output of a command.
pub(crate) fn output(answer: &v1::ExecSyncResponse) -> String {
    let bytes = answer.stdout.iter().chain(&answer.stderr).take(MOST_OUTPUT);
    String::from_utf8_lossy(&bytes.copied().collect::<Vec<u8>>()).into_owned()
}

/// A store of images.
pub trait ImageStore: Send + Sync + 'static {
    /// Returns an image, if it exists.
    fn image(&self, name: &str) -> impl Future<Output = Result<Option<v1::Image>, CallError>> + Send;

    /// Pulls an image, with these credentials if there are any, and returns the reference by which the runtime knows
    /// it.
    fn pull(
        &self,
        name: &str,
        auth: Option<v1::AuthConfig>,
        sandbox_config: v1::PodSandboxConfig,
    ) -> impl Future<Output = Result<String, CallError>> + Send;

    /// Lists all images.
    fn images(&self) -> impl Future<Output = Result<Vec<v1::Image>, CallError>> + Send;

    /// Returns the image that every sandbox is created from, if the runtime has one and says which.
    fn sandbox_image(&self) -> impl Future<Output = Result<Option<String>, CallError>> + Send;

    /// Returns where images are stored, if the runtime says.
    fn image_folder(&self) -> impl Future<Output = Result<Option<PathBuf>, CallError>> + Send;

    /// Removes an image.
    fn remove_image(&self, id: &str) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The kind of a failure, as far as it matters for how the agent reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// Nothing answers. All that can be done is wait for the runtime to come back.
    Unavailable,
    /// The runtime went away before it answered: the call may have taken effect.
    Lost,
    /// The runtime does not know the object.
    NotFound,
    /// There was no answer in time: the call may have taken effect, or still may.
    Timeout,
    /// The runtime refused, or failed.
    Refused,
}

impl CallFailure {
    /// Returns whether the runtime was unreachable or went away.
    #[must_use]
    pub fn is_absence(self) -> bool {
        matches!(self, Self::Unavailable | Self::Lost)
    }

    /// Returns whether the call may have taken effect, or still may, although this was not confirmed.
    #[must_use]
    pub fn may_have_happened(self) -> bool {
        matches!(self, Self::Timeout | Self::Lost)
    }
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CallError {
    /// The kind of failure.
    pub failure: CallFailure,
    /// The runtime's message, for people.
    pub message: Arc<str>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<rubelet_cri::Error> for CallError {
    fn from(error: rubelet_cri::Error) -> Self {
        let failure = if error.is_not_found() {
            CallFailure::NotFound
        } else if error.is_timeout() {
            CallFailure::Timeout
        } else if error.kind() == ErrorKind::ConnectionLost {
            CallFailure::Lost
        } else if error.is_unavailable() {
            CallFailure::Unavailable
        } else {
            CallFailure::Refused
        };
        // If the runtime answered, its own words are used: they are what people search for.
        let is_about_registry = error.operation() == Operation::PullImage;
        let message = match failure {
            CallFailure::Refused | CallFailure::NotFound if !error.detail().is_empty() => {
                Arc::from(error.detail())
            }
            // A runtime that cannot reach a registry reports "unavailable", which refers to the registry, not to the
            // runtime.
            CallFailure::Unavailable if is_about_registry && !error.detail().is_empty() => {
                Arc::from(error.detail())
            }
            _ => error.to_string().into(),
        };
        Self { failure, message }
    }
}
