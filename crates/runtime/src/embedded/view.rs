//! Converts the objects in memory to CRI messages. Pure.

use rubelet_cri::v1;

use super::registry::{Container, Sandbox};
use super::state::{ContainerState, SandboxState};

fn cri_state(state: &ContainerState) -> v1::ContainerState {
    match state {
        // Until its program runs, a container is only created; the caller of the start gets the outcome in time.
        ContainerState::Created | ContainerState::Starting => v1::ContainerState::ContainerCreated,
        ContainerState::Running { .. } => v1::ContainerState::ContainerRunning,
        ContainerState::Exited(_) => v1::ContainerState::ContainerExited,
    }
}

fn cri_sandbox_state(state: SandboxState) -> v1::PodSandboxState {
    match state {
        SandboxState::Ready => v1::PodSandboxState::SandboxReady,
        SandboxState::NotReady => v1::PodSandboxState::SandboxNotready,
    }
}

pub(crate) fn sandbox_item(sandbox: &Sandbox) -> v1::PodSandbox {
    let record = sandbox.record.read();
    v1::PodSandbox {
        id: sandbox.id.clone(),
        metadata: sandbox.config.metadata.clone(),
        state: cri_sandbox_state(record.state) as i32,
        created_at: record.created_at,
        labels: sandbox.config.labels.clone(),
        annotations: sandbox.config.annotations.clone(),
        runtime_handler: String::new(),
    }
}

pub(crate) fn sandbox_status(sandbox: &Sandbox) -> v1::PodSandboxStatus {
    let record = sandbox.record.read();
    let context = sandbox.config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = context.and_then(|context| context.namespace_options.clone()).unwrap_or_default();
    v1::PodSandboxStatus {
        id: sandbox.id.clone(),
        metadata: sandbox.config.metadata.clone(),
        state: cri_sandbox_state(record.state) as i32,
        created_at: record.created_at,
        network: network(&record.ips),
        linux: Some(v1::LinuxPodSandboxStatus { namespaces: Some(v1::Namespace { options: Some(options) }) }),
        labels: sandbox.config.labels.clone(),
        annotations: sandbox.config.annotations.clone(),
        runtime_handler: String::new(),
    }
}

/// Without addresses there is no network status, so that loopback is not taken for a broken network.
fn network(ips: &[String]) -> Option<v1::PodSandboxNetworkStatus> {
    let (ip, more) = ips.split_first()?;
    let additional_ips = more.iter().cloned().map(|ip| v1::PodIp { ip }).collect();
    Some(v1::PodSandboxNetworkStatus { ip: ip.clone(), additional_ips })
}

pub(crate) fn container_item(container: &Container) -> v1::Container {
    let (record, config) = (&container.record, &container.config);
    v1::Container {
        id: record.id.clone(),
        pod_sandbox_id: record.sandbox.clone(),
        metadata: config.metadata.clone(),
        image: config.image.clone(),
        image_ref: record.image_ref.clone(),
        state: cri_state(&container.state.borrow()) as i32,
        created_at: record.created_at,
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        image_id: record.image_id.clone(),
    }
}

/// Returns the image's name, as containerd does: the request may contain its id instead.
fn image_name(container: &Container) -> Option<v1::ImageSpec> {
    let tag = container.record.image_tag.clone();
    tag.map(|image| v1::ImageSpec { image, ..Default::default() }).or_else(|| container.config.image.clone())
}

pub(crate) fn container_status(container: &Container) -> v1::ContainerStatus {
    let (record, config) = (&container.record, &container.config);
    let state = container.state();
    let mut status = v1::ContainerStatus {
        id: record.id.clone(),
        metadata: config.metadata.clone(),
        state: cri_state(&state) as i32,
        created_at: record.created_at,
        image: image_name(container),
        image_ref: record.image_ref.clone(),
        image_id: record.image_id.clone(),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        mounts: config.mounts.clone(),
        log_path: record.log_path.clone(),
        user: Some(v1::ContainerUser {
            linux: Some(v1::LinuxContainerUser {
                uid: i64::from(record.user.uid),
                gid: i64::from(record.user.gid),
                supplemental_groups: record.user.groups.iter().map(|gid| i64::from(*gid)).collect(),
            }),
        }),
        resources: container
            .resources
            .lock()
            .clone()
            .map(|linux| v1::ContainerResources { linux: Some(linux), windows: None }),
        stop_signal: container.stop_signal as i32,
        ..Default::default()
    };
    match state {
        ContainerState::Created | ContainerState::Starting => {}
        ContainerState::Running { started_at, .. } => status.started_at = started_at,
        ContainerState::Exited(exit) => {
            status.started_at = exit.started_at;
            status.finished_at = exit.finished_at;
            status.exit_code = exit.code;
            status.reason = exit.reason().to_owned();
            status.message = exit.message();
        }
    }
    status
}
