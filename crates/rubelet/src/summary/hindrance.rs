//! What holds a pod back, according to its latest event.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_agent::board::PodView;
use rubelet_agent::event::{PodEvent, Severity};

use crate::local::PodInfo;

/// How long a pod may need until its probes succeed. A probe that fails for longer means that the pod serves nobody.
const BEGINNING: Duration = Duration::from_secs(30);

/// The latest event of a pod, if that is a warning: a later success would have overcome it.
pub(super) struct Hindrance {
    reason: String,
    message: String,
    /// For how long it has been repeated.
    lasts: Duration,
}

impl Hindrance {
    pub(super) fn of_view(view: &PodView) -> Option<Self> {
        let PodEvent { severity, reason, message, first_seen, last_seen, .. } = view.events.last()?;
        (*severity == Severity::Warning).then(|| Self {
            reason: reason.to_string(),
            message: message.clone(),
            lasts: Duration::from_nanos(u64::try_from(last_seen.0.saturating_sub(first_seen.0)).unwrap_or(0)),
        })
    }

    pub(super) fn of_info(info: &PodInfo) -> Option<Self> {
        let event = info.events.last()?;
        let is_warning = event.type_.as_deref() == Some(Severity::Warning.as_str());
        is_warning.then(|| Self {
            reason: event.reason.clone().unwrap_or_default(),
            message: event.message.clone().unwrap_or_default(),
            lasts: span_of(event).unwrap_or_default(),
        })
    }

    /// Whether it is a failing probe, which keeps a running pod from being ready.
    pub(super) fn is_of_probe(&self) -> bool {
        self.reason == "Unhealthy"
    }

    /// Whether it has lasted longer than is normal after a start.
    pub(super) fn lasts_long(&self) -> bool {
        self.lasts >= BEGINNING
    }

    pub(super) fn words(&self) -> String {
        format!("{}: {}", self.reason, self.message)
    }
}

fn span_of(event: &Event) -> Option<Duration> {
    let [Time(first), Time(last)] = [event.first_timestamp.clone()?, event.last_timestamp.clone()?];
    Duration::try_from(last.duration_since(first)).ok()
}
