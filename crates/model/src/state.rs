//! The states of containers and sandboxes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a container, under the kubelet's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    /// Created, but never started.
    Created,
    /// Its process is running.
    Running,
    /// Its process has ended, or could not be started.
    Exited,
    /// The runtime does not know, or reported a state that we do not understand.
    Unknown,
}

impl ContainerState {
    /// All states, in declaration order.
    pub const ALL: [Self; 4] = [Self::Created, Self::Running, Self::Exited, Self::Unknown];

    /// The kubelet's word for the state, which is also the value of the metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ContainerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The state of a pod sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// It can hold running containers.
    Ready,
    /// Its process has ended, or it was stopped. Its network may not have been released yet.
    NotReady,
    /// The runtime reported a state that we do not understand.
    Unknown,
}

impl SandboxState {
    /// The word for the state in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotReady => "notready",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
