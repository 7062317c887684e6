//! Calls that create, stop and remove sandboxes.

use prost::Message;
use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::dispatch::unimplemented;
use super::shared::Shared;
use crate::synthetic::op::Op;

pub(super) async fn run(shared: &Shared, request: v1::RunPodSandboxRequest) -> Result<Answer, Status> {
    let id = shared.try_change(|world| world.run_sandbox(request)).await?;
    let id = id.as_str().to_owned();
    let message = v1::RunPodSandboxResponse { pod_sandbox_id: id.clone() }.encode_to_vec();
    Ok(Answer::Made(message.into(), id))
}

/// The events about what stops are sent independently of the caller, who does not wait for them.
pub(super) fn stop(shared: &Shared, request: &v1::StopPodSandboxRequest) -> Result<Answer, Status> {
    let (result, _) = shared.change(|world| {
        let found = world.sandbox_if_any(&request.pod_sandbox_id)?;
        if let Some(id) = found.map(|sandbox| sandbox.id().clone()) {
            world.stop_sandbox(&id);
        }
        Ok::<_, Status>(())
    });
    result?;
    Ok(Answer::of(&v1::StopPodSandboxResponse {}))
}

pub(super) async fn remove(shared: &Shared, request: &v1::RemovePodSandboxRequest) -> Result<Answer, Status> {
    let id = shared
        .try_change(|world| {
            let found = world.sandbox_if_any(&request.pod_sandbox_id)?;
            let id = found.map(|sandbox| sandbox.id().clone());
            if let Some(id) = &id {
                world.begin_sandbox_removal(id);
            }
            Ok(id)
        })
        .await?;
    if let Some(id) = id {
        // A client that has received the announcement may look now, and finds the sandbox still there.
        tokio::task::yield_now().await;
        shared
            .try_change(|world| {
                // Another call may have been faster.
                if world.sandbox(&id).is_some() {
                    world.finish_sandbox_removal(&id);
                }
                Ok(())
            })
            .await?;
    }
    Ok(Answer::of(&v1::RemovePodSandboxResponse {}))
}

pub(super) fn update_resources(
    shared: &Shared,
    request: &v1::UpdatePodSandboxResourcesRequest,
) -> Result<Answer, Status> {
    let id = &request.pod_sandbox_id;
    shared.look(|world| {
        // This call is as old as `RuntimeConfig`, or younger.
        if !world.quirks().has_runtime_config {
            return Err(unimplemented(Op::UpdatePodSandboxResources));
        }
        world.find_sandbox(id).map_err(|none| none.into_status("sandbox", id))?;
        Ok(Answer::of(&v1::UpdatePodSandboxResourcesResponse {}))
    })
}
