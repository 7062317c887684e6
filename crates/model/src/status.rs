//! The inspected view: what the runtime's status calls tell about one pod.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ContainerId, ContainerState, PodRef, SandboxId, SandboxState, UnixNanos};

/// Everything that one inspection of a pod found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStatus {
    /// Which pod.
    pub pod: PodRef,
    /// Its addresses, those of the newest sandbox. They outlive the sandbox's readiness, so that a pod that
    /// stops still says where it was.
    pub ips: Vec<IpAddr>,
    /// Its sandboxes, newest first.
    pub sandboxes: Vec<SandboxStatus>,
    /// Its containers, newest first.
    pub containers: Vec<ContainerStatus>,
}

impl PodStatus {
    /// The status of a pod that the runtime does not know.
    #[must_use]
    pub fn unknown_to_runtime(uid: impl Into<crate::PodUid>) -> Self {
        Self { pod: PodRef::new(uid, "", ""), ips: Vec::new(), sandboxes: Vec::new(), containers: Vec::new() }
    }

    /// The sandbox that new containers belong to: the newest one, if it is ready.
    #[must_use]
    pub fn active_sandbox(&self) -> Option<&SandboxStatus> {
        self.sandboxes.first().filter(|sandbox| sandbox.state == SandboxState::Ready)
    }

    /// The containers of the active sandbox, newest first.
    pub fn active_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        let active = self.active_sandbox().map(|sandbox| &sandbox.id);
        self.containers.iter().filter(move |container| Some(&container.sandbox) == active)
    }

    /// One of its containers.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> Option<&ContainerStatus> {
        self.containers.iter().find(|container| container.id == *id)
    }

    /// One of its sandboxes.
    #[must_use]
    pub fn sandbox(&self, id: &SandboxId) -> Option<&SandboxStatus> {
        self.sandboxes.iter().find(|sandbox| sandbox.id == *id)
    }
}

/// An inspected sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxStatus {
    /// Its id.
    pub id: SandboxId,
    /// How many sandboxes this pod had before it.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When the runtime made it.
    pub created_at: UnixNanos,
    /// Its addresses; empty on the host network.
    pub ips: Vec<IpAddr>,
    /// The runtime handler that runs it; empty for the default one.
    pub runtime_handler: Arc<str>,
}

/// An inspected container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// Its id.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: Arc<str>,
    /// The sandbox it belongs to.
    pub sandbox: SandboxId,
    /// How many containers of this name the pod had before it.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: UnixNanos,
    /// When its process started.
    pub started_at: UnixNanos,
    /// When its process ended.
    pub finished_at: UnixNanos,
    /// The exit code of its process. Means something only once it has exited.
    pub exit_code: i32,
    /// Why it is in this state, in the runtime's word (`Completed`, `Error`, `OOMKilled`, …).
    pub reason: Arc<str>,
    /// What the runtime has to say on top; often empty.
    pub message: Arc<str>,
    /// The image that was asked for.
    pub image: Arc<str>,
    /// The image that was found for it.
    pub image_ref: Arc<str>,
    /// Where its log is; empty when it has none.
    pub log_path: Arc<str>,
    /// The kubelet's hash of the container spec, if it was made by a kubelet or by us.
    pub hash: Option<u64>,
    /// How many times the kubelet, or we, started it again.
    pub restart_count: u32,
}

impl ContainerStatus {
    /// Whether the kernel killed it for want of memory.
    #[must_use]
    pub fn is_oom_killed(&self) -> bool {
        &*self.reason == "OOMKilled"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(newest: SandboxState) -> PodStatus {
        let sandbox = |id: &str, attempt, state| SandboxStatus {
            id: id.into(),
            attempt,
            state,
            created_at: UnixNanos(1),
            ips: Vec::new(),
            runtime_handler: "".into(),
        };
        let container = |id: &str, sandbox: &str| ContainerStatus {
            id: id.into(),
            name: id.into(),
            sandbox: sandbox.into(),
            attempt: 0,
            state: ContainerState::Running,
            created_at: UnixNanos(1),
            started_at: UnixNanos(2),
            finished_at: UnixNanos(0),
            exit_code: 0,
            reason: "".into(),
            message: "".into(),
            image: "".into(),
            image_ref: "".into(),
            log_path: "".into(),
            hash: None,
            restart_count: 0,
        };
        PodStatus {
            pod: PodRef::new("u", "ns", "p"),
            ips: Vec::new(),
            sandboxes: vec![sandbox("new", 1, newest), sandbox("old", 0, SandboxState::Ready)],
            containers: vec![container("a", "new"), container("b", "old")],
        }
    }

    #[test]
    fn active_containers_are_those_of_the_newest_sandbox_while_it_is_ready() {
        let ready = status(SandboxState::Ready);
        assert_eq!(ready.active_containers().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["a"]);
        let stopped = status(SandboxState::NotReady);
        assert_eq!(stopped.active_containers().count(), 0, "an older sandbox never becomes the active one");
    }
}
