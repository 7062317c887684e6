//! What to do about a pod, given what it should be and what the runtime says it is.
//!
//! A pure function over values: it holds every rule about sandboxes, init containers, sidecars and restarts. Back-off
//! is not its business: it decides what should run, and `act` decides when to start it.

mod init;
mod sandbox;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus, SandboxId};

use super::config::PodAmounts;
use super::demand::own;
use super::grace::KillReason;
use super::grants::Grants;
use super::hash::container_hash;
use super::replaced::Replaced;
use super::resize::{self, Need};
use super::restart;
use super::spec::{self, ContainerKind, RestartPolicy};
use crate::probe::{Verdict, Verdicts};

pub(crate) use sandbox::Replacement;

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) status: &'a PodStatus,
    pub(crate) verdicts: &'a Verdicts,
    /// The containers that are known to have ended for good, even if the runtime no longer knows anything of them.
    pub(crate) over: &'a BTreeSet<String>,
    /// The resources that it and its containers were given.
    pub(crate) grants: &'a Grants,
    /// The instances that were ended to be started again.
    pub(crate) replaced: &'a Replaced,
    /// What it may use as a whole, by its manifest.
    pub(crate) amounts: &'a PodAmounts,
}

/// What to do about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing of it has to run any more: end what does, and stop its sandboxes.
    EndPod,
    /// It needs a new sandbox: end everything, make one, and start these in it.
    Recreate { replacement: Replacement, starts: Vec<Start> },
    /// A container ended in a way that restarts all containers: remove these, in this order. As long as that has to
    /// wait, `meanwhile` is done for the others.
    RestartAll { cause: Arc<str>, remove: Vec<ContainerId>, meanwhile: Option<Box<Plan>> },
    /// Its sandbox is fine.
    Adjust(Adjustment),
}

impl Plan {
    /// Whether everything is as it should be.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(
            self,
            Self::Adjust(Adjustment { kills, starts, resize: None, .. }) if kills.is_empty() && starts.is_empty()
        )
    }

    /// Whether what runs keeps running, and nothing is started beside it: then nothing else updates its volumes.
    pub(crate) fn starts_nothing(&self) -> bool {
        matches!(self, Self::Adjust(Adjustment { starts, .. }) if starts.is_empty())
    }
}

/// What to do in a sandbox that is fine: end these containers, then start those, then resize others. All may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adjustment {
    pub(crate) sandbox: SandboxId,
    pub(crate) attempt: u32,
    pub(crate) kills: Vec<Kill>,
    pub(crate) starts: Vec<Start>,
    pub(crate) resize: Option<Resize>,
}

/// The resources of the pod and its containers differ from the manifest: change those of the pod as a whole, and of
/// these containers, which keep running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resize(pub(crate) Vec<ContainerId>);

/// A container to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) id: ContainerId,
    pub(crate) name: Arc<str>,
    pub(crate) reason: KillReason,
    /// The message that users see.
    pub(crate) message: String,
}

/// A container to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) place: Place,
    /// An instance that was made but never started: start that one rather than make another.
    pub(crate) adopt: Option<ContainerId>,
}

/// Where in the spec a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Init(usize),
    Regular(usize),
}

impl Place {
    pub(crate) fn kind(self) -> ContainerKind {
        match self {
            Self::Init(_) => ContainerKind::Init,
            Self::Regular(_) => ContainerKind::Regular,
        }
    }

    /// The container at this place.
    pub(crate) fn of(self, pod: &Pod) -> Option<&Container> {
        match self {
            Self::Init(index) => spec::init_containers(pod).get(index),
            Self::Regular(index) => spec::containers(pod).get(index),
        }
    }
}

/// Decides what to do.
pub(crate) fn plan(inputs: Inputs<'_>) -> Plan {
    let usual = match sandbox::decide(inputs) {
        sandbox::Decision::Recreate(replacement) => recreate(inputs, replacement),
        sandbox::Decision::Keep { id, attempt } => adjust(inputs, id, attempt),
    };
    restart_all(inputs, usual)
}

/// Whether the pod has no sandbox that is as it should be, whatever is done about that.
pub(crate) fn lacks_sandbox(inputs: Inputs<'_>) -> bool {
    matches!(sandbox::decide(inputs), sandbox::Decision::Recreate(_))
}

/// Restarts all containers if one of them asks for it, and returns the `usual` plan otherwise.
fn restart_all(Inputs { pod, status, .. }: Inputs<'_>, usual: Plan) -> Plan {
    let asks = |container: &Container| restart::asks_for_all(container, status.newest(&container.name));
    let Some(cause) = spec::all_containers(pod).find(|container| asks(container)) else { return usual };
    // The container that asked goes last: as long as it is there, the rest is still to be done.
    let groups = [
        (spec::containers(pod), false),
        (spec::init_containers(pod), false),
        (spec::containers(pod), true),
        (spec::init_containers(pod), true),
    ];
    let remove = groups
        .into_iter()
        .flat_map(|(containers, asking)| containers.iter().filter(move |container| asks(container) == asking))
        .flat_map(|container| {
            status.containers.iter().filter(move |instance| *instance.name == *container.name)
        })
        .map(|instance| instance.id.clone())
        .collect();
    let waits = |start: &Start| start.place.of(pod).is_some_and(asks);
    let meanwhile = match usual {
        Plan::Adjust(mut adjustment) => {
            adjustment.starts.retain(|start| !waits(start));
            Some(Box::new(Plan::Adjust(adjustment)))
        }
        Plan::Recreate { replacement, mut starts } => {
            starts.retain(|start| !waits(start));
            Some(Box::new(Plan::Recreate { replacement, starts }))
        }
        // The pod does not end: it is restarted.
        Plan::EndPod | Plan::RestartAll { .. } => None,
    };
    Plan::RestartAll { cause: cause.name.as_str().into(), remove, meanwhile }
}

fn recreate(inputs: Inputs<'_>, replacement: Replacement) -> Plan {
    let Inputs { pod, status, over, replaced, .. } = inputs;
    let policy = RestartPolicy::of_pod(pod);
    if policy == RestartPolicy::Never && replacement.attempt != 0 && !status.containers.is_empty() {
        return Plan::EndPod;
    }
    // A pod that is always restarted starts from the beginning in a new sandbox, except for work that is done.
    let may_be_done = |container: &Container, exit_code| match policy {
        RestartPolicy::Always => {
            RestartPolicy::effective(pod, container) == RestartPolicy::OnFailure && exit_code == 0
        }
        RestartPolicy::OnFailure | RestartPolicy::Never => true,
    };
    let is_done = |container: &Container| match status.newest(&container.name) {
        Some(newest) => {
            newest.state == ContainerState::Exited
                && may_be_done(container, newest.exit_code)
                && !replaced.should_start(pod, container, Some(newest))
        }
        None => over.contains(&container.name),
    };
    let regular = spec::containers(pod);
    let to_start: Vec<usize> = (0..regular.len()).filter(|index| !is_done(&regular[*index])).collect();
    let was_ever_made = |container: &Container| {
        status.newest(&container.name).is_some_and(|newest| newest.state != ContainerState::Unknown)
    };
    if to_start.is_empty() && regular.iter().any(was_ever_made) {
        return Plan::EndPod;
    }
    let place = |index| Start { place: Place::Regular(index), adopt: None };
    let starts = if spec::init_containers(pod).is_empty() {
        to_start.into_iter().map(place).collect()
    } else {
        vec![Start { place: Place::Init(0), adopt: None }]
    };
    Plan::Recreate { replacement, starts }
}

fn adjust(inputs: Inputs<'_>, sandbox: SandboxId, attempt: u32) -> Plan {
    let Inputs { pod, status, .. } = inputs;
    let Some(init::Decision { is_initialised, mut kills, mut starts, mut resized }) = init::decide(inputs)
    else {
        return Plan::EndPod;
    };
    if is_initialised {
        let mut keeps = 0_usize;
        let mut regular = Vec::new();
        for (index, container) in spec::containers(pod).iter().enumerate() {
            match decide_regular(inputs, container) {
                Regular::Keep => keeps += 1,
                Regular::Resize(id) => {
                    keeps += 1;
                    resized.push(id);
                }
                Regular::Leave => {}
                Regular::Start { adopt } => regular.push(Start { place: Place::Regular(index), adopt }),
                Regular::Kill { kill, restart } => {
                    kills.push(kill);
                    if restart {
                        regular.push(Start { place: Place::Regular(index), adopt: None });
                    }
                }
            }
        }
        if keeps == 0 && regular.is_empty() {
            return Plan::EndPod;
        }
        starts.extend(regular);
    }
    kills.extend(strays(inputs, &starts));
    debug_assert!(status.active_sandbox().is_some_and(|active| active.id == sandbox));
    let is_resized = !resized.is_empty() || resize::changes_group(inputs.amounts, inputs.grants);
    let resize = is_resized.then_some(Resize(resized));
    Plan::Adjust(Adjustment { sandbox, attempt, kills, starts, resize })
}

/// What must be done for a running container to have the resources of the manifest.
fn resize_need(
    Inputs { pod, grants, .. }: Inputs<'_>,
    container: &Container,
    running: &ContainerStatus,
) -> Need {
    resize::need(container, own(pod), grants.holding(running, pod).as_ref())
}

fn resize_message(container: &Container) -> String {
    format!("Container {} resize requires restart", container.name)
}

enum Regular {
    Keep,
    Resize(ContainerId),
    Leave,
    Start { adopt: Option<ContainerId> },
    Kill { kill: Kill, restart: bool },
}

fn decide_regular(inputs: Inputs<'_>, container: &Container) -> Regular {
    let Inputs { pod, status, verdicts, over, replaced, .. } = inputs;
    let newest = status.newest(&container.name);
    if newest.is_none() && over.contains(&container.name) {
        return Regular::Leave;
    }
    let Some(running) = newest.filter(|newest| newest.state == ContainerState::Running) else {
        return if replaced.should_start(pod, container, newest) {
            Regular::Start { adopt: adoptable(inputs, container) }
        } else {
            Regular::Leave
        };
    };
    let may_restart = RestartPolicy::effective(pod, container) != RestartPolicy::Never;
    let failed_probe = |which: &str, reason| {
        let tail = if may_restart { ", will be restarted" } else { "" };
        let message = format!("Container {} failed {which} probe{tail}", container.name);
        Regular::Kill { kill: kill(running, reason, message), restart: may_restart }
    };
    if is_changed(container, running) {
        let message = format!("Container {} definition changed, will be restarted", container.name);
        let kill = kill(running, KillReason::Changed, message);
        return Regular::Kill { kill, restart: true };
    }
    let verdict = verdicts.of(&running.id);
    // A probe that is no longer wanted may still deliver a last verdict.
    if container.liveness_probe.is_some() && verdict.liveness == Some(Verdict::Failure) {
        return failed_probe("liveness", KillReason::LivenessProbe);
    }
    if container.startup_probe.is_some() && verdict.startup == Some(Verdict::Failure) {
        return failed_probe("startup", KillReason::StartupProbe);
    }
    match resize_need(inputs, container, running) {
        Need::Nothing => Regular::Keep,
        Need::InPlace => Regular::Resize(running.id.clone()),
        Need::Restart => {
            let kill = kill(running, KillReason::Resized, resize_message(container));
            Regular::Kill { kill, restart: true }
        }
    }
}

/// Returns a container that was made in the current sandbox from the current definition, and never started.
fn adoptable(Inputs { status, .. }: Inputs<'_>, container: &Container) -> Option<ContainerId> {
    let newest = status.newest(&container.name)?;
    let is_ours = newest.state == ContainerState::Created
        && newest.hash == Some(u64::from(container_hash(container)))
        && is_in_active_sandbox(status, newest);
    is_ours.then(|| newest.id.clone())
}

/// Selects what must not keep running beside what should: an older instance of a name, one in an older sandbox, a name
/// that is not in the spec, and, of a name that is about to start, whatever might still run.
fn strays(Inputs { pod, status, .. }: Inputs<'_>, starts: &[Start]) -> Vec<Kill> {
    let is_starting =
        |name: &str| starts.iter().any(|start| start.place.of(pod).is_some_and(|own| own.name == name));
    let is_wanted = |instance: &ContainerStatus| {
        status.newest(&instance.name).is_some_and(|newest| newest.id == instance.id)
            && is_in_active_sandbox(status, instance)
            && (spec::all_containers(pod).any(|container| *container.name == *instance.name)
                || is_ephemeral(pod, &instance.name))
    };
    let is_stray = |instance: &&ContainerStatus| match instance.state {
        ContainerState::Running => !is_wanted(instance),
        ContainerState::Unknown => is_starting(&instance.name),
        ContainerState::Created | ContainerState::Exited => false,
    };
    status
        .containers
        .iter()
        .filter(is_stray)
        .map(|instance| {
            if instance.state != ContainerState::Unknown {
                return kill(instance, KillReason::Stray, format!("Stopping container {}", instance.name));
            }
            let is_init = spec::init_containers(pod).iter().any(|init| *init.name == *instance.name);
            let what = if is_init { "Init container" } else { "Container" };
            let message = format!("{what} is in \"unknown\" state, try killing it before restart");
            kill(instance, KillReason::Unknown, message)
        })
        .collect()
}

fn is_ephemeral(pod: &Pod, name: &str) -> bool {
    let ephemeral = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.as_deref());
    ephemeral.unwrap_or_default().iter().any(|container| container.name == name)
}

/// Whether an instance is in the sandbox in which the pod runs, and not left over in an older one.
fn is_in_active_sandbox(status: &PodStatus, instance: &ContainerStatus) -> bool {
    status.active_sandbox().is_some_and(|active| active.id == instance.sandbox)
}

fn is_changed(container: &Container, running: &ContainerStatus) -> bool {
    running.hash != Some(u64::from(container_hash(container)))
}

fn kill(instance: &ContainerStatus, reason: KillReason, message: String) -> Kill {
    Kill { id: instance.id.clone(), name: instance.name.clone(), reason, message }
}
