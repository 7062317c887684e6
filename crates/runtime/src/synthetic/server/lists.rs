//! Lists of sandboxes and containers.

use bytes::Bytes;
use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::dispatch::unimplemented;
use super::shared::Shared;
use crate::synthetic::corrupt::{Shape, spoil};
use crate::synthetic::faults::{Faults, Spoil};
use crate::synthetic::op::Op;
use crate::synthetic::target::Target;

/// The field with the entries, in every answer that contains a list.
const ENTRIES: u32 = 1;

pub(super) fn sandboxes(shared: &Shared, request: &v1::ListPodSandboxRequest) -> Result<Answer, Status> {
    let entries = sandbox_entries(shared, Op::ListPodSandbox, request.filter.as_ref());
    Ok(Answer::list(ENTRIES, &entries))
}

pub(super) fn stream_sandboxes(
    shared: &Shared,
    request: &v1::StreamPodSandboxesRequest,
) -> Result<Answer, Status> {
    let batch = batch(shared, Op::StreamPodSandboxes)?;
    let entries = sandbox_entries(shared, Op::StreamPodSandboxes, request.filter.as_ref());
    Ok(Answer::batches(ENTRIES, &entries, batch))
}

pub(super) fn containers(shared: &Shared, request: &v1::ListContainersRequest) -> Result<Answer, Status> {
    let entries = container_entries(shared, Op::ListContainers, request.filter.as_ref());
    Ok(Answer::list(ENTRIES, &entries))
}

pub(super) fn stream_containers(
    shared: &Shared,
    request: &v1::StreamContainersRequest,
) -> Result<Answer, Status> {
    let batch = batch(shared, Op::StreamContainers)?;
    let entries = container_entries(shared, Op::StreamContainers, request.filter.as_ref());
    Ok(Answer::batches(ENTRIES, &entries, batch))
}

/// Returns how many entries a message of a streaming list holds, if the runtime has such lists.
pub(super) fn batch(shared: &Shared, op: Op) -> Result<usize, Status> {
    shared.look(|world| world.quirks().stream_lists).ok_or_else(|| unimplemented(op))
}

fn sandbox_entries(shared: &Shared, op: Op, filter: Option<&v1::PodSandboxFilter>) -> Vec<Bytes> {
    let may_spoil = shared.faults.may_spoil(op);
    shared.look(|world| {
        let listed = world.list_sandboxes(filter).into_iter();
        let entries = listed.filter_map(|listed| {
            if !may_spoil {
                return Some(listed.entry);
            }
            let target = Target {
                pod: Some(listed.about.pod().clone()),
                sandbox: Some(listed.about.id().clone()),
                container: None,
            };
            spoiled(&shared.faults, op, &target, Shape::SANDBOX, listed.entry)
        });
        entries.collect()
    })
}

fn container_entries(shared: &Shared, op: Op, filter: Option<&v1::ContainerFilter>) -> Vec<Bytes> {
    if !shared.faults.may_spoil(op) {
        return shared
            .look(|world| world.list_containers(filter).into_iter().map(|listed| listed.entry).collect());
    }
    let entries: Vec<_> = shared.look(|world| {
        let listed = world.list_containers(filter).into_iter();
        let listed: Vec<_> = listed.map(|listed| (listed.about.id().clone(), listed.entry)).collect();
        listed.into_iter().map(|(id, entry)| (Target::container(world, id.as_str()), entry)).collect()
    });
    let entries = entries
        .into_iter()
        .filter_map(|(target, entry)| spoiled(&shared.faults, op, &target, Shape::CONTAINER, entry));
    entries.collect()
}

fn spoiled(faults: &Faults, op: Op, target: &Target, shape: Shape, entry: Bytes) -> Option<Bytes> {
    match faults.spoil(op, target) {
        None => Some(entry),
        Some(Spoil::Corrupt(corruption)) => Some(spoil(shape, &entry, corruption)),
        Some(Spoil::Omit) => None,
    }
}
