//! What happened, in order: the truth that an observer is measured against.

use rubelet_model::{ContainerId, PodUid, SandboxId};

use super::World;
use super::event::EventKind;

/// One change of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The pod it happened to.
    pub pod: PodUid,
    /// The sandbox it happened to, or to one of whose containers.
    pub sandbox: SandboxId,
    /// The container it happened to; `None` if it was the sandbox itself.
    pub container: Option<ContainerId>,
    /// What happened.
    pub what: What,
    /// By the world's wall clock.
    pub at: i64,
    /// The events that the played runtime sends about it, in order. Empty when it keeps quiet.
    pub announced: Vec<EventKind>,
}

/// What can happen to a sandbox or a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// It was made. A sandbox is ready from then on.
    Created,
    /// It began to run.
    Started,
    /// It ended, or a sandbox is not ready any more.
    Stopped,
    /// It is gone.
    Removed,
    /// The runtime lost track of it.
    Unknown,
    /// The same state, but the status tells something else than before.
    Altered,
}

/// How a container ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: i32,
    /// The runtime's word for it; empty for `Completed` or `Error`, by the code.
    pub reason: String,
    /// What the runtime has to say on top.
    pub message: String,
}

impl Exit {
    /// An end with this code.
    #[must_use]
    pub fn code(code: i32) -> Self {
        Self { code, reason: String::new(), message: String::new() }
    }

    /// Killed by the kernel for want of memory.
    #[must_use]
    pub fn oom() -> Self {
        Self::code(137).reason("OOMKilled")
    }

    /// With this reason.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// With this message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }
}

impl From<i32> for Exit {
    fn from(code: i32) -> Self {
        Self::code(code)
    }
}

impl World {
    /// Writes down a change of a container that is (still) there.
    pub(super) fn note_container(&mut self, id: &ContainerId, what: What, announced: Vec<EventKind>) {
        if self.quiet {
            return;
        }
        let sandbox = self.containers[id].sandbox.clone();
        self.note(sandbox, Some(id.clone()), what, announced);
    }

    /// Writes down a change of a sandbox that is (still) there.
    pub(super) fn note_sandbox(&mut self, id: &SandboxId, what: What, announced: Vec<EventKind>) {
        if self.quiet {
            return;
        }
        self.note(id.clone(), None, what, announced);
    }

    fn note(
        &mut self,
        sandbox: SandboxId,
        container: Option<ContainerId>,
        what: What,
        announced: Vec<EventKind>,
    ) {
        // A runtime that is down, or sends no events at all, announces nothing.
        let announced = if self.is_mute() { Vec::new() } else { announced };
        let pod = self.sandboxes[&sandbox].pod.clone();
        self.history.push(Change { pod, sandbox, container, what, at: self.clock, announced });
    }
}
