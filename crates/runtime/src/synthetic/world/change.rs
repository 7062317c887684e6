//! The history of what happened: the truth against which an observer is measured.

use rubelet_model::{ContainerId, PodUid, SandboxId};

use super::World;
use super::event::EventKind;

/// One change of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The pod it happened to.
    pub pod: PodUid,
    /// The sandbox it happened to, or the sandbox of the container it happened to.
    pub sandbox: SandboxId,
    /// The container it happened to; `None` if it was the sandbox itself.
    pub container: Option<ContainerId>,
    /// What happened.
    pub what: What,
    /// When it happened, by the world's wall clock.
    pub at: i64,
    /// The events that the simulated runtime sends about it, in order. Empty if it sends none.
    pub announced: Vec<EventKind>,
}

/// What can happen to a sandbox or a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// It was created. A sandbox is ready from then on.
    Created,
    /// It started running.
    Started,
    /// It exited, or a sandbox is no longer ready.
    Stopped,
    /// It was removed.
    Removed,
    /// The runtime lost track of it.
    Unknown,
    /// The state is the same, but the status has changed otherwise.
    Altered,
}

/// How a container exits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: i32,
    /// The runtime's reason; if empty, `Completed` or `Error`, depending on the code.
    pub reason: String,
    /// The runtime's additional message.
    pub message: String,
}

impl Exit {
    /// An exit with this code.
    #[must_use]
    pub fn code(code: i32) -> Self {
        Self { code, reason: String::new(), message: String::new() }
    }

    /// A kill by the kernel because memory ran out.
    #[must_use]
    pub fn oom() -> Self {
        Self::code(137).reason("OOMKilled")
    }

    /// Sets the reason.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Sets the message.
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
    /// Records a change of a container that (still) exists.
    pub(super) fn note_container(&mut self, id: &ContainerId, what: What, announced: Vec<EventKind>) {
        if self.quiet {
            return;
        }
        let sandbox = self.containers[id].sandbox.clone();
        self.note(sandbox, Some(id.clone()), what, announced);
    }

    /// Records a change of a sandbox that (still) exists.
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
