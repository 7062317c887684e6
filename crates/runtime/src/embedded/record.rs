//! What is recorded about a sandbox and a container when they are created, besides the request itself.

use serde::{Deserialize, Serialize};

use super::state::SandboxState;
use super::user::User;

/// A pod sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) id: String,
    /// Wall clock time in nanoseconds.
    pub(crate) created_at: i64,
    pub(crate) state: SandboxState,
    /// The addresses of the pod; none on the host's network or with loopback only.
    pub(crate) ips: Vec<String>,
    /// The control group that contains the containers' groups.
    pub(crate) cgroup: String,
    /// The namespaces that mounts in its folder hold.
    pub(crate) held: Held,
    /// The process that holds the pod's process namespace.
    pub(crate) pause: Option<i32>,
}

/// The namespaces that are held for a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) network: bool,
    pub(crate) ipc: bool,
    pub(crate) uts: bool,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) id: String,
    pub(crate) sandbox: String,
    /// Wall clock time in nanoseconds.
    pub(crate) created_at: i64,
    /// `sha256:…` of the image's configuration.
    pub(crate) image_id: String,
    /// The image's first name, if it has one.
    #[serde(default)]
    pub(crate) image_tag: Option<String>,
    /// The image as a digest reference, if it has one.
    pub(crate) image_ref: String,
    pub(crate) user: User,
    pub(crate) stop_signal: i32,
    /// Absolute; empty if no log is kept.
    pub(crate) log_path: String,
    pub(crate) cgroup: String,
}
