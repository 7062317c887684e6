//! Status calls.

use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::shared::Shared;

pub(super) fn sandbox(shared: &Shared, request: &v1::PodSandboxStatusRequest) -> Result<Answer, Status> {
    let id = &request.pod_sandbox_id;
    shared.look(|world| {
        let sandbox = world.find_sandbox(id).map_err(|none| none.into_status("sandbox", id))?;
        Ok(Answer::of(&world.sandbox_answer(sandbox)))
    })
}

pub(super) fn container(shared: &Shared, request: &v1::ContainerStatusRequest) -> Result<Answer, Status> {
    let id = &request.container_id;
    shared.look(|world| {
        let container = world.find_container(id).map_err(|none| none.into_status("container", id))?;
        let status = Some(world.container_status(container));
        Ok(Answer::of(&v1::ContainerStatusResponse { status, ..Default::default() }))
    })
}
