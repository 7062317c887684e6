//! Reconciles a status with the previous one: illegal changes are refused, what has not changed keeps its time, and
//! everything gets the form in which the API stores it. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateTerminated, ContainerStatus as ApiContainer, Pod,
    PodStatus as ApiStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_model::UnixNanos;

use super::phase::init_code;
use super::time;
use crate::pod::{RestartPolicy, containers, could_ask_for_all, init_containers, is_sidecar, restarts_after};

/// The maximum total length of the termination messages of a pod.
const MOST_LAST_WORDS: usize = 12_288;
/// The maximum length of any other message, whatever its source: the runtime, a registry, the output of a hook.
const MOST_WORDS: usize = 10 << 10;

/// A container that may not run again has come back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "container {container} exited with {exit_code} and may not be restarted, but was reported as active again; its \
     previous status stays"
)]
pub(crate) struct IllegalTransition {
    container: String,
    exit_code: i32,
}

/// Returns the status to publish for a pod.
pub(crate) fn settle(
    pod: &Pod,
    before: Option<&ApiStatus>,
    mut status: ApiStatus,
    now: UnixNanos,
) -> Result<ApiStatus, IllegalTransition> {
    if let Some(before) = before.filter(|_| !may_all_come_back(pod)) {
        check(pod, before, &status)?;
    }
    let said = |kind: &str, value: &str| {
        let said = before.and_then(|before| before.conditions.as_deref()).unwrap_or_default();
        said.iter().find(|condition| condition.type_ == kind && condition.status == value)
    };
    for condition in status.conditions.iter_mut().flatten() {
        let since = said(&condition.type_, &condition.status)
            .and_then(|same| same.last_transition_time.clone())
            .or_else(|| condition.last_transition_time.take());
        condition.last_transition_time = since.or_else(|| time(now));
    }
    status.start_time = before.and_then(|before| before.start_time.clone()).or(status.start_time);
    status.start_time = status.start_time.or_else(|| time(now));
    status.observed_generation =
        status.observed_generation.max(before.and_then(|before| before.observed_generation));
    normalize(pod, &mut status);
    Ok(status)
}

/// Whether even containers that have ended for good may be restarted: together with all others, if one of them can ask
/// for that, or in the new sandbox of a pod that always has one.
fn may_all_come_back(pod: &Pod) -> bool {
    could_ask_for_all(pod) || RestartPolicy::of_pod(pod) == RestartPolicy::Always
}

/// Returns the containers that have ended for good according to the status of their pod, even if the runtime has
/// forgotten them.
pub(crate) fn over_for_good(pod: &Pod, said: &ApiStatus) -> BTreeSet<String> {
    if may_all_come_back(pod) {
        return BTreeSet::new();
    }
    let is_over = |container: &&ApiContainer| {
        let ended = container.state.as_ref().and_then(|state| state.terminated.as_ref());
        let own = containers(pod).iter().find(|own| own.name == container.name);
        ended.zip(own).is_some_and(|(ended, own)| !restarts_after(pod, own, ended.exit_code))
    };
    said.container_statuses.iter().flatten().filter(is_over).map(|container| container.name.clone()).collect()
}

/// Refuses the return of a container that may not come back. An init container that has completed may, with a new
/// sandbox.
fn check(pod: &Pod, before: &ApiStatus, status: &ApiStatus) -> Result<(), IllegalTransition> {
    let init = init_containers(pod).iter().filter(|container| !is_sidecar(container));
    let is_final = |container: &Container, ended: &ContainerStateTerminated| {
        !restarts_after(pod, container, ended.exit_code)
    };
    let is_final_init = |container: &Container, ended: &ContainerStateTerminated| {
        let code = init_code(ended);
        code != 0 && !restarts_after(pod, container, code)
    };
    let (lists, init_lists) = (
        (&before.container_statuses, &status.container_statuses),
        (&before.init_container_statuses, &status.init_container_statuses),
    );
    check_list(containers(pod).iter(), is_final, lists.0, lists.1)?;
    check_list(init, is_final_init, init_lists.0, init_lists.1)
}

fn check_list<'a>(
    wanted: impl Iterator<Item = &'a Container>,
    is_final: impl Fn(&Container, &ContainerStateTerminated) -> bool,
    before: &Option<Vec<ApiContainer>>,
    now: &Option<Vec<ApiContainer>>,
) -> Result<(), IllegalTransition> {
    fn state<'a>(all: &'a Option<Vec<ApiContainer>>, name: &str) -> Option<&'a ApiState> {
        all.iter().flatten().find(|status| status.name == name)?.state.as_ref()
    }
    for container in wanted {
        let ended = state(before, &container.name).and_then(|state| state.terminated.as_ref());
        let Some(ended) = ended else { continue };
        let comes_back = state(now, &container.name).is_some_and(|state| state.terminated.is_none());
        if comes_back && is_final(container, ended) {
            return Err(IllegalTransition { container: container.name.clone(), exit_code: ended.exit_code });
        }
    }
    Ok(())
}

/// Puts a status in the API's form: whole seconds, short messages, sorted names.
fn normalize(pod: &Pod, status: &mut ApiStatus) {
    let ephemeral = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.as_deref());
    let count = containers(pod).len() + init_containers(pod).len() + ephemeral.map_or(0, <[_]>::len);
    let most = MOST_LAST_WORDS / count.max(1);
    whole_second(&mut status.start_time);
    cut(&mut status.message, MOST_WORDS);
    for condition in status.conditions.iter_mut().flatten() {
        whole_second(&mut condition.last_transition_time);
        whole_second(&mut condition.last_probe_time);
        cut(&mut condition.message, MOST_WORDS);
    }
    let init = status.init_container_statuses.iter_mut().flatten();
    let regular = status.container_statuses.iter_mut().flatten();
    for container in init.chain(regular) {
        for state in [&mut container.state, &mut container.last_state].into_iter().flatten() {
            normalize_state(state, most);
        }
    }
    if let Some(all) = &mut status.container_statuses {
        all.sort_by(|a, b| a.name.cmp(&b.name));
    }
    if let Some(all) = &mut status.init_container_statuses {
        let place = |name: &str| init_containers(pod).iter().position(|container| container.name == name);
        all.sort_by_key(|one| place(&one.name));
    }
}

fn normalize_state(state: &mut ApiState, most: usize) {
    if let Some(waiting) = &mut state.waiting {
        cut(&mut waiting.message, MOST_WORDS);
    }
    if let Some(running) = &mut state.running {
        whole_second(&mut running.started_at);
    }
    if let Some(ended) = &mut state.terminated {
        whole_second(&mut ended.started_at);
        whole_second(&mut ended.finished_at);
        cut(&mut ended.message, most);
    }
}

fn cut(message: &mut Option<String>, most: usize) {
    if let Some(message) = message
        && message.len() > most
    {
        let mut end = most;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
    }
}

fn whole_second(time: &mut Option<Time>) {
    if let Some(time) = time
        && let Ok(whole) = jiff::Timestamp::from_second(time.0.as_second())
    {
        *time = Time(whole);
    }
}

#[cfg(test)]
mod tests;
