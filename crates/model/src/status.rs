//! The inspected view: what the runtime's status calls report about one pod.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ContainerId, ContainerState, PodRef, SandboxId, SandboxState, UnixNanos};

/// Everything that one inspection of a pod found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStatus {
    /// Which pod.
    pub pod: PodRef,
    /// The addresses of its newest sandbox. They are kept when the sandbox is no longer ready, so that a pod that is
    /// stopping still shows where it was.
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

    /// The sandbox to which new containers belong: the newest one, provided it is ready.
    #[must_use]
    pub fn active_sandbox(&self) -> Option<&SandboxStatus> {
        self.sandboxes.first().filter(|sandbox| sandbox.state == SandboxState::Ready)
    }

    /// The containers of the active sandbox, newest first.
    pub fn active_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        let active = self.active_sandbox().map(|sandbox| &sandbox.id);
        self.containers.iter().filter(move |container| Some(&container.sandbox) == active)
    }

    /// The container with this id.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> Option<&ContainerStatus> {
        self.containers.iter().find(|container| container.id == *id)
    }

    /// The newest instance of a container. The attempt decides before the creation time: clocks jump, attempts only
    /// grow.
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

    /// All instances of a container, in no particular order.
    pub fn instances(&self, name: &str) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(move |container| *container.name == *name)
    }

    /// The sandbox with this id.
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
    /// How many sandboxes the pod had before this one.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When the runtime created it.
    pub created_at: UnixNanos,
    /// Its addresses; empty on the host's network.
    pub ips: Vec<IpAddr>,
    /// Whether the runtime reports a network that should provide addresses; false if pods get loopback only.
    #[serde(default)]
    pub has_network: bool,
    /// Whether it is on the host's network; `None` if the runtime does not report it.
    #[serde(default)]
    pub is_on_host_network: Option<bool>,
    /// Whether it has a user namespace of its own; `None` if the runtime does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_own_users: Option<bool>,
    /// The runtime handler that runs it; empty for the default handler.
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
    /// How many containers of this name the pod had before this one.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When the runtime created it.
    pub created_at: UnixNanos,
    /// When its process started.
    pub started_at: UnixNanos,
    /// When its process ended.
    pub finished_at: UnixNanos,
    /// The exit code of its process. Meaningful only once the container has exited.
    pub exit_code: i32,
    /// Why it is in this state, in the runtime's words (`Completed`, `Error`, `OOMKilled`, …).
    pub reason: Arc<str>,
    /// More about the reason, from the runtime; often empty.
    pub message: Arc<str>,
    /// The image that was requested.
    pub image: Arc<str>,
    /// The image that the request resolved to.
    pub image_ref: Arc<str>,
    /// The path of its log; empty if it has none.
    pub log_path: Arc<str>,
    /// The kubelet's hash of the container spec; `None` if neither a kubelet nor rubelet created the container.
    pub hash: Option<u64>,
    /// How many times the kubelet or rubelet has restarted it.
    pub restart_count: u32,
    /// The user that its process runs as; `None` if the runtime does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<ContainerUser>,
}

/// The user and groups that a process runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerUser {
    /// The user id.
    pub uid: i64,
    /// The id of the primary group.
    pub gid: i64,
    /// The ids of the supplementary groups.
    pub supplemental_groups: Vec<i64>,
}

impl ContainerStatus {
    /// The key that orders the instances of a container: the newest has the greatest.
    #[must_use]
    pub fn seniority(&self) -> (u32, UnixNanos) {
        (self.attempt, self.created_at)
    }

    /// The reason of a container that the kernel killed because memory ran out.
    pub const OOM_KILLED: &str = "OOMKilled";

    /// Whether the kernel killed it because memory ran out.
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
