//! Calls that create, start, stop and remove containers.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState};
use tokio::time::timeout;
use tonic::Status;

use super::answer::Answer;
use super::shared::Shared;
use crate::synthetic::world::{Exit, OnStart, OnStop, World};

pub(super) async fn create(shared: &Shared, request: v1::CreateContainerRequest) -> Result<Answer, Status> {
    let id = shared.try_change(|world| world.create_container(request)).await?;
    let id = id.as_str().to_owned();
    let message = v1::CreateContainerResponse { container_id: id.clone() }.encode_to_vec();
    Ok(Answer::Made(message.into(), id))
}

pub(super) async fn start(
    shared: &Arc<Shared>,
    request: &v1::StartContainerRequest,
) -> Result<Answer, Status> {
    let (id, exit) = shared
        .try_change(|world| {
            let container = world.startable(&request.container_id)?;
            let id = container.id().clone();
            match world.behavior_of(container).start {
                OnStart::Run => {
                    world.start(&id);
                    Ok((id, None))
                }
                OnStart::ExitAtOnce(exit) => {
                    world.start_and_exit(&id, exit);
                    Ok((id, None))
                }
                OnStart::ExitAfter(after, exit) => {
                    world.start(&id);
                    Ok((id, Some((after, exit))))
                }
                OnStart::Fail(text) => {
                    world.fail_start(&id, &text);
                    Err(Status::unknown(format!("failed to start container {id:?}: {text}")))
                }
            }
        })
        .await?;
    if let Some((after, exit)) = exit {
        exit_later(shared, id, after, exit);
    }
    Ok(Answer::of(&v1::StartContainerResponse {}))
}

pub(super) async fn stop(shared: &Arc<Shared>, request: &v1::StopContainerRequest) -> Result<Answer, Status> {
    let done = Ok(Answer::of(&v1::StopContainerResponse {}));
    let found = shared.look(|world| {
        let container = world.container_if_any(&request.container_id)?;
        let live = container.filter(|container| is_live(container.state()));
        Ok::<_, Status>(live.map(|container| (container.id().clone(), world.behavior_of(container).stop)))
    })?;
    let Some((id, on_stop)) = found else { return done };
    let grace = u64::try_from(request.timeout).unwrap_or(0);
    if grace > 0 {
        // The signal is sent once in a container's life, and takes effect even if the caller does not wait.
        let first = shared.look(|world| world.signal_stop(&id));
        if let (true, OnStop::Exit(after, exit)) = (first, on_stop) {
            exit_later(shared, id.clone(), after, exit);
        }
        let over =
            shared.until(|world| world.container(&id).is_none_or(|container| !is_live(container.state())));
        if timeout(Duration::from_secs(grace), over).await.is_ok() {
            return done;
        }
    }
    shared.change(|world| exit_if_live(world, &id, Exit::code(137)));
    done
}

pub(super) async fn remove(shared: &Shared, request: &v1::RemoveContainerRequest) -> Result<Answer, Status> {
    shared
        .try_change(|world| {
            let container = world.container_if_any(&request.container_id)?;
            if let Some(id) = container.map(|container| container.id().clone()) {
                world.remove(&id);
            }
            Ok(())
        })
        .await?;
    Ok(Answer::of(&v1::RemoveContainerResponse {}))
}

pub(super) fn update_resources(
    shared: &Shared,
    request: v1::UpdateContainerResourcesRequest,
) -> Result<Answer, Status> {
    let (result, _) = shared.change(|world| world.update_resources(request));
    result?;
    Ok(Answer::of(&v1::UpdateContainerResourcesResponse {}))
}

pub(super) fn reopen_log(shared: &Shared, request: &v1::ReopenContainerLogRequest) -> Result<Answer, Status> {
    let id = &request.container_id;
    shared.look(|world| {
        let container = world.find_container(id).map_err(|none| none.into_status("container", id))?;
        if container.state() != ContainerState::Running {
            return Err(Status::unknown("container is not running"));
        }
        Ok(Answer::of(&v1::ReopenContainerLogResponse {}))
    })
}

/// Makes the container exit by itself after a while, if it has not exited before.
fn exit_later(shared: &Arc<Shared>, id: ContainerId, after: Duration, exit: Exit) {
    if after.is_zero() {
        shared.change(|world| exit_if_live(world, &id, exit));
        return;
    }
    let shared = Arc::downgrade(shared);
    // The exit belongs to the container rather than to the connection: it also happens while the runtime is down.
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        if let Some(shared) = shared.upgrade() {
            shared.change(|world| exit_if_live(world, &id, exit));
        }
    });
}

fn exit_if_live(world: &mut World, id: &ContainerId, exit: Exit) {
    if world.container(id).is_some_and(|container| is_live(container.state())) {
        world.exit(id, exit);
    }
}

fn is_live(state: ContainerState) -> bool {
    matches!(state, ContainerState::Running | ContainerState::Unknown)
}
