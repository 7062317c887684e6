//! What happened to pods, as Kubernetes events. Nobody but this agent keeps them.
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

/// Who tells of it.
pub const COMPONENT: &str = "rubelet";

/// Whether somebody should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Severity {
    /// The API's word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened to a pod, once or again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Whether somebody should worry.
    pub severity: Severity,
    /// One word for it: `Pulled`, `BackOff`, `FailedMount`, …
    pub reason: Cow<'static, str>,
    /// What to read.
    pub message: String,
    /// The container that it happened to, if it was one.
    pub container: Option<String>,
    /// How often.
    pub count: u32,
    /// When first.
    pub first_seen: UnixNanos,
    /// When last.
    pub last_seen: UnixNanos,
}
