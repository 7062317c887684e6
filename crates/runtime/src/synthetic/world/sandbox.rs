//! A virtual pod sandbox.

use std::cell::OnceCell;

use bytes::Bytes;
use rubelet_cri::v1;
use rubelet_model::{ContainerId, PodUid, SandboxId, SandboxState};

use super::kubelet::POD_UID_LABEL;

/// A virtual pod sandbox.
#[derive(Debug)]
pub struct Sandbox {
    pub(super) id: SandboxId,
    pub(super) pod: PodUid,
    pub(super) config: v1::PodSandboxConfig,
    pub(super) runtime_handler: String,
    pub(super) state: SandboxState,
    pub(super) created_at: i64,
    pub(super) ips: Vec<String>,
    /// Its containers, oldest first.
    pub(super) containers: Vec<ContainerId>,
    /// Whether its removal has been announced but not carried out yet.
    pub(super) removing: bool,
    /// Whether its creator has received the answer.
    pub(super) claimed: bool,
    /// Its encoded list entry; empty after a change until the next list.
    pub(super) entry: OnceCell<Bytes>,
}

impl Sandbox {
    pub(super) fn new(
        id: SandboxId,
        config: v1::PodSandboxConfig,
        runtime_handler: String,
        created_at: i64,
    ) -> Self {
        let pod = pod_key(&id, &config);
        Self {
            id,
            pod,
            config,
            runtime_handler,
            state: SandboxState::Ready,
            created_at,
            ips: Vec::new(),
            containers: Vec::new(),
            removing: false,
            claimed: false,
            entry: OnceCell::new(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// The key of its pod.
    #[must_use]
    pub fn pod(&self) -> &PodUid {
        &self.pod
    }

    /// The configuration it was created from.
    #[must_use]
    pub fn config(&self) -> &v1::PodSandboxConfig {
        &self.config
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> SandboxState {
        self.state
    }

    /// How many sandboxes its pod had before it.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.config.metadata.as_ref().map_or(0, |metadata| metadata.attempt)
    }

    /// When it was created, by the world's wall clock, in nanoseconds since 1970.
    #[must_use]
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// Its addresses; none on the host network.
    #[must_use]
    pub fn ips(&self) -> &[String] {
        &self.ips
    }

    /// Its containers, oldest first.
    #[must_use]
    pub fn containers(&self) -> &[ContainerId] {
        &self.containers
    }
}

/// The UID from the metadata, or from the label, or else the sandbox's own id.
fn pod_key(id: &SandboxId, config: &v1::PodSandboxConfig) -> PodUid {
    let metadata = config.metadata.as_ref().map(|metadata| metadata.uid.as_str());
    let label = config.labels.get(POD_UID_LABEL).map(String::as_str);
    metadata
        .filter(|uid| !uid.is_empty())
        .or(label.filter(|uid| !uid.is_empty()))
        .map_or_else(|| PodUid::from(id.as_str()), PodUid::from)
}
