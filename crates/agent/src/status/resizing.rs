//! A pod that was allotted other resources and does not have them yet.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use rubelet_model::ContainerState;

use super::Inputs;
use super::phase::Phase;
use crate::pod::{Sizes, containers, init_containers, is_resized, is_sidecar};

pub(super) const CONDITION: &str = "PodResizeInProgress";

/// Returns the pod with what it and its running containers have now; `None` if that is what they were allotted.
pub(super) fn held(inputs: Inputs<'_>) -> Option<Pod> {
    let mut sizes = Sizes::default();
    let sidecars = init_containers(inputs.pod).iter().filter(|container| is_sidecar(container));
    for container in sidecars.chain(containers(inputs.pod)) {
        let running = inputs.runtime.newest(&container.name);
        let running = running.filter(|newest| newest.state == ContainerState::Running);
        if let Some(given) = running.and_then(|newest| inputs.grants.of(newest))
            && is_resized(container.resources.as_ref(), given)
        {
            sizes.containers.insert(container.name.clone(), given.clone());
        }
    }
    let own = inputs.pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let given = inputs.grants.pod.as_ref().and_then(|given| given.resources.as_ref());
    sizes.pod = given.filter(|given| is_resized(own, given)).cloned();
    (!sizes.is_empty()).then(|| sizes.put_into(inputs.pod))
}

/// Whether a status says that the pod is being resized.
pub(crate) fn is_resizing(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == CONDITION)
}

/// Returns the condition of the pod while this lasts, with the reason if it failed.
pub(super) fn condition(inputs: Inputs<'_>, phase: Phase, is_resizing: bool) -> Option<PodCondition> {
    (is_resizing && !phase.is_terminal()).then(|| PodCondition {
        type_: CONDITION.to_owned(),
        status: "True".to_owned(),
        reason: inputs.resize_error.map(|_| "Error".to_owned()),
        message: inputs.resize_error.map(str::to_owned),
        observed_generation: inputs.pod.metadata.generation,
        ..PodCondition::default()
    })
}
