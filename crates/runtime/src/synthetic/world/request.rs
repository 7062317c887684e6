//! What runtimes check before they do what a call asks for, and what they answer if it is done already.

use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState, PodUid, SandboxId, SandboxState};
use tonic::Status;

use super::super::profile::NameTaken;
use super::status::wire_container_state;
use super::{Container, Sandbox, World};

impl World {
    /// `RunPodSandbox`
    pub(crate) fn run_sandbox(&mut self, request: v1::RunPodSandboxRequest) -> Result<SandboxId, Status> {
        let config = request.config.ok_or_else(|| Status::unknown("sandbox config must include metadata"))?;
        let metadata = config.metadata.as_ref();
        let metadata = metadata.ok_or_else(|| Status::unknown("sandbox config must include metadata"))?;
        let pod = PodUid::from(metadata.uid.as_str());
        let is_same = |other: &&Sandbox| other.config.metadata.as_ref() == Some(metadata);
        if let Some(taken) = self.sandboxes_of(&pod).find(is_same) {
            let v1::PodSandboxMetadata { name, namespace, uid, attempt } = metadata;
            let name = format!("{name}_{namespace}_{uid}_{attempt}");
            return self.taken("sandbox", &name, taken.id.as_str(), taken.claimed).map(|()| taken.id.clone());
        }
        Ok(self.insert_sandbox(config, request.runtime_handler))
    }

    /// `CreateContainer`
    pub(crate) fn create_container(
        &mut self,
        request: v1::CreateContainerRequest,
    ) -> Result<ContainerId, Status> {
        let id = &request.pod_sandbox_id;
        let sandbox = self.find_sandbox(id).map_err(|none| none.into_status("sandbox", id))?;
        if sandbox.state != SandboxState::Ready {
            return Err(if self.quirks.is_containerd() {
                Status::not_found("failed to get sandbox container task: no running task found: not found")
            } else {
                Status::unknown(format!("CreateContainer failed as the sandbox was stopped: {}", sandbox.id))
            });
        }
        let config =
            request.config.ok_or_else(|| Status::unknown("container config must include metadata"))?;
        let metadata = config.metadata.as_ref();
        let metadata = metadata.ok_or_else(|| Status::unknown("container config must include metadata"))?;
        let is_same = |other: &&Container| other.config.metadata.as_ref() == Some(metadata);
        if let Some(taken) = self.containers_of(&sandbox.id).find(is_same) {
            let name = format!("{}_{}_{}", metadata.name, sandbox.pod, metadata.attempt);
            return self
                .taken("container", &name, taken.id.as_str(), taken.claimed)
                .map(|()| taken.id.clone());
        }
        let image = config.image.as_ref().map_or("", |image| &image.image);
        if self.find_image(image).is_none() {
            return Err(Status::not_found(format!("failed to resolve image {image:?}: not found")));
        }
        let sandbox = sandbox.id.clone();
        Ok(self.insert_container(&sandbox, config))
    }

    /// The result of a second creation with the same name.
    fn taken(&self, what: &str, name: &str, id: &str, claimed: bool) -> Result<(), Status> {
        match self.quirks.name_taken {
            NameTaken::HandedOver if !claimed => Ok(()),
            NameTaken::HandedOver => Err(Status::unknown(format!(
                "the {what} name {name:?} is already in use by {id}. You have to remove that {what} to be able to \
                 reuse that name: that name is already in use"
            ))),
            NameTaken::Reserved => Err(Status::unknown(format!(
                "failed to reserve {what} name {name:?}: name {name:?} is reserved for {id:?}"
            ))),
        }
    }

    /// Notes that the answer to the creation of this sandbox or container has been sent.
    pub(crate) fn claim(&mut self, id: &str) {
        if let Some(sandbox) = self.sandboxes.get_mut(id) {
            sandbox.claimed = true;
        }
        if let Some(container) = self.containers.get_mut(id) {
            container.claimed = true;
        }
    }

    /// Finds a container that `StartContainer` may start.
    pub(crate) fn startable(&self, id: &str) -> Result<&Container, Status> {
        let container = self.find_container(id).map_err(|none| none.into_status("container", id))?;
        let sandbox = &self.sandboxes[&container.sandbox];
        let id = &container.id;
        if container.state != ContainerState::Created {
            return Err(Status::unknown(if self.quirks.is_containerd() {
                let state = state_name(container);
                format!("failed to set starting state for container {id:?}: container is in {state} state")
            } else {
                format!("container {id} is not in created state: {}", container.state)
            }));
        }
        if sandbox.state != SandboxState::Ready {
            return Err(Status::unknown(format!("sandbox container {:?} is not running", sandbox.id)));
        }
        Ok(container)
    }

    /// Finds a container in which a command can be run.
    pub(crate) fn executable(&self, id: &str) -> Result<&Container, Status> {
        let container = self.find_container(id).map_err(|none| none.into_status("container", id))?;
        if container.state == ContainerState::Running {
            return Ok(container);
        }
        let state = state_name(container);
        Err(Status::unknown(format!("failed to exec in container: container is in {state} state")))
    }

    /// Finds the sandbox to be stopped or removed; `None`, rather than an error, if it is unknown.
    pub(crate) fn sandbox_if_any(&self, id: &str) -> Result<Option<&Sandbox>, Status> {
        match self.find_sandbox(id) {
            Ok(sandbox) => Ok(Some(sandbox)),
            Err(super::NoSuch::NotFound) => Ok(None),
            Err(other) => Err(other.into_status("sandbox", id)),
        }
    }

    /// Finds the container to be stopped or removed; `None`, rather than an error, if it is unknown.
    pub(crate) fn container_if_any(&self, id: &str) -> Result<Option<&Container>, Status> {
        match self.find_container(id) {
            Ok(container) => Ok(Some(container)),
            Err(super::NoSuch::NotFound) => Ok(None),
            Err(other) => Err(other.into_status("container", id)),
        }
    }

    /// Notes that the stop signal was sent, and returns whether it was the first time.
    pub(crate) fn signal_stop(&mut self, id: &ContainerId) -> bool {
        self.containers
            .get_mut(id)
            .is_some_and(|container| !std::mem::replace(&mut container.signalled, true))
    }

    /// `UpdateContainerResources`
    pub(crate) fn update_resources(
        &mut self,
        request: v1::UpdateContainerResourcesRequest,
    ) -> Result<(), Status> {
        let id = &request.container_id;
        let id = self.find_container(id).map_err(|none| none.into_status("container", id))?.id.clone();
        let Some(container) = self.containers.get_mut(&id) else { return Ok(()) };
        if matches!(container.state, ContainerState::Exited | ContainerState::Unknown) {
            let state = state_name(container);
            return Err(Status::unknown(format!(
                "failed to update resources: container is in {state} state"
            )));
        }
        if let Some(resources) = request.linux {
            container.config.linux.get_or_insert_default().resources = Some(resources);
        }
        container.config.annotations.extend(request.annotations);
        self.touch_container(&id);
        Ok(())
    }
}

/// The protocol's name for a container's state.
fn state_name(container: &Container) -> &'static str {
    v1::ContainerState::try_from(wire_container_state(container.state))
        .map_or("", |state| state.as_str_name())
}
