//! What keeps a pod from getting on, by what happened to it last.

use k8s_openapi::api::core::v1::Event;
use rubelet_agent::board::PodView;
use rubelet_agent::event::{PodEvent, Severity};

use crate::local::PodInfo;

/// The last thing that happened to a pod, if it was nothing good: what went well after it has overcome it.
pub(super) struct Hindrance(pub(super) String);

impl Hindrance {
    pub(super) fn of_view(view: &PodView) -> Option<Self> {
        let PodEvent { severity, reason, message, .. } = view.events.last()?;
        (*severity == Severity::Warning).then(|| Self::new(reason, message))
    }

    pub(super) fn of_info(info: &PodInfo) -> Option<Self> {
        let Event { type_, reason, message, .. } = info.events.last()?;
        let is_warning = type_.as_deref() == Some(Severity::Warning.as_str());
        is_warning
            .then(|| Self::new(reason.as_deref().unwrap_or_default(), message.as_deref().unwrap_or_default()))
    }

    fn new(reason: &str, message: &str) -> Self {
        Self(format!("{reason}: {message}"))
    }
}
