//! The conditions of a pod.

use k8s_openapi::api::core::v1::{ContainerStatus as ApiContainer, Pod, PodCondition};

use super::containers::find;
use super::phase::Phase;
use super::{Inputs, resize_pending, resizing, restarting};
use crate::pod::{containers, init_containers, is_sidecar};

/// The conditions that the agent sets. Others are left as they are.
const OWN: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Whether a condition holds, and why not.
#[derive(Clone)]
struct Holds {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Holds {
    fn yes() -> Self {
        Self { is_true: true, reason: None, message: None }
    }

    fn no(reason: &'static str) -> Self {
        Self { is_true: false, reason: Some(reason), message: None }
    }

    fn because(self, message: String) -> Self {
        Self { message: Some(message), ..self }
    }
}

/// Returns the conditions of a pod. The previous status tells since when they hold.
pub(super) fn of(
    inputs: Inputs<'_>,
    phase: Phase,
    is_resizing: bool,
    init: &[ApiContainer],
    regular: &[ApiContainer],
) -> Vec<PodCondition> {
    let containers_ready = containers_ready(inputs.pod, phase, init, regular);
    let holds = [
        Holds { is_true: !inputs.lacks_sandbox, reason: None, message: None },
        initialized(inputs, phase, init, regular),
        ready(inputs.pod, containers_ready.clone()),
        containers_ready,
        Holds::yes(),
    ];
    let own = OWN.into_iter().zip(holds).map(|(kind, holds)| PodCondition {
        type_: kind.to_owned(),
        status: if holds.is_true { "True" } else { "False" }.to_owned(),
        reason: holds.reason.map(str::to_owned),
        message: holds.message,
        observed_generation: inputs.pod.metadata.generation,
        ..PodCondition::default()
    });
    let is_own = |kind: &str| {
        OWN.contains(&kind)
            || [restarting::CONDITION, resize_pending::CONDITION, resizing::CONDITION].contains(&kind)
    };
    let others = given(inputs.pod).iter().filter(|condition| !is_own(&condition.type_));
    let waits = inputs.resize_pending.filter(|_| !phase.is_terminal()).map(|why| why.condition(inputs.pod));
    let own = own.chain(restarting::condition(inputs, phase)).chain(waits);
    own.chain(resizing::condition(inputs, phase, is_resizing)).chain(others.cloned()).collect()
}

/// Returns the conditions that someone else has set.
fn given(pod: &Pod) -> &[PodCondition] {
    pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// The containers that do not fulfil a condition.
#[derive(Default)]
struct Missing<'a>(Vec<&'a str>);

impl<'a> Missing<'a> {
    /// Checks a container. Each container of the pod has a status, even if only to say that it waits.
    fn look(&mut self, name: &'a str, all: &[ApiContainer], is_fine: impl Fn(&ApiContainer) -> bool) {
        if !find(all, name).is_some_and(is_fine) {
            self.0.push(name);
        }
    }

    /// Returns a message; `None` if no containers are missing.
    fn message(&self, what: &str) -> Option<String> {
        (!self.0.is_empty()).then(|| format!("containers with {what} status: [{}]", self.0.join(" ")))
    }
}

fn initialized(inputs: Inputs<'_>, phase: Phase, init: &[ApiContainer], regular: &[ApiContainer]) -> Holds {
    let wanted = init_containers(inputs.pod);
    let mut missing = Missing::default();
    for container in wanted {
        missing.look(&container.name, init, |status| {
            if is_sidecar(container) { status.started == Some(true) } else { status.ready }
        });
    }
    if phase == Phase::Succeeded {
        return Holds { is_true: true, reason: Some("PodCompleted"), message: None };
    }
    let has_begun = regular.iter().any(|status| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    let was_true = inputs.before.and_then(|before| before.conditions.as_deref()).is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "Initialized" && condition.status == "True")
    });
    match missing.message("incomplete") {
        Some(message) if !has_begun && !was_true => Holds::no("ContainersNotInitialized").because(message),
        _ => Holds::yes(),
    }
}

fn containers_ready(pod: &Pod, phase: Phase, init: &[ApiContainer], regular: &[ApiContainer]) -> Holds {
    let mut missing = Missing::default();
    for sidecar in init_containers(pod).iter().filter(|container| is_sidecar(container)) {
        missing.look(&sidecar.name, init, |status| status.ready);
    }
    for container in containers(pod) {
        missing.look(&container.name, regular, |status| status.ready);
    }
    match (phase, missing.message("unready")) {
        (Phase::Succeeded, _) => Holds::no("PodCompleted"),
        (Phase::Failed, _) => Holds::no("PodFailed"),
        (_, Some(message)) => Holds::no("ContainersNotReady").because(message),
        (_, None) => Holds::yes(),
    }
}

/// Whether a pod is ready: its containers are, and so is everything else it waits for.
fn ready(pod: &Pod, containers_ready: Holds) -> Holds {
    if !containers_ready.is_true {
        return containers_ready;
    }
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    let closed = gates.iter().filter_map(|gate| {
        let kind = &gate.condition_type;
        match given(pod).iter().find(|condition| condition.type_ == *kind) {
            None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(condition) if condition.status == "True" => None,
            Some(condition) => Some(format!(
                "the status of pod readiness gate {kind:?} is not \"True\", but {}",
                condition.status
            )),
        }
    });
    let closed: Vec<String> = closed.collect();
    if closed.is_empty() {
        Holds::yes()
    } else {
        Holds::no("ReadinessGatesNotReady").because(closed.join(", "))
    }
}
