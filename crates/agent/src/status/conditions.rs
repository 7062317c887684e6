//! The conditions of a pod.

use k8s_openapi::api::core::v1::{ContainerStatus as ApiContainer, PodCondition};

use super::phase::Phase;
use super::{Inputs, time};
use crate::pod::{containers, init_containers, is_sidecar};

struct Verdict {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
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

/// The conditions of a pod, each with the time since which it is as it is.
pub(super) fn of(
    inputs: Inputs<'_>,
    phase: Phase,
    init: &[ApiContainer],
    regular: &[ApiContainer],
) -> Vec<PodCondition> {
    let ready = containers_ready(inputs, phase, init, regular);
    let pod_ready = Verdict { is_true: ready.is_true, reason: ready.reason, message: ready.message.clone() };
    let ready_to_start = Verdict { is_true: !inputs.lacks_sandbox, reason: None, message: None };
    [
        ("PodReadyToStartContainers", ready_to_start),
        ("Initialized", initialized(inputs, phase, init, regular)),
        ("Ready", pod_ready),
        ("ContainersReady", ready),
        ("PodScheduled", Verdict::yes()),
    ]
    .into_iter()
    .map(|(kind, verdict)| condition(inputs, kind, verdict))
    .collect()
}

fn condition(inputs: Inputs<'_>, kind: &str, verdict: Verdict) -> PodCondition {
    let status = if verdict.is_true { "True" } else { "False" };
    let before = inputs
        .before
        .and_then(|before| before.conditions.as_deref())
        .and_then(|all| all.iter().find(|condition| condition.type_ == kind && condition.status == status));
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.map(str::to_owned),
        message: verdict.message,
        last_transition_time: before
            .and_then(|before| before.last_transition_time.clone())
            .or_else(|| time(inputs.now)),
        ..PodCondition::default()
    }
}

fn listed(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

fn initialized(inputs: Inputs<'_>, phase: Phase, init: &[ApiContainer], regular: &[ApiContainer]) -> Verdict {
    if phase == Phase::Succeeded {
        return Verdict { is_true: true, reason: Some("PodCompleted"), message: None };
    }
    let has_begun = regular.iter().any(|status| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    let was_true = inputs.before.and_then(|before| before.conditions.as_deref()).is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "Initialized" && condition.status == "True")
    });
    let missing: Vec<&str> = init_containers(inputs.pod)
        .iter()
        .filter(|container| {
            let status = init.iter().find(|status| status.name == container.name);
            !status.is_some_and(|status| {
                if is_sidecar(container) { status.started == Some(true) } else { status.ready }
            })
        })
        .map(|container| container.name.as_str())
        .collect();
    if has_begun || was_true || missing.is_empty() {
        Verdict::yes()
    } else {
        Verdict::no("ContainersNotInitialized")
            .because(format!("containers with incomplete status: {}", listed(&missing)))
    }
}

fn containers_ready(
    inputs: Inputs<'_>,
    phase: Phase,
    init: &[ApiContainer],
    regular: &[ApiContainer],
) -> Verdict {
    match phase {
        Phase::Succeeded => return Verdict::no("PodCompleted"),
        Phase::Failed => return Verdict::no("PodFailed"),
        Phase::Pending | Phase::Running => {}
    }
    let is_ready =
        |all: &[ApiContainer], name: &str| all.iter().any(|status| status.name == name && status.ready);
    let sidecars = init_containers(inputs.pod).iter().filter(|container| is_sidecar(container));
    let unready: Vec<&str> = sidecars
        .filter(|container| !is_ready(init, &container.name))
        .chain(containers(inputs.pod).iter().filter(|container| !is_ready(regular, &container.name)))
        .map(|container| container.name.as_str())
        .collect();
    if unready.is_empty() {
        Verdict::yes()
    } else {
        Verdict::no("ContainersNotReady")
            .because(format!("containers with unready status: {}", listed(&unready)))
    }
}
