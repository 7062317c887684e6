//! The events that subscribers receive.

use std::fmt;
use std::sync::Arc;

use rubelet_model::{ContainerId, PodRef, SandboxId, UnixNanos};
use serde::{Deserialize, Serialize};

/// One change in the life of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodEvent {
    /// The number of the event. Delivered events are numbered consecutively; a merged event has the number of the last
    /// event in it.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
    /// The pod that it happened to.
    pub pod: PodRef,
    /// What in the pod it happened to; `None` for an [`EventKind::PodSync`] of the pod as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// How the container ended, for an [`EventKind::ContainerDied`] if the runtime reported it, and for an
    /// [`EventKind::PodSync`] that corrects an earlier report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// When it happened, by the runtime's clock, if the runtime reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub happened_at: Option<UnixNanos>,
    /// When it was reported, by our wall clock.
    pub seen_at: UnixNanos,
    /// What made the PLEG notice it.
    pub trigger: Trigger,
    /// How many events this one stands for: 1, or more for a [`EventKind::PodSync`] that replaces events which a slow
    /// subscriber had not read yet.
    pub merged: u64,
}

/// The kinds of pod lifecycle events, under the kubelet's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// A container is running, or a sandbox is ready.
    ContainerStarted,
    /// A container has exited, or a sandbox is no longer ready.
    ContainerDied,
    /// The runtime no longer knows the container or sandbox.
    ContainerRemoved,
    /// Something about the pod changed that no other event covers. With a subject: more is known about how that ended.
    PodSync,
    /// A state that is not reported (created, unknown) came or went. The pod is inspected and its cache entry renewed,
    /// but, as in the kubelet, subscribers get no event.
    ContainerChanged,
}

impl EventKind {
    /// All kinds.
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

    /// Whether subscribers receive it.
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
        /// How many containers of this name the pod had before this one.
        attempt: u32,
    },
    /// A sandbox. Its life is reported with the same events as a container's.
    Sandbox {
        /// Its id.
        id: SandboxId,
        /// How many sandboxes the pod had before this one.
        attempt: u32,
    },
}

impl Subject {
    /// The id, as the runtime spells it.
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
    /// The reason for it, in the runtime's words.
    pub reason: Arc<str>,
    /// Whether the kernel killed it because memory ran out.
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
    /// A nudge: somebody acted on the pod and asked for a look.
    Nudge,
    /// An announcement of the runtime.
    Event,
}
