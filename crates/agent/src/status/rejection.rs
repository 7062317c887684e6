//! A pod that this node refuses to run: it failed before anything of it was made.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use rubelet_model::UnixNanos;

use super::{Phase, time};
use crate::pod::qos_class;

/// Why a node refuses a pod. The reason is one word of the kubelet's: `OutOfcpu`, `NodeShutdown`, …
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rejection {
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
}

impl Rejection {
    /// The status of a pod that was refused.
    pub(crate) fn status(&self, pod: &Pod, now: UnixNanos) -> ApiStatus {
        ApiStatus {
            phase: Some(Phase::Failed.as_str().to_owned()),
            reason: Some(self.reason.to_string()),
            message: Some(format!("Pod was rejected: {}", self.message)),
            qos_class: Some(qos_class(pod).as_str().to_owned()),
            start_time: time(now),
            ..ApiStatus::default()
        }
    }
}
