//! The status that an earlier agent reported for a pod, reduced to what this agent may believe.

use k8s_openapi::api::core::v1::{ContainerStatus as ApiContainer, PodStatus as ApiStatus};

use super::{Phase, is_lost};

/// Removes invented ends. When a pod is stopped, containers that never started are also reported as ended, because
/// nothing of that pod will run any more. For the next agent they have yet to run, unless the pod has finished: an end
/// that never happened is no reason not to start them.
pub(crate) fn recalled(said: ApiStatus) -> ApiStatus {
    if Phase::of(&said).is_some_and(Phase::is_terminal) {
        return said;
    }
    let without_invented = |all: Option<Vec<ApiContainer>>| {
        all.map(|all| all.into_iter().filter(|container| !is_invented(container)).collect())
    };
    ApiStatus {
        init_container_statuses: without_invented(said.init_container_statuses),
        container_statuses: without_invented(said.container_statuses),
        ..said
    }
}

/// Whether the container was reported as ended although it never ran.
fn is_invented(container: &ApiContainer) -> bool {
    let ended = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    let had_another = container.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    ended.is_some_and(is_lost) && container.container_id.is_none() && !had_another
}
