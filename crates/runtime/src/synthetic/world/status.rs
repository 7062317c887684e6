//! Answers of status calls.

use rubelet_cri::v1;
use rubelet_model::{ContainerState, SandboxState};

use super::super::profile::SandboxExtras;
use super::{Container, Sandbox, World};

pub(super) fn wire_container_state(state: ContainerState) -> i32 {
    i32::from(match state {
        ContainerState::Created => v1::ContainerState::ContainerCreated,
        ContainerState::Running => v1::ContainerState::ContainerRunning,
        ContainerState::Exited => v1::ContainerState::ContainerExited,
        ContainerState::Unknown => v1::ContainerState::ContainerUnknown,
    })
}

pub(super) fn wire_sandbox_state(state: SandboxState) -> i32 {
    i32::from(match state {
        SandboxState::Ready => v1::PodSandboxState::SandboxReady,
        // The protocol has no state for a sandbox that the runtime lost track of; runtimes use this one.
        SandboxState::NotReady | SandboxState::Unknown => v1::PodSandboxState::SandboxNotready,
    })
}

impl World {
    /// The status of a sandbox.
    pub(crate) fn sandbox_status(&self, sandbox: &Sandbox) -> v1::PodSandboxStatus {
        let mut ips = sandbox.ips.iter().cloned();
        let linux = sandbox.config.linux.as_ref();
        let options = linux.and_then(|linux| linux.security_context.as_ref()?.namespace_options.clone());
        v1::PodSandboxStatus {
            id: sandbox.id.as_str().to_owned(),
            metadata: sandbox.config.metadata.clone(),
            state: wire_sandbox_state(sandbox.state),
            created_at: sandbox.created_at,
            network: Some(v1::PodSandboxNetworkStatus {
                ip: ips.next().unwrap_or_default(),
                additional_ips: ips.map(|ip| v1::PodIp { ip }).collect(),
            }),
            linux: Some(v1::LinuxPodSandboxStatus { namespaces: Some(v1::Namespace { options }) }),
            labels: sandbox.config.labels.clone(),
            annotations: sandbox.config.annotations.clone(),
            runtime_handler: sandbox.runtime_handler.clone(),
        }
    }

    /// The complete answer about a sandbox.
    pub(crate) fn sandbox_answer(&self, sandbox: &Sandbox, verbose: bool) -> v1::PodSandboxStatusResponse {
        let mut answer =
            v1::PodSandboxStatusResponse { status: Some(self.sandbox_status(sandbox)), ..Default::default() };
        if verbose || self.quirks.always_verbose {
            let id = &sandbox.id;
            answer.info.insert("info".to_owned(), format!(r#"{{"sandboxID":"{id}","pid":0}}"#));
        }
        if self.quirks.sandbox_extras != SandboxExtras::None {
            answer.timestamp = self.clock;
        }
        if self.quirks.sandbox_extras == SandboxExtras::TimestampAndContainers {
            answer.containers_statuses =
                self.containers_of(&sandbox.id).map(|container| self.container_status(container)).collect();
        }
        answer
    }

    /// The complete answer about a container.
    pub(crate) fn container_answer(
        &self,
        container: &Container,
        verbose: bool,
    ) -> v1::ContainerStatusResponse {
        let status = Some(self.container_status(container));
        let mut answer = v1::ContainerStatusResponse { status, ..Default::default() };
        if verbose {
            let Container { sandbox, pid, .. } = container;
            let pid = if container.state == ContainerState::Running { *pid } else { 0 };
            answer.info.insert("info".to_owned(), format!(r#"{{"sandboxID":"{sandbox}","pid":{pid}}}"#));
        }
        answer
    }

    /// The status of a container.
    pub(crate) fn container_status(&self, container: &Container) -> v1::ContainerStatus {
        let config = &container.config;
        let image = config.image.clone().unwrap_or_default();
        let image_id = image_id(&image.image);
        let user = self.quirks.status_has_user.then(|| v1::ContainerUser {
            linux: Some(v1::LinuxContainerUser { uid: 0, gid: 0, supplemental_groups: vec![0] }),
        });
        let resources = config.linux.as_ref().and_then(|linux| linux.resources.clone());
        v1::ContainerStatus {
            id: container.id.as_str().to_owned(),
            metadata: config.metadata.clone(),
            state: wire_container_state(container.state),
            created_at: container.created_at,
            started_at: container.started_at,
            finished_at: container.finished_at,
            exit_code: container.exit_code,
            image: Some(image),
            image_ref: image_id.clone(),
            reason: container.reason().to_owned(),
            message: container.message.clone(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            mounts: config.mounts.clone(),
            log_path: container.log_path.clone(),
            resources: resources.map(|linux| v1::ContainerResources { linux: Some(linux), windows: None }),
            image_id,
            user,
            stop_signal: config.stop_signal,
        }
    }
}

/// The content address that an image with this name has here.
pub(crate) fn image_id(name: &str) -> String {
    let mut bytes = [0; 32];
    super::super::seed::Seed(0).rng("image", name, 0).fill(&mut bytes);
    format!("sha256:{}", super::id::hex(&bytes))
}
