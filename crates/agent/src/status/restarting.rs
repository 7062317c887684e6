//! Pods in which all containers are restarted because one of them has ended.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus as ApiStatus};

use super::Inputs;
use super::phase::Phase;
use crate::pod::{all_containers, asks_for_all, could_ask_for_all};

pub(super) const CONDITION: &str = "AllContainersRestarting";

/// The kubelet's reason for a container that was removed to be restarted with the others.
pub(super) const REASON: &str = "RestartingAllContainers";
pub(super) const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// Whether the restart has begun and a container that asked for it still exists.
pub(super) fn is_under_way(inputs: Inputs<'_>) -> bool {
    let Inputs { pod, runtime, .. } = inputs;
    all_containers(pod).any(|container| asks_for_all(container, runtime.newest(&container.name)))
}

/// Whether it was in progress at the time of this status.
pub(super) fn was_under_way(said: Option<&ApiStatus>) -> bool {
    let conditions = said.and_then(|said| said.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == CONDITION && condition.status == "True")
}

/// Returns the condition, for a pod that could ever have it.
pub(super) fn condition(inputs: Inputs<'_>, phase: Phase) -> Option<PodCondition> {
    if !could_ask_for_all(inputs.pod) {
        return None;
    }
    let (status, reason, message) = match phase {
        Phase::Succeeded => ("False", Some("PodCompleted"), None),
        Phase::Failed => ("False", Some("PodFailed"), None),
        Phase::Pending | Phase::Running if is_under_way(inputs) => {
            let message = "container exited with restart policy rule";
            ("True", Some("RestartAllContainersStarted"), Some(message))
        }
        Phase::Pending | Phase::Running => ("False", None, None),
    };
    Some(PodCondition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        message: message.map(str::to_owned),
        ..PodCondition::default()
    })
}
