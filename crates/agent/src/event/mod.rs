//! The events of pods, as Kubernetes events. Only this agent keeps them.
//!
//! ```text
//! note ─▶ correlator: similar ones combined, equal ones counted, too many left out ─▶ the pod's view ─▶ describe, events
//! ```

mod bucket;
mod correlator;
mod object;

use std::borrow::Cow;

use rubelet_model::UnixNanos;
use serde::Serialize;

pub(crate) use correlator::{Correlator, Note};
pub use object::to_event;

/// The component that reports the events.
pub const COMPONENT: &str = "rubelet";

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// Everything is fine.
    Normal,
    /// Someone should take a look.
    Warning,
}

impl Severity {
    /// Returns the API's name for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened to a pod, once or repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// How severe it is.
    pub severity: Severity,
    /// The one-word reason: `Pulled`, `BackOff`, `FailedMount`, …
    pub reason: Cow<'static, str>,
    /// The human-readable message.
    pub message: String,
    /// The container that it happened to, if any.
    pub container: Option<String>,
    /// How often it happened.
    pub count: u32,
    /// When it first happened.
    pub first_seen: UnixNanos,
    /// When it last happened.
    pub last_seen: UnixNanos,
}
