//! A pod that would have other resources if there were room for them.

use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub(super) const CONDITION: &str = "PodResizePending";

/// Why a pod does not get what its manifest says yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResizePending {
    /// Others have it. It is given when they are gone.
    Deferred(String),
    /// The node does not have so much at all.
    Infeasible(String),
}

impl ResizePending {
    /// The kubelet's word for it.
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
