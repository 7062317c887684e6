//! The status of a pod that this node refuses to run: it failed before anything of it was created.

use std::borrow::Cow;

use super::Phase;
use crate::admission::Refusal;
use crate::pod::qos_class;
use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};

/// Why a node refuses a pod. The reason is one of the kubelet's: `OutOfcpu`, `NodeShutdown`, …
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rejection {
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
}

/// The beginning of the message in every status of a refused pod.
const REJECTED: &str = "Pod was rejected: ";

impl From<&Refusal> for Rejection {
    fn from(refusal: &Refusal) -> Self {
        Self { reason: refusal.reason(), message: refusal.to_string() }
    }
}

impl Rejection {
    /// Whether this is the status of a refused pod.
    pub(crate) fn is_told_by(status: &ApiStatus) -> bool {
        Phase::of(status) == Some(Phase::Failed)
            && status.message.as_deref().is_some_and(|message| message.starts_with(REJECTED))
    }

    /// Returns the status of the refused pod.
    pub(crate) fn status(&self, pod: &Pod) -> ApiStatus {
        ApiStatus {
            phase: Some(Phase::Failed.as_str().to_owned()),
            reason: Some(self.reason.to_string()),
            message: Some(format!("{REJECTED}{}", self.message)),
            qos_class: Some(qos_class(pod).as_str().to_owned()),
            observed_generation: pod.metadata.generation,
            ..ApiStatus::default()
        }
    }
}
