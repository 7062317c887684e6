//! What an agent before this one said of a pod, as this one may believe it.

use k8s_openapi::api::core::v1::{ContainerStatus as ApiContainer, PodStatus as ApiStatus};

use super::{Phase, is_lost};

/// When a pod is stopped, containers that never began are said to have ended, too: of that pod nothing will run any more. To the
/// next agent they are still to come, unless the pod has finished: an end that never was is no reason not to begin.
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

/// Whether it is said to have ended, and there never was one.
fn is_invented(container: &ApiContainer) -> bool {
    let ended = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    let had_another = container.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    ended.is_some_and(is_lost) && container.container_id.is_none() && !had_another
}
