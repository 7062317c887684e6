//! The inspected view that a list view alone leads to: the start of a status in a fake or a test.
//!
//! What a list does not tell is empty, as of a runtime that does not tell it.

use crate::{
    ContainerStatus, ListedContainer, ListedSandbox, PodStatus, RuntimePod, SandboxStatus, UnixNanos,
};

impl From<&ListedSandbox> for SandboxStatus {
    fn from(listed: &ListedSandbox) -> Self {
        Self {
            id: listed.id.clone(),
            attempt: listed.attempt,
            state: listed.state,
            created_at: listed.created_at,
            ips: Vec::new(),
            has_network: false,
            is_on_host_network: None,
            has_own_users: None,
            runtime_handler: "".into(),
        }
    }
}

impl From<&ListedContainer> for ContainerStatus {
    fn from(listed: &ListedContainer) -> Self {
        Self {
            id: listed.id.clone(),
            name: listed.name.clone(),
            sandbox: listed.sandbox.clone(),
            attempt: listed.attempt,
            state: listed.state,
            created_at: listed.created_at,
            started_at: UnixNanos(0),
            finished_at: UnixNanos(0),
            exit_code: 0,
            reason: "".into(),
            message: "".into(),
            image: "".into(),
            image_ref: "".into(),
            log_path: "".into(),
            hash: None,
            restart_count: 0,
            user: None,
        }
    }
}

impl From<&RuntimePod> for PodStatus {
    fn from(listed: &RuntimePod) -> Self {
        Self {
            pod: listed.pod.clone(),
            ips: Vec::new(),
            sandboxes: listed.sandboxes.iter().map(Into::into).collect(),
            containers: listed.containers.iter().map(Into::into).collect(),
        }
    }
}
