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

    /// The newest instance of a container. By attempt first: clocks jump, attempts only grow.
    #[must_use]
    pub fn newest(&self, name: &str) -> Option<&ContainerStatus> {
        self.instances(name).max_by_key(|instance| instance.seniority())
    }

    /// The newest instance of a container, and the one before it.
    #[must_use]
    pub fn newest_two(&self, name: &str) -> (Option<&ContainerStatus>, Option<&ContainerStatus>) {
        let newest = self.newest(name);
        let others =
            self.instances(name).filter(|instance| newest.is_some_and(|newest| newest.id != instance.id));
        (newest, others.max_by_key(|instance| instance.seniority()))
    }

    /// All instances of a container, in no order.
    pub fn instances(&self, name: &str) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(move |container| *container.name == *name)
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
    /// Whether the runtime tells of a network that should give it addresses. One that gives pods loopback only does not.
    #[serde(default)]
    pub has_network: bool,
    /// Whether it is on the host's network; nothing if the runtime does not tell.
    #[serde(default)]
    pub is_on_host_network: Option<bool>,
    /// Whether it has users of its own; nothing if the runtime does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_own_users: Option<bool>,
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
    /// Who its process runs as, if the runtime tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<ContainerUser>,
}

/// Who a process runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerUser {
    /// The user.
    pub uid: i64,
    /// Its first group.
    pub gid: i64,
    /// All the others.
    pub supplemental_groups: Vec<i64>,
}

impl ContainerStatus {
    /// By which the instances of a container are told apart: the newest has the highest.
    #[must_use]
    pub fn seniority(&self) -> (u32, UnixNanos) {
        (self.attempt, self.created_at)
    }

    /// The reason of a container that ended for want of memory.
    pub const OOM_KILLED: &str = "OOMKilled";

    /// Whether the kernel killed it for want of memory.
    #[must_use]
    pub fn is_oom_killed(&self) -> bool {
        &*self.reason == Self::OOM_KILLED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ListedContainer, ListedSandbox, RuntimePod};

    fn status(newest: SandboxState) -> PodStatus {
        let sandbox = |id: &str, attempt, state| ListedSandbox {
            id: id.into(),
            attempt,
            state,
            created_at: UnixNanos(1),
        };
        let container = |id: &str, sandbox: &str| ListedContainer {
            id: id.into(),
            name: id.into(),
            sandbox: sandbox.into(),
            attempt: 0,
            state: ContainerState::Running,
            created_at: UnixNanos(1),
        };
        let mut pod = RuntimePod::empty(PodRef::new("u", "ns", "p"));
        pod.sandboxes = vec![sandbox("new", 1, newest), sandbox("old", 0, SandboxState::Ready)];
        pod.containers = vec![container("a", "new"), container("b", "old")];
        PodStatus::from(&pod)
    }

    #[test]
    fn the_newest_instance_has_the_highest_attempt_whatever_the_clock_says() {
        let mut status = status(SandboxState::Ready);
        let template = status.containers[0].clone();
        let instance = |id: &str, attempt, created| ContainerStatus {
            id: id.into(),
            name: "web".into(),
            attempt,
            created_at: UnixNanos(created),
            ..template.clone()
        };
        status.containers.extend([
            instance("first", 0, 900),
            instance("third", 2, 5),
            instance("second", 1, 7),
            instance("third-again", 2, 6),
        ]);
        let id = |instance: Option<&ContainerStatus>| instance.map(|instance| instance.id.to_string());
        assert_eq!(id(status.newest("web")).as_deref(), Some("third-again"));
        let (newest, before) = status.newest_two("web");
        assert_eq!((id(newest).as_deref(), id(before).as_deref()), (Some("third-again"), Some("third")));
        let (only, none) = status.newest_two("a");
        assert_eq!((id(only).as_deref(), none), (Some("a"), None));
        assert_eq!(status.newest_two("no such"), (None, None));
    }

    #[test]
    fn active_containers_are_those_of_the_newest_sandbox_while_it_is_ready() {
        let ready = status(SandboxState::Ready);
        assert_eq!(ready.active_containers().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["a"]);
        let stopped = status(SandboxState::NotReady);
        assert_eq!(stopped.active_containers().count(), 0, "an older sandbox never becomes the active one");
    }
}
