//! Stats: only what exists. There are no processes, so no usage is reported.

use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::shared::Shared;
use crate::synthetic::world::{Container, Sandbox};

pub(super) fn container(shared: &Shared, request: &v1::ContainerStatsRequest) -> Result<Answer, Status> {
    let id = &request.container_id;
    shared.look(|world| {
        let container = world.find_container(id).map_err(|none| none.into_status("container", id))?;
        Ok(Answer::of(&v1::ContainerStatsResponse { stats: Some(of_container(container)) }))
    })
}

pub(super) fn containers(shared: &Shared, request: v1::ListContainerStatsRequest) -> Result<Answer, Status> {
    let filter = request.filter.map(|filter| v1::ContainerFilter {
        id: filter.id,
        pod_sandbox_id: filter.pod_sandbox_id,
        label_selector: filter.label_selector,
        state: None,
    });
    shared.look(|world| {
        let listed = world.list_containers(filter.as_ref()).into_iter();
        let stats = listed.map(|listed| of_container(listed.about)).collect();
        Ok(Answer::of(&v1::ListContainerStatsResponse { stats }))
    })
}

pub(super) fn sandbox(shared: &Shared, request: &v1::PodSandboxStatsRequest) -> Result<Answer, Status> {
    let id = &request.pod_sandbox_id;
    shared.look(|world| {
        let sandbox = world.find_sandbox(id).map_err(|none| none.into_status("sandbox", id))?;
        Ok(Answer::of(&v1::PodSandboxStatsResponse { stats: Some(of_sandbox(sandbox)) }))
    })
}

pub(super) fn sandboxes(shared: &Shared, request: v1::ListPodSandboxStatsRequest) -> Result<Answer, Status> {
    let filter = request.filter.map(|filter| v1::PodSandboxFilter {
        id: filter.id,
        label_selector: filter.label_selector,
        state: None,
    });
    shared.look(|world| {
        let listed = world.list_sandboxes(filter.as_ref()).into_iter();
        let stats = listed.map(|listed| of_sandbox(listed.about)).collect();
        Ok(Answer::of(&v1::ListPodSandboxStatsResponse { stats }))
    })
}

fn of_container(container: &Container) -> v1::ContainerStats {
    v1::ContainerStats {
        attributes: Some(v1::ContainerAttributes {
            id: container.id().as_str().to_owned(),
            metadata: container.config().metadata.clone(),
            labels: container.config().labels.clone(),
            annotations: container.config().annotations.clone(),
        }),
        ..Default::default()
    }
}

fn of_sandbox(sandbox: &Sandbox) -> v1::PodSandboxStats {
    v1::PodSandboxStats {
        attributes: Some(v1::PodSandboxAttributes {
            id: sandbox.id().as_str().to_owned(),
            metadata: sandbox.config().metadata.clone(),
            labels: sandbox.config().labels.clone(),
            annotations: sandbox.config().annotations.clone(),
        }),
        ..Default::default()
    }
}
