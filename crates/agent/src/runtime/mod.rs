//! What the agent needs of a container runtime, as two narrow traits, and both over CRI.
//!
//! Only actions are here: how things are is read from the PLEG's cache, never asked for by whoever acts.

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

/// Acts on sandboxes and containers. What is gone already is no error to stop or remove.
pub trait Runtime: Send + Sync + 'static {
    /// Makes a sandbox and starts it.
    fn run_sandbox(
        &self,
        config: v1::PodSandboxConfig,
        handler: &str,
    ) -> impl Future<Output = Result<SandboxId, CallError>> + Send;

    /// Why there is no network for pods now, as the runtime tells; `None` if there is, or it does not tell.
    fn network_problem(&self) -> impl Future<Output = Result<Option<String>, CallError>> + Send;

    /// The addresses of a sandbox that was just made.
    fn sandbox_ips(&self, id: &SandboxId) -> impl Future<Output = Result<Vec<IpAddr>, CallError>> + Send;

    /// Stops a sandbox and everything in it.
    fn stop_sandbox(&self, id: &SandboxId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Removes a sandbox.
    fn remove_sandbox(&self, id: &SandboxId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Changes what the pod of a sandbox may use: its containers together, and its overhead. Not an error if the runtime does
    /// not implement it.
    fn resize_sandbox(
        &self,
        id: &SandboxId,
        resources: v1::LinuxContainerResources,
        overhead: Option<v1::LinuxContainerResources>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Makes a container in a sandbox.
    fn create_container(
        &self,
        sandbox: &SandboxId,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> impl Future<Output = Result<ContainerId, CallError>> + Send;

    /// The signal that ends a container; `None` if the runtime does not tell, because it was never asked for one that it
    /// understood.
    fn stop_signal(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<Option<v1::Signal>, CallError>> + Send;

    /// Whether a container was made and never started, as the runtime knows it now and no cache does.
    fn is_unstarted(&self, id: &ContainerId) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// What is written on a container.
    fn annotations(
        &self,
        id: &ContainerId,
    ) -> impl Future<Output = Result<HashMap<String, String>, CallError>> + Send;

    /// Starts a container.
    fn start_container(&self, id: &ContainerId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Stops a container, after `grace` by force.
    fn stop_container(
        &self,
        id: &ContainerId,
        grace: Duration,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Removes a container.
    fn remove_container(&self, id: &ContainerId) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Changes what a container that runs may use. What is zero stays as it is.
    fn resize_container(
        &self,
        id: &ContainerId,
        resources: v1::LinuxContainerResources,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// How much memory a container uses, in bytes, if the runtime tells.
    fn memory_used(&self, id: &ContainerId) -> impl Future<Output = Result<Option<u64>, CallError>> + Send;

    /// Runs a command in a container, for as long as it takes, or until the runtime kills it after `timeout`: then the
    /// failure is [`CallFailure::Timeout`]. Of what it says, the beginning comes back.
    fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<v1::ExecSyncResponse, CallError>> + Send;

    /// Has the runtime open the log of a container anew.
    fn reopen_log(&self, id: &ContainerId) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// So much is kept of what a command says.
const MOST_OUTPUT: usize = 10 << 10;

/// The beginning of what a command said.
pub(crate) fn output(answer: &v1::ExecSyncResponse) -> String {
    let bytes = answer.stdout.iter().chain(&answer.stderr).take(MOST_OUTPUT);
    String::from_utf8_lossy(&bytes.copied().collect::<Vec<u8>>()).into_owned()
}

/// Keeps images.
pub trait ImageStore: Send + Sync + 'static {
    /// An image, if it is there.
    fn image(&self, name: &str) -> impl Future<Output = Result<Option<v1::Image>, CallError>> + Send;

    /// Fetches an image, with these credentials if there are any, and gives the reference by which the runtime knows it.
    fn pull(
        &self,
        name: &str,
        auth: Option<v1::AuthConfig>,
        sandbox_config: v1::PodSandboxConfig,
    ) -> impl Future<Output = Result<String, CallError>> + Send;

    /// Every image.
    fn images(&self) -> impl Future<Output = Result<Vec<v1::Image>, CallError>> + Send;

    /// The image that every sandbox is made from, if the runtime has one and says which.
    fn sandbox_image(&self) -> impl Future<Output = Result<Option<String>, CallError>> + Send;

    /// Where images are kept, if the runtime tells.
    fn image_folder(&self) -> impl Future<Output = Result<Option<PathBuf>, CallError>> + Send;

    /// Removes an image.
    fn remove_image(&self, id: &str) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// What kind of failure it was, as far as the agent acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// Nobody answers. Waiting for the runtime to come back is all there is to do.
    Unavailable,
    /// The runtime went away before it answered: it may have happened.
    Lost,
    /// The runtime does not know the thing.
    NotFound,
    /// No answer in time: it may have happened, or may happen yet.
    Timeout,
    /// The runtime refused, or failed.
    Refused,
}

impl CallFailure {
    /// Whether the runtime was not there, or is no longer.
    #[must_use]
    pub fn is_absence(self) -> bool {
        matches!(self, Self::Unavailable | Self::Lost)
    }

    /// Whether what was asked for may have been done, or may be done yet, though nobody said so.
    #[must_use]
    pub fn may_have_happened(self) -> bool {
        matches!(self, Self::Timeout | Self::Lost)
    }
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CallError {
    /// What kind of failure.
    pub failure: CallFailure,
    /// What the runtime said, for people.
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
        // The runtime's own words, where it answered: they are what people search for.
        let is_about_registry = error.operation() == Operation::PullImage;
        let message = match failure {
            CallFailure::Refused | CallFailure::NotFound if !error.detail().is_empty() => {
                Arc::from(error.detail())
            }
            // A runtime that cannot reach a registry says "unavailable" of the registry, not of itself.
            CallFailure::Unavailable if is_about_registry && !error.detail().is_empty() => {
                Arc::from(error.detail())
            }
            _ => error.to_string().into(),
        };
        Self { failure, message }
    }
}
