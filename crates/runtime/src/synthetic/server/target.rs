//! The target of a request.

use bytes::Bytes;
use rubelet_cri::v1;
use tonic::Status;

use super::dispatch::decode;
use super::shared::Shared;
use crate::synthetic::op::Op;
use crate::synthetic::target::Target;
use crate::synthetic::world::World;

/// Determines the target of a request. A request that cannot be decoded has none; its work will report the error.
pub(super) fn of(shared: &Shared, op: Op, request: Bytes) -> Target {
    shared.look(|world| find(world, op, request)).unwrap_or(Target::NODE)
}

fn find(world: &World, op: Op, request: Bytes) -> Result<Target, Status> {
    Ok(match op {
        Op::ListPodSandbox => {
            let request: v1::ListPodSandboxRequest = decode(request)?;
            Target::sandbox_filter(world, request.filter.as_ref())
        }
        Op::StreamPodSandboxes => {
            let request: v1::StreamPodSandboxesRequest = decode(request)?;
            Target::sandbox_filter(world, request.filter.as_ref())
        }
        Op::ListContainers => {
            let request: v1::ListContainersRequest = decode(request)?;
            Target::container_filter(world, request.filter.as_ref())
        }
        Op::StreamContainers => {
            let request: v1::StreamContainersRequest = decode(request)?;
            Target::container_filter(world, request.filter.as_ref())
        }
        Op::RunPodSandbox => {
            let request: v1::RunPodSandboxRequest = decode(request)?;
            let metadata = request.config.and_then(|config| config.metadata);
            let uid = metadata.map(|metadata| metadata.uid).filter(|uid| !uid.is_empty());
            Target { pod: uid.map(Into::into), ..Target::NODE }
        }
        Op::StopPodSandbox => sandbox(world, &decode::<v1::StopPodSandboxRequest>(request)?.pod_sandbox_id),
        Op::RemovePodSandbox => {
            sandbox(world, &decode::<v1::RemovePodSandboxRequest>(request)?.pod_sandbox_id)
        }
        Op::PodSandboxStatus => {
            sandbox(world, &decode::<v1::PodSandboxStatusRequest>(request)?.pod_sandbox_id)
        }
        Op::PodSandboxStats => sandbox(world, &decode::<v1::PodSandboxStatsRequest>(request)?.pod_sandbox_id),
        Op::UpdatePodSandboxResources => {
            sandbox(world, &decode::<v1::UpdatePodSandboxResourcesRequest>(request)?.pod_sandbox_id)
        }
        Op::PortForward => sandbox(world, &decode::<v1::PortForwardRequest>(request)?.pod_sandbox_id),
        Op::CreateContainer => sandbox(world, &decode::<v1::CreateContainerRequest>(request)?.pod_sandbox_id),
        Op::StartContainer => container(world, &decode::<v1::StartContainerRequest>(request)?.container_id),
        Op::StopContainer => container(world, &decode::<v1::StopContainerRequest>(request)?.container_id),
        Op::RemoveContainer => container(world, &decode::<v1::RemoveContainerRequest>(request)?.container_id),
        Op::ContainerStatus => container(world, &decode::<v1::ContainerStatusRequest>(request)?.container_id),
        Op::ContainerStats => container(world, &decode::<v1::ContainerStatsRequest>(request)?.container_id),
        Op::UpdateContainerResources => {
            container(world, &decode::<v1::UpdateContainerResourcesRequest>(request)?.container_id)
        }
        Op::ReopenContainerLog => {
            container(world, &decode::<v1::ReopenContainerLogRequest>(request)?.container_id)
        }
        Op::CheckpointContainer => {
            container(world, &decode::<v1::CheckpointContainerRequest>(request)?.container_id)
        }
        Op::ExecSync => container(world, &decode::<v1::ExecSyncRequest>(request)?.container_id),
        Op::Exec => container(world, &decode::<v1::ExecRequest>(request)?.container_id),
        Op::Attach => container(world, &decode::<v1::AttachRequest>(request)?.container_id),
        Op::Version
        | Op::Status
        | Op::RuntimeConfig
        | Op::UpdateRuntimeConfig
        | Op::GetContainerEvents
        | Op::ListContainerStats
        | Op::StreamContainerStats
        | Op::ListPodSandboxStats
        | Op::StreamPodSandboxStats
        | Op::ListMetricDescriptors
        | Op::ListPodSandboxMetrics
        | Op::StreamPodSandboxMetrics
        | Op::ListImages
        | Op::StreamImages
        | Op::ImageStatus
        | Op::PullImage
        | Op::RemoveImage
        | Op::ImageFsInfo => Target::NODE,
    })
}

fn sandbox(world: &World, id: &str) -> Target {
    Target::sandbox(world, id)
}

fn container(world: &World, id: &str) -> Target {
    Target::container(world, id)
}
