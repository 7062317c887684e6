//! Conversion from the list view to the inspected view: a starting point for the status of a fake or a test.
//!
//! Whatever a list does not report is empty, as if the runtime did not report it.

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
