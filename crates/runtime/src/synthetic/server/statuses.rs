//! Status calls.

use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::shared::Shared;

pub(super) fn sandbox(shared: &Shared, request: &v1::PodSandboxStatusRequest) -> Result<Answer, Status> {
    let id = &request.pod_sandbox_id;
    shared.look(|world| {
        let sandbox = world.find_sandbox(id).map_err(|none| none.into_status("sandbox", id))?;
        Ok(Answer::of(&world.sandbox_answer(sandbox, request.verbose)))
    })
}

pub(super) fn container(shared: &Shared, request: &v1::ContainerStatusRequest) -> Result<Answer, Status> {
    let id = &request.container_id;
    shared.look(|world| {
        let container = world.find_container(id).map_err(|none| none.into_status("container", id))?;
        Ok(Answer::of(&world.container_answer(container, request.verbose)))
    })
}
