//! The list view: what the runtime's two list calls report about a pod.

use std::cmp::Reverse;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ContainerId, ContainerState, PodRef, SandboxId, SandboxState, UnixNanos};

/// A sandbox in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSandbox {
    /// Its id.
    pub id: SandboxId,
    /// How many sandboxes the pod had before this one.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When the runtime created it.
    pub created_at: UnixNanos,
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedContainer {
    /// Its id.
    pub id: ContainerId,
    /// Its name in the pod; empty if the runtime was not given one.
    pub name: Arc<str>,
    /// The sandbox it belongs to.
    pub sandbox: SandboxId,
    /// How many containers of this name the pod had before this one.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When the runtime created it.
    pub created_at: UnixNanos,
}

/// A pod in a list, with every sandbox and container of it that the runtime still knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimePod {
    /// Which pod.
    pub pod: PodRef,
    /// Whether a list filtered by the pod's UID label finds all of it. Pods created by hand often lack the label; only
    /// a full list shows them.
    pub selectable: bool,
    /// Its sandboxes, newest first once [sorted](Self::sort).
    pub sandboxes: Vec<ListedSandbox>,
    /// Its containers, newest first once [sorted](Self::sort).
    pub containers: Vec<ListedContainer>,
}

impl RuntimePod {
    /// Creates a pod without sandboxes and containers.
    #[must_use]
    pub fn empty(pod: PodRef) -> Self {
        Self { pod, selectable: true, sandboxes: Vec::new(), containers: Vec::new() }
    }

    /// Whether it has neither sandboxes nor containers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// Sorts sandboxes and containers, so that the order in which they arrived does not matter: sandboxes by attempt,
    /// then by creation time, newest first; containers by creation time, newest first; ties by id.
    pub fn sort(&mut self) {
        self.sandboxes.sort_by(|a, b| {
            (Reverse(a.attempt), Reverse(a.created_at), &a.id).cmp(&(
                Reverse(b.attempt),
                Reverse(b.created_at),
                &b.id,
            ))
        });
        self.containers.sort_by(|a, b| (Reverse(a.created_at), &a.id).cmp(&(Reverse(b.created_at), &b.id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(id: &str, attempt: u32, created_at: i64) -> ListedSandbox {
        ListedSandbox {
            id: id.into(),
            attempt,
            state: SandboxState::Ready,
            created_at: UnixNanos(created_at),
        }
    }

    #[test]
    fn sandboxes_are_sorted_by_attempt_then_age_then_id() {
        let mut pod = RuntimePod::empty(PodRef::new("u", "ns", "p"));
        pod.sandboxes = vec![
            sandbox("tie-b", 0, 7),
            sandbox("tie-a", 0, 7),
            sandbox("old-attempt-made-late", 1, 99),
            sandbox("newest", 2, 1),
            sandbox("younger", 1, 100),
        ];
        pod.sort();
        let order: Vec<&str> = pod.sandboxes.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(order, ["newest", "younger", "old-attempt-made-late", "tie-a", "tie-b"]);
    }

    #[test]
    fn containers_are_sorted_by_age_then_id_even_with_garbage_times() {
        let mut pod = RuntimePod::empty(PodRef::new("u", "ns", "p"));
        let container = |id: &str, created_at: i64| ListedContainer {
            id: id.into(),
            name: "c".into(),
            sandbox: "s".into(),
            attempt: 0,
            state: ContainerState::Running,
            created_at: UnixNanos(created_at),
        };
        pod.containers = vec![container("year-1754", i64::MIN + 1), container("b", 5), container("a", 5)];
        pod.sort();
        let order: Vec<&str> = pod.containers.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(order, ["a", "b", "year-1754"]);
    }
}
