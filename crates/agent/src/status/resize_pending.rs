//! A pod that would get other resources if there were room for them.

use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub(super) const CONDITION: &str = "PodResizePending";

/// Why a pod does not yet have the resources that its manifest requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResizePending {
    /// Other pods have them. It gets them when those are gone.
    Deferred(String),
    /// The node does not have that much at all.
    Infeasible(String),
}

impl ResizePending {
    /// Returns the kubelet's reason.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Deferred(_) => "Deferred",
            Self::Infeasible(_) => "Infeasible",
        }
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Deferred(message) | Self::Infeasible(message) => message,
        }
    }

    pub(super) fn condition(&self, pod: &Pod) -> PodCondition {
        PodCondition {
            type_: CONDITION.to_owned(),
            status: "True".to_owned(),
            reason: Some(self.reason().to_owned()),
            message: Some(self.message().to_owned()),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        }
    }
}
