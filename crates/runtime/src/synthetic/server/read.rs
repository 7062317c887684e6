//! Calls that only look.

use bytes::Bytes;
use prost::Message;
use rubelet_cri::v1;
use tonic::Status;

use super::Shared;
use super::answer::Answer;
use crate::synthetic::op::Op;
use crate::synthetic::target::Target;
use crate::synthetic::world::World;

pub(super) fn decode<M: Message + Default>(request: Bytes) -> Result<M, Status> {
    M::decode(request)
        .map_err(|error| Status::internal(format!("grpc: error unmarshalling request: {error}")))
}

/// Whom a request is about. One that cannot be decoded is about nobody; its work will say so.
pub(super) fn target(shared: &Shared, op: Op, request: Bytes) -> Target {
    let world = shared.world.lock();
    (|| -> Result<Target, Status> {
        Ok(match op {
            Op::ListPodSandbox | Op::StreamPodSandboxes => {
                let request: v1::ListPodSandboxRequest = decode(request)?;
                Target::sandbox_filter(&world, request.filter.as_ref())
            }
            Op::ListContainers | Op::StreamContainers => {
                let request: v1::ListContainersRequest = decode(request)?;
                Target::container_filter(&world, request.filter.as_ref())
            }
            Op::PodSandboxStatus => {
                Target::sandbox(&world, &decode::<v1::PodSandboxStatusRequest>(request)?.pod_sandbox_id)
            }
            Op::ContainerStatus => {
                Target::container(&world, &decode::<v1::ContainerStatusRequest>(request)?.container_id)
            }
            _ => Target::NODE,
        })
    })()
    .unwrap_or(Target::NODE)
}

/// Does what was asked.
pub(super) fn work(shared: &Shared, op: Op, request: Bytes) -> Result<Answer, Status> {
    let mut world = shared.world.lock();
    match op {
        Op::Version => Ok(Answer::of(&version(&world))),
        Op::Status => Ok(Answer::of(&status())),
        Op::ListPodSandbox => {
            let request: v1::ListPodSandboxRequest = decode(request)?;
            Ok(Answer::list(1, &sandbox_entries(&mut world, request.filter.as_ref())))
        }
        Op::StreamPodSandboxes if world.quirks().stream_lists.is_some() => {
            let batch = world.quirks().stream_lists.unwrap_or(1);
            let request: v1::StreamPodSandboxesRequest = decode(request)?;
            Ok(Answer::batches(1, &sandbox_entries(&mut world, request.filter.as_ref()), batch))
        }
        Op::ListContainers => {
            let request: v1::ListContainersRequest = decode(request)?;
            Ok(Answer::list(1, &container_entries(&mut world, request.filter.as_ref())))
        }
        Op::StreamContainers if world.quirks().stream_lists.is_some() => {
            let batch = world.quirks().stream_lists.unwrap_or(1);
            let request: v1::StreamContainersRequest = decode(request)?;
            Ok(Answer::batches(1, &container_entries(&mut world, request.filter.as_ref()), batch))
        }
        Op::PodSandboxStatus => {
            let id = decode::<v1::PodSandboxStatusRequest>(request)?.pod_sandbox_id;
            let sandbox = world.find_sandbox(&id).map_err(|none| none.into_status("sandbox", &id))?;
            Ok(Answer::of(&world.sandbox_answer(sandbox)))
        }
        Op::ContainerStatus => {
            let id = decode::<v1::ContainerStatusRequest>(request)?.container_id;
            let container = world.find_container(&id).map_err(|none| none.into_status("container", &id))?;
            let status = Some(world.container_status(container));
            Ok(Answer::of(&v1::ContainerStatusResponse { status, ..Default::default() }))
        }
        _ => Err(Status::unimplemented(format!("method {op} not implemented"))),
    }
}

fn sandbox_entries(world: &mut World, filter: Option<&v1::PodSandboxFilter>) -> Vec<Bytes> {
    world.list_sandboxes(filter).into_iter().map(|listed| listed.entry).collect()
}

fn container_entries(world: &mut World, filter: Option<&v1::ContainerFilter>) -> Vec<Bytes> {
    world.list_containers(filter).into_iter().map(|listed| listed.entry).collect()
}

fn version(world: &World) -> v1::VersionResponse {
    let quirks = world.quirks();
    v1::VersionResponse {
        version: "0.1.0".to_owned(),
        runtime_name: quirks.runtime_name.to_owned(),
        runtime_version: quirks.runtime_version.to_owned(),
        runtime_api_version: "v1".to_owned(),
    }
}

fn status() -> v1::StatusResponse {
    let condition =
        |kind: &str| v1::RuntimeCondition { r#type: kind.to_owned(), status: true, ..Default::default() };
    v1::StatusResponse {
        status: Some(v1::RuntimeStatus {
            conditions: vec![condition("RuntimeReady"), condition("NetworkReady")],
        }),
        ..Default::default()
    }
}
