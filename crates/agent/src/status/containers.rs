//! The states of containers, as the API shows them.

use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus as ApiContainer, ContainerUser, LinuxContainerUser, Pod,
    VolumeMount, VolumeMountStatus,
};
use rubelet_model::{ContainerState, ContainerStatus};

use super::phase::init_code;
use super::{Inputs, raw_time, resources, restarting};
use crate::pod::{containers, init_containers, init_exit_code, is_being_deleted, is_sidecar};
use crate::probe::Verdict;
use crate::resource;
use crate::volumes::RecursiveReadOnly;

/// The kubelet's reason for a container that is about to be created.
const CREATING: &str = "ContainerCreating";
/// The exit code of a killed process.
const LOST_EXIT_CODE: i32 = 137;
const LOST_REASON: &str = "ContainerStatusUnknown";
const LOST_AT_END: &str = "The container could not be located when the pod was terminated";
const LOST_WHILE_RUNNING: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";

/// Returns the states of init containers, in the order of the spec.
pub(super) fn init(inputs: Inputs<'_>) -> Vec<ApiContainer> {
    let before = inputs.before.and_then(|status| status.init_container_statuses.as_deref());
    let before = before.unwrap_or_default();
    let is_unseen = |container: &Container| inputs.runtime.newest(&container.name).is_none();
    let has_begun = containers(inputs.pod).iter().any(|container| !is_unseen(container));
    init_containers(inputs.pod)
        .iter()
        .map(|container| {
            let mut status = one(inputs, container, find(before, &container.name), Part::Init);
            let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
            if !is_sidecar(container) && has_begun && is_unseen(container) && waits {
                status.state = Some(terminated(ContainerStateTerminated {
                    exit_code: 0,
                    reason: Some("Completed".to_owned()),
                    ..ContainerStateTerminated::default()
                }));
            }
            if !is_sidecar(container) {
                let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
                status.ready = ended.is_some_and(|ended| init_code(ended) == 0);
            }
            status
        })
        .collect()
}

/// Returns the states of containers, by name.
pub(super) fn regular(inputs: Inputs<'_>) -> Vec<ApiContainer> {
    let before = inputs.before.and_then(|status| status.container_statuses.as_deref());
    let before = before.unwrap_or_default();
    let mut all: Vec<ApiContainer> = containers(inputs.pod)
        .iter()
        .map(|container| one(inputs, container, find(before, &container.name), Part::Regular))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Completes the states in a pod in which nothing will run any more: for containers that have not ended, it is unknown
/// how they ended. Those that could not have started yet stay as they are.
pub(super) fn end(pod: &Pod, init: &mut [ApiContainer], regular: &mut [ApiContainer]) {
    let has_begun = |status: &ApiContainer| {
        let state = status.state.as_ref();
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
            || status.last_state.as_ref().is_some_and(|state| state.terminated.is_some())
    };
    let last_is_done = || {
        let (container, status) = (init_containers(pod).last()?, init.last()?);
        let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        let ended = ended.or_else(|| status.last_state.as_ref().and_then(|state| state.terminated.as_ref()));
        Some(if is_sidecar(container) {
            status.started == Some(true)
        } else {
            ended.is_some_and(|ended| init_code(ended) == 0)
        })
    };
    if init.is_empty() || regular.iter().any(has_begun) || last_is_done().unwrap_or(false) {
        regular.iter_mut().for_each(end_one);
    }
    let begun = init.iter().rposition(has_begun).unwrap_or(0);
    init.iter_mut().take(begun + 1).for_each(end_one);
}

fn end_one(status: &mut ApiContainer) {
    if status.state.as_ref().is_none_or(|state| state.terminated.is_none()) {
        status.state = Some(terminated(lost(LOST_AT_END)));
        (status.ready, status.started) = (false, Some(false));
    }
}

pub(super) fn find<'a>(statuses: &'a [ApiContainer], name: &str) -> Option<&'a ApiContainer> {
    statuses.iter().find(|status| status.name == name)
}

/// The list that a container is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Init,
    Regular,
}

fn one(inputs: Inputs<'_>, container: &Container, before: Option<&ApiContainer>, part: Part) -> ApiContainer {
    let (newest, previous) = inputs.runtime.newest_two(&container.name);
    let mut status = match newest {
        Some(newest) => seen(inputs, container, newest, previous, before),
        None => unseen(inputs, container, before),
    };
    let is_done = part == Part::Init
        && newest.is_some_and(|newest| {
            newest.state == ContainerState::Exited && init_exit_code(newest.exit_code, &newest.reason) == 0
        });
    let comes_back =
        !inputs.is_over && !is_done && inputs.replaced.should_start(inputs.pod, container, newest);
    let waits_for = match inputs.troubles.get(container.name.as_str()) {
        Some(trouble) => Some((trouble.reason, Some(&*trouble.message))),
        None => newest.filter(|newest| inputs.replaced.has_ended(newest)).map(|_| (CREATING, None)),
    };
    if let Some((reason, message)) = waits_for.filter(|_| comes_back) {
        if let Some(ended) = status.state.take().filter(|state| state.terminated.is_some()) {
            status.last_state = Some(ended);
        }
        status.state = Some(waiting(Some(reason), message));
    }
    status
}

/// Returns the status of a container about which the runtime knows something.
fn seen(
    inputs: Inputs<'_>,
    container: &Container,
    newest: &ContainerStatus,
    previous: Option<&ContainerStatus>,
    before: Option<&ApiContainer>,
) -> ApiContainer {
    let id = |instance: &ContainerStatus| format!("{}://{}", inputs.runtime_name, instance.id);
    let old_state = before.and_then(|before| before.state.as_ref());
    // The runtime may have lost only the newest instance.
    let said = before.map_or(0, |before| before.restart_count);
    let mut restart_count = i32::try_from(newest.restart_count).unwrap_or(i32::MAX).max(said);
    let state = match newest.state {
        ContainerState::Running => ApiState {
            running: Some(ContainerStateRunning { started_at: raw_time(newest.started_at) }),
            ..ApiState::default()
        },
        ContainerState::Created => waiting(None, None),
        ContainerState::Exited => terminated(exit(inputs, newest, id(newest))),
        ContainerState::Unknown => match before {
            Some(_) if old_state.is_some_and(|state| state.running.is_some()) => {
                restart_count = said + 1;
                terminated(lost(LOST_AT_END))
            }
            // It was reported as lost, and has not been found since.
            Some(before) if was_lost(before, &id(newest)) => before.state.clone().unwrap_or_default(),
            _ => waiting(None, None),
        },
    };
    let of_previous = previous
        .filter(|previous| previous.state == ContainerState::Exited)
        .map(|previous| terminated(exit(inputs, previous, id(previous))));
    // The runtime may have forgotten the previous instance, but what was reported about it is not lost. The newest
    // instance itself was the last one while it waited for the next.
    let of_before = || {
        let before = before?;
        let newest = id(newest);
        let is_another = before.container_id.as_deref() != Some(&newest);
        let ended = before.state.clone().filter(|state| state.terminated.is_some() && is_another);
        let last = before.last_state.clone().filter(|state| {
            state.terminated.as_ref().is_some_and(|ended| ended.container_id.as_deref() != Some(&newest))
        });
        ended.or(last)
    };
    let is_running = newest.state == ContainerState::Running;
    let verdict = inputs.verdicts.of(&newest.id);
    let started =
        is_running && (container.startup_probe.is_none() || verdict.startup == Some(Verdict::Success));
    let ready =
        started && (container.readiness_probe.is_none() || verdict.readiness == Some(Verdict::Success));
    ApiContainer {
        name: container.name.clone(),
        // Some runtimes know an image that was requested by ID by nothing else; users know it by its name.
        image: if newest.image.is_empty() || newest.image.starts_with("sha256:") {
            container.image.clone().unwrap_or_default()
        } else {
            newest.image.to_string()
        },
        image_id: newest.image_ref.to_string(),
        container_id: Some(id(newest)),
        restart_count,
        state: Some(state),
        last_state: of_previous.or_else(of_before),
        started: Some(started),
        ready,
        // Until a change is applied, what it has differs from what it was allotted.
        resources: if is_running {
            let given = inputs.grants.of(newest).or(container.resources.as_ref());
            resources::holding(inputs.grants.passed_on(newest, inputs.pod), given)
        } else {
            container.resources.as_ref().and_then(resource::written)
        },
        allocated_resources: container
            .resources
            .as_ref()
            .and_then(resource::written)
            .and_then(|resources| resources.requests),
        volume_mounts: mounts(inputs, container),
        user: newest.user.as_ref().map(user),
        ..ApiContainer::default()
    }
}

/// Returns the user it runs as, in the API's form. An empty list of groups is left out.
fn user(user: &rubelet_model::ContainerUser) -> ContainerUser {
    let groups = user.supplemental_groups.clone();
    ContainerUser {
        linux: Some(LinuxContainerUser {
            uid: user.uid,
            gid: user.gid,
            supplemental_groups: (!groups.is_empty()).then_some(groups),
        }),
    }
}

/// Returns what is mounted where. A read-only mount states whether the mounts below it are read-only as well.
fn mounts(inputs: Inputs<'_>, container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mount = |mount: &VolumeMount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only,
        recursive_read_only: mount.read_only.filter(|read_only| *read_only).map(|_| {
            let is_so = RecursiveReadOnly::of(mount).resolve(inputs.features.recursive_read_only);
            if is_so == Some(true) { "Enabled" } else { "Disabled" }.to_owned()
        }),
        ..VolumeMountStatus::default()
    };
    container.volume_mounts.as_ref().map(|mounts| mounts.iter().map(mount).collect())
}

/// Returns the status of a container about which the runtime knows nothing.
fn unseen(inputs: Inputs<'_>, container: &Container, before: Option<&ApiContainer>) -> ApiContainer {
    let has_init = !init_containers(inputs.pod).is_empty();
    let reason = if has_init { "PodInitializing" } else { CREATING };
    let fresh = ApiContainer {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        restart_count: before.map_or(0, |before| before.restart_count),
        last_state: before.and_then(|before| before.last_state.clone()),
        state: Some(waiting(Some(reason), None)),
        started: Some(false),
        volume_mounts: mounts(inputs, container),
        ..ApiContainer::default()
    };
    let Some(before) = before else { return fresh };
    let state = before.state.as_ref();
    let was_on = state.is_some_and(|state| state.waiting.is_none());
    if restarting::was_under_way(inputs.before) && was_on && !inputs.is_over {
        return ApiContainer {
            restart_count: before.restart_count + 1,
            state: Some(waiting(Some(restarting::REASON), Some(restarting::MESSAGE))),
            last_state: Some(terminated(ContainerStateTerminated {
                exit_code: LOST_EXIT_CODE,
                reason: Some(restarting::REASON.to_owned()),
                message: Some(restarting::MESSAGE.to_owned()),
                ..ContainerStateTerminated::default()
            })),
            ..fresh
        };
    }
    if state.is_some_and(|state| state.terminated.is_some()) {
        return before.clone();
    }
    // If it ended before that, this is what is known about its end.
    let has_ended = fresh.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    if state.is_some_and(|state| state.running.is_some()) && !has_ended {
        return ApiContainer {
            restart_count: before.restart_count + i32::from(!is_being_deleted(inputs.pod)),
            last_state: Some(terminated(lost(LOST_WHILE_RUNNING))),
            ..fresh
        };
    }
    fresh
}

fn exit(inputs: Inputs<'_>, instance: &ContainerStatus, id: String) -> ContainerStateTerminated {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let last_words = inputs.last_words.get(&instance.id).map(String::as_str).unwrap_or_default();
    let message = match (&*instance.message, last_words) {
        ("", words) => text(words),
        (message, "") => text(message),
        (message, words) => Some(format!("{message}: {words}")),
    };
    ContainerStateTerminated {
        exit_code: instance.exit_code,
        reason: text(&instance.reason),
        message,
        started_at: raw_time(instance.started_at),
        finished_at: raw_time(instance.finished_at),
        container_id: Some(id),
        signal: None,
    }
}

fn lost(message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: LOST_EXIT_CODE,
        reason: Some(LOST_REASON.to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    }
}

/// Whether this very instance was reported as lost.
fn was_lost(before: &ApiContainer, id: &str) -> bool {
    let ended = before.state.as_ref().and_then(|state| state.terminated.as_ref());
    before.container_id.as_deref() == Some(id) && ended.is_some_and(is_lost)
}

/// Whether it is unknown how the container ended. Unless its pod is over, its count includes the restart that follows.
pub(crate) fn is_lost(ended: &ContainerStateTerminated) -> bool {
    ended.reason.as_deref() == Some(LOST_REASON)
}

fn terminated(terminated: ContainerStateTerminated) -> ApiState {
    ApiState { terminated: Some(terminated), ..ApiState::default() }
}

fn waiting(reason: Option<&str>, message: Option<&str>) -> ApiState {
    let text = |text: Option<&str>| text.map(str::to_owned);
    ApiState {
        waiting: Some(ContainerStateWaiting { reason: text(reason), message: text(message) }),
        ..ApiState::default()
    }
}
