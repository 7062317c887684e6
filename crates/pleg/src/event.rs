//! What subscribers hear.

use std::fmt;
use std::sync::Arc;

use rubelet_model::{ContainerId, PodRef, SandboxId, UnixNanos};
use serde::{Deserialize, Serialize};

/// One change in the life of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodEvent {
    /// Counts all events of one PLEG. Later events have higher numbers; a merged event carries the number of
    /// the last one in it.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
    /// To which pod.
    pub pod: PodRef,
    /// To what in the pod; nothing for an [`EventKind::PodSync`] of the pod as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// How it ended, for [`EventKind::ContainerDied`] of a container whose end the runtime has told, and for an
    /// [`EventKind::PodSync`] that corrects what was told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// When it happened, by the runtime's clock, where the runtime tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub happened_at: Option<UnixNanos>,
    /// When we told it, by our wall clock.
    pub seen_at: UnixNanos,
    /// What led us to it.
    pub trigger: Trigger,
    /// How many events this one stands for: 1, or more in a [`EventKind::PodSync`] that a slow subscriber
    /// gets in place of what it had not read.
    pub merged: u64,
}

/// The kinds of pod lifecycle events, under the kubelet's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// A container runs, or a sandbox is ready.
    ContainerStarted,
    /// A container exited, or a sandbox is no longer ready.
    ContainerDied,
    /// The runtime no longer knows it.
    ContainerRemoved,
    /// Something about the pod changed that no other event tells. With a subject: more is known of how that ended.
    PodSync,
    /// A state that tells nothing yet (created, unknown) came or went. The pod is inspected and its cache entry
    /// renewed, but subscribers are not told, as in the kubelet.
    ContainerChanged,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::ContainerStarted,
        Self::ContainerDied,
        Self::ContainerRemoved,
        Self::PodSync,
        Self::ContainerChanged,
    ];

    /// The kubelet's name for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContainerStarted => "ContainerStarted",
            Self::ContainerDied => "ContainerDied",
            Self::ContainerRemoved => "ContainerRemoved",
            Self::PodSync => "PodSync",
            Self::ContainerChanged => "ContainerChanged",
        }
    }

    /// Whether subscribers hear of it.
    #[must_use]
    pub const fn is_delivered(self) -> bool {
        match self {
            Self::ContainerStarted | Self::ContainerDied | Self::ContainerRemoved | Self::PodSync => true,
            Self::ContainerChanged => false,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What in a pod an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Subject {
    /// A container.
    Container {
        /// Its id.
        id: ContainerId,
        /// Its name in the pod.
        name: Arc<str>,
        /// How many containers of this name the pod had before it.
        attempt: u32,
    },
    /// A sandbox. Its life is told with the same events as a container's.
    Sandbox {
        /// Its id.
        id: SandboxId,
        /// How many sandboxes the pod had before it.
        attempt: u32,
    },
}

impl Subject {
    /// Its id, as the runtime spells it.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Container { id, .. } => id.as_str(),
            Self::Sandbox { id, .. } => id.as_str(),
        }
    }

    /// Whether it is a sandbox.
    #[must_use]
    pub const fn is_sandbox(&self) -> bool {
        matches!(self, Self::Sandbox { .. })
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    /// Its exit code.
    pub code: i32,
    /// The runtime's word for why.
    pub reason: Arc<str>,
    /// Whether the kernel killed it for want of memory.
    pub oom_killed: bool,
}

/// How a container ended, and when, if that is known.
pub(crate) type End = (Exit, Option<UnixNanos>);

/// What made the PLEG look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// The periodic list of all pods.
    Relist,
    /// Somebody who acted on the pod asked for a look.
    Nudge,
    /// The runtime announced something.
    Event,
}
