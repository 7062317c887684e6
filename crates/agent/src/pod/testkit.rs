//! Concise pods and statuses for tables.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, Pod, PodSpec, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_model::{
    ContainerState, ContainerStatus, PodRef, PodStatus, SandboxState, SandboxStatus, UnixNanos,
};

use super::hash::container_hash;

pub(crate) const IMAGE: &str = "image:1";

pub(crate) fn container(name: &str) -> Container {
    Container { name: name.to_owned(), image: Some(IMAGE.to_owned()), ..Container::default() }
}

/// This much of each, as request and as limit.
pub(crate) fn resources(cpu: &str, memory: &str) -> ResourceRequirements {
    let amounts: BTreeMap<String, Quantity> = [("cpu", cpu), ("memory", memory)]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into();
    ResourceRequirements { requests: Some(amounts.clone()), limits: Some(amounts), claims: None }
}

/// A pod on the host's network. Init containers whose names end in `*` are sidecars (the star is not part of the name).
pub(crate) fn pod(policy: &str, init: &[&str], containers: &[&str]) -> Pod {
    let init = init.iter().map(|name| match name.strip_suffix('*') {
        Some(name) => Container { restart_policy: Some("Always".to_owned()), ..container(name) },
        None => container(name),
    });
    let mut pod = Pod {
        spec: Some(PodSpec {
            restart_policy: Some(policy.to_owned()),
            host_network: Some(true),
            init_containers: Some(init.collect()),
            containers: containers.iter().map(|name| container(name)).collect(),
            termination_grace_period_seconds: Some(30),
            ..PodSpec::default()
        }),
        ..Pod::default()
    };
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.uid = Some("uid".to_owned());
    pod
}

/// Makes a container do `action` when it ends with one of these codes, and never start again otherwise.
pub(crate) fn on_exit(container: &mut Container, action: &str, codes: &[i32]) {
    container.restart_policy = Some("Never".to_owned());
    let exit_codes =
        ContainerRestartRuleOnExitCodes { operator: "In".to_owned(), values: Some(codes.to_vec()) };
    container.restart_policy_rules =
        Some(vec![ContainerRestartRule { action: action.to_owned(), exit_codes: Some(exit_codes) }]);
}

/// The state of a container in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Is {
    Created,
    Running,
    Exited(i32),
    Unknown,
}

/// An instance of a container, whose id is its name and attempt: `web-0`.
pub(crate) fn instance(name: &str, attempt: u32, is: Is, sandbox: &str) -> ContainerStatus {
    let (state, exit_code) = match is {
        Is::Created => (ContainerState::Created, 0),
        Is::Running => (ContainerState::Running, 0),
        Is::Exited(code) => (ContainerState::Exited, code),
        Is::Unknown => (ContainerState::Unknown, 0),
    };
    let reason = match is {
        Is::Exited(0) => "Completed",
        Is::Exited(_) => "Error",
        _ => "",
    };
    ContainerStatus {
        id: format!("{name}-{attempt}").into(),
        name: name.into(),
        sandbox: sandbox.into(),
        attempt,
        state,
        created_at: UnixNanos(1_000_000_000 * (1 + i64::from(attempt))),
        started_at: UnixNanos(1_000_000_000 * (2 + i64::from(attempt))),
        finished_at: UnixNanos(if matches!(is, Is::Exited(_)) {
            1_000_000_000 * (3 + i64::from(attempt))
        } else {
            0
        }),
        exit_code,
        reason: reason.into(),
        message: "".into(),
        image: IMAGE.into(),
        image_ref: "sha256:1".into(),
        log_path: "".into(),
        hash: Some(u64::from(container_hash(&container(name)))),
        restart_count: attempt,
        user: None,
    }
}

pub(crate) fn sandbox(attempt: u32, state: SandboxState) -> SandboxStatus {
    SandboxStatus {
        id: format!("sandbox-{attempt}").into(),
        attempt,
        state,
        created_at: UnixNanos(i64::from(attempt) + 1),
        ips: Vec::new(),
        has_network: true,
        is_on_host_network: None,
        has_own_users: None,
        runtime_handler: "".into(),
    }
}

/// A status with one sandbox, number 0, and first instances in it.
pub(crate) fn status(state: SandboxState, containers: &[(&str, Is)]) -> PodStatus {
    PodStatus {
        pod: PodRef::new("uid", "default", "web"),
        ips: Vec::new(),
        sandboxes: vec![sandbox(0, state)],
        containers: containers.iter().map(|(name, is)| instance(name, 0, *is, "sandbox-0")).collect(),
    }
}
