//! Finds the containers that have ended since the last status of their pod.

use k8s_openapi::api::core::v1::{
    ContainerStateTerminated, ContainerStatus as ApiContainer, PodStatus as ApiStatus,
};

use crate::pod::ContainerKind;

/// Returns every end that was not reported before, including one that only shows as the last state of a container that
/// runs again.
pub(crate) fn new_ends<'a>(
    before: Option<&ApiStatus>,
    now: &'a ApiStatus,
) -> Vec<(ContainerKind, &'a ContainerStateTerminated)> {
    let mut new = Vec::new();
    for kind in [ContainerKind::Init, ContainerKind::Regular] {
        for container in list(kind, now) {
            let told: Vec<&ContainerStateTerminated> = before
                .map(|before| list(kind, before))
                .unwrap_or_default()
                .iter()
                .filter(|status| status.name == container.name)
                .flat_map(ends)
                .collect();
            let is_told = |end: &ContainerStateTerminated| {
                told.iter().any(|told| match &end.container_id {
                    Some(id) => told.container_id.as_ref() == Some(id),
                    None => *told == end,
                })
            };
            new.extend(ends(container).filter(|end| !is_told(end)).map(|end| (kind, end)));
        }
    }
    new
}

fn list(kind: ContainerKind, status: &ApiStatus) -> &[ApiContainer] {
    let list = match kind {
        ContainerKind::Init => &status.init_container_statuses,
        ContainerKind::Regular => &status.container_statuses,
    };
    list.as_deref().unwrap_or_default()
}

fn ends(container: &ApiContainer) -> impl Iterator<Item = &ContainerStateTerminated> {
    [&container.state, &container.last_state]
        .into_iter()
        .filter_map(|state| state.as_ref().and_then(|state| state.terminated.as_ref()))
}
