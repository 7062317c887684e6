//! A virtual container.

use std::cell::OnceCell;

use bytes::Bytes;
use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState, SandboxId};

/// A virtual container.
#[derive(Debug)]
pub struct Container {
    pub(super) id: ContainerId,
    pub(super) sandbox: SandboxId,
    pub(super) config: v1::ContainerConfig,
    pub(super) state: ContainerState,
    pub(super) created_at: i64,
    pub(super) started_at: i64,
    pub(super) finished_at: i64,
    pub(super) exit_code: i32,
    pub(super) reason: String,
    pub(super) message: String,
    /// Its log file, including the sandbox's log directory.
    pub(super) log_path: String,
    /// The process that it claims to run as; 0 for none.
    pub(super) pid: u32,
    /// Whether it has been asked to stop, which happens only once.
    pub(super) signalled: bool,
    /// Whether its creator has received the answer.
    pub(super) claimed: bool,
    /// Its encoded list entry; empty after a change until the next list.
    pub(super) entry: OnceCell<Bytes>,
}

impl Container {
    pub(super) fn new(
        id: ContainerId,
        sandbox: SandboxId,
        config: v1::ContainerConfig,
        log_path: String,
        created_at: i64,
    ) -> Self {
        Self {
            id,
            sandbox,
            config,
            state: ContainerState::Created,
            created_at,
            started_at: 0,
            finished_at: 0,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            log_path,
            pid: 0,
            signalled: false,
            claimed: false,
            entry: OnceCell::new(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ContainerId {
        &self.id
    }

    /// The sandbox it belongs to.
    #[must_use]
    pub fn sandbox(&self) -> &SandboxId {
        &self.sandbox
    }

    /// The configuration it was created from.
    #[must_use]
    pub fn config(&self) -> &v1::ContainerConfig {
        &self.config
    }

    /// Its name in the pod.
    #[must_use]
    pub fn name(&self) -> &str {
        self.config.metadata.as_ref().map_or("", |metadata| &metadata.name)
    }

    /// How many containers of the same name the pod had before it.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.config.metadata.as_ref().map_or(0, |metadata| metadata.attempt)
    }

    /// When it was created, by the world's wall clock, in nanoseconds since 1970.
    #[must_use]
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> ContainerState {
        self.state
    }

    /// Its exit code; 0 until it exits.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        self.exit_code
    }

    /// The process that a verbose status reports; 0 before it started. By default it is an id that no kernel assigns.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Why it is in this state, as reported by a status call.
    #[must_use]
    pub fn reason(&self) -> &str {
        // Runtimes fill in an empty reason when asked, rather than when the container exits.
        match self.state {
            ContainerState::Exited if self.reason.is_empty() && self.exit_code == 0 => "Completed",
            ContainerState::Exited if self.reason.is_empty() => "Error",
            _ => &self.reason,
        }
    }
}
