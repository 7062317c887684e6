//! Changes of containers.

use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState, SandboxId};

use super::super::profile::FailedStart;
use super::change::{Exit, What};
use super::event::EventKind;
use super::kubelet::ContainerSpec;
use super::{Container, World};

impl World {
    /// Creates a container in a sandbox without starting it. Its attempt is the next one for that name in the pod.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn create(&mut self, sandbox: &SandboxId, spec: impl Into<ContainerSpec>) -> ContainerId {
        let spec = spec.into();
        let home = self.sandboxes.get(sandbox).unwrap_or_else(|| panic!("there is no sandbox {sandbox}"));
        let attempt = spec.attempt.unwrap_or_else(|| {
            self.sandboxes_of(&home.pod)
                .flat_map(|sandbox| self.containers_of(&sandbox.id))
                .filter(|container| container.name() == spec.name)
                .map(|container| container.attempt() + 1)
                .max()
                .unwrap_or(0)
        });
        let config = spec.config(&home.config, attempt);
        self.insert_container(sandbox, config)
    }

    /// Creates a container from the configuration in a request, in a sandbox that exists.
    pub(crate) fn insert_container(
        &mut self,
        sandbox: &SandboxId,
        config: v1::ContainerConfig,
    ) -> ContainerId {
        let now = self.tick();
        let id = ContainerId::from(self.new_id());
        let home = self.sandboxes.get_mut(sandbox).expect("the caller looked");
        home.containers.push(id.clone());
        let log_path = match (home.config.log_directory.as_str(), config.log_path.as_str()) {
            ("", _) | (_, "") => String::new(),
            (directory, file) => format!("{directory}/{file}"),
        };
        self.container_labels.insert(&config.labels, id.clone());
        self.containers
            .insert(id.clone(), Container::new(id.clone(), sandbox.clone(), config, log_path, now));
        self.announce_container(EventKind::Created, &id, sandbox);
        self.note_container(&id, What::Created, vec![EventKind::Created]);
        id
    }

    /// Creates a container and starts it.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn run(&mut self, sandbox: &SandboxId, spec: impl Into<ContainerSpec>) -> ContainerId {
        let id = self.create(sandbox, spec);
        self.start(&id);
        id
    }

    /// Starts a container.
    ///
    /// # Panics
    /// If there is no such container, or if it was started before.
    #[track_caller]
    pub fn start(&mut self, id: &ContainerId) {
        self.set_started(id);
        let sandbox = self.containers[id].sandbox.clone();
        self.announce_container(EventKind::Started, id, &sandbox);
        self.note_container(id, What::Started, vec![EventKind::Started]);
    }

    /// Starts a container that exits immediately. Depending on the seed, its STOPPED may come before its STARTED, and
    /// both show it as exited.
    ///
    /// # Panics
    /// If there is no such container, or if it was started before.
    #[track_caller]
    pub fn start_and_exit(&mut self, id: &ContainerId, exit: impl Into<Exit>) {
        self.set_started(id);
        self.note_container(id, What::Started, vec![EventKind::Started]);
        self.set_exited(id, exit.into());
        self.note_container(id, What::Stopped, vec![EventKind::Stopped]);
        let sandbox = self.containers[id].sandbox.clone();
        let mut kinds = [EventKind::Started, EventKind::Stopped];
        if self.seed.rng("start race", id.as_str(), 0).bool() {
            kinds.reverse();
        }
        for kind in kinds {
            self.announce_container(kind, id, &sandbox);
        }
    }

    /// Makes the start of a container fail: afterwards it has exited or is removed, as in the simulated runtime. No
    /// event is sent.
    ///
    /// # Panics
    /// If there is no such container, or if it was started before.
    #[track_caller]
    pub fn fail_start(&mut self, id: &ContainerId, message: &str) {
        self.expect_created(id);
        match self.quirks.failed_start {
            FailedStart::Exits => {
                let exit = Exit::code(128).reason("StartError").message(message);
                self.set_exited(id, exit);
                self.note_container(id, What::Stopped, Vec::new());
            }
            FailedStart::Vanishes => self.vanish(id),
        }
    }

    /// Makes a container exit, with a code or an [`Exit`]. It must be running, or the runtime must have lost track of
    /// it.
    ///
    /// # Panics
    /// If there is no such container, or if it is not running.
    #[track_caller]
    pub fn exit(&mut self, id: &ContainerId, exit: impl Into<Exit>) {
        let state = self.expect_container(id).state;
        assert!(
            matches!(state, ContainerState::Running | ContainerState::Unknown),
            "container {id} is {state}: it cannot exit"
        );
        self.set_exited(id, exit.into());
        let sandbox = self.containers[id].sandbox.clone();
        self.announce_container(EventKind::Stopped, id, &sandbox);
        self.note_container(id, What::Stopped, vec![EventKind::Stopped]);
    }

    /// Makes the kernel kill a container because memory ran out.
    ///
    /// # Panics
    /// If there is no such container, or if it is not running.
    #[track_caller]
    pub fn oom(&mut self, id: &ContainerId) {
        self.exit(id, Exit::oom());
    }

    /// Makes the runtime revise how a container exited: an OOM kill detected late, or a spurious code corrected. No
    /// event is sent.
    ///
    /// # Panics
    /// If there is no such container.
    #[track_caller]
    pub fn revise_exit(&mut self, id: &ContainerId, exit: impl Into<Exit>) {
        let exit = exit.into();
        self.tick();
        self.change_container(id, |container| {
            container.exit_code = exit.code;
            container.reason = exit.reason;
            container.message = exit.message;
        });
        self.note_container(id, What::Altered, Vec::new());
    }

    /// Removes a container; a running one is killed first.
    ///
    /// # Panics
    /// If there is no such container.
    #[track_caller]
    pub fn remove(&mut self, id: &ContainerId) {
        let state = self.expect_container(id).state;
        if matches!(state, ContainerState::Running | ContainerState::Unknown) {
            self.exit(id, 137);
        }
        self.tick();
        self.note_container(id, What::Removed, vec![EventKind::Deleted]);
        let sandbox = self.drop_container(id);
        self.announce_container(EventKind::Deleted, id, &sandbox);
    }

    /// Removes a container without an event, whatever it was doing: a record that the runtime lost.
    ///
    /// # Panics
    /// If there is no such container.
    #[track_caller]
    pub fn vanish(&mut self, id: &ContainerId) {
        self.expect_container(id);
        self.tick();
        self.note_container(id, What::Removed, Vec::new());
        self.drop_container(id);
    }

    /// Makes the runtime lose track of a container. No event is sent.
    ///
    /// # Panics
    /// If there is no such container.
    #[track_caller]
    pub fn set_unknown(&mut self, id: &ContainerId) {
        self.force_state(id, ContainerState::Unknown);
    }

    /// Makes a container claim to run as this process. No event is sent.
    ///
    /// # Panics
    /// If there is no such container.
    #[track_caller]
    pub fn set_pid(&mut self, id: &ContainerId, pid: u32) {
        self.tick();
        self.change_container(id, |container| container.pid = pid);
        self.note_container(id, What::Altered, Vec::new());
    }

    /// Forces a container into a state; its times, code and reason stay as they are. No event is sent.
    ///
    /// # Panics
    /// If there is no such container.
    #[track_caller]
    pub fn force_state(&mut self, id: &ContainerId, state: ContainerState) {
        self.tick();
        self.change_container(id, |container| container.state = state);
        let what = match state {
            ContainerState::Created => What::Created,
            ContainerState::Running => What::Started,
            ContainerState::Exited => What::Stopped,
            ContainerState::Unknown => What::Unknown,
        };
        self.note_container(id, what, Vec::new());
    }

    /// Discards the encoded list entry of a container because it has changed.
    pub(super) fn touch_container(&mut self, id: &ContainerId) {
        self.tick();
        self.change_container(id, |_| ());
        self.note_container(id, What::Altered, Vec::new());
    }

    #[track_caller]
    fn set_started(&mut self, id: &ContainerId) {
        self.expect_created(id);
        let now = self.tick();
        // Above the largest id that Linux assigns, so that nobody who looks it up finds a process of this machine.
        self.pids_made += 1;
        let pid = (1 << 22) + self.pids_made;
        self.change_container(id, |container| {
            container.state = ContainerState::Running;
            container.started_at = now;
            container.pid = pid;
        });
    }

    #[track_caller]
    fn set_exited(&mut self, id: &ContainerId, exit: Exit) {
        let now = self.tick();
        self.change_container(id, |container| {
            container.state = ContainerState::Exited;
            container.finished_at = now;
            container.exit_code = exit.code;
            container.reason = exit.reason;
            container.message = exit.message;
        });
    }

    fn drop_container(&mut self, id: &ContainerId) -> SandboxId {
        let container = self.containers.remove(id).expect("the caller looked");
        self.container_labels.remove(&container.config.labels, id);
        if let Some(sandbox) = self.sandboxes.get_mut(&container.sandbox) {
            sandbox.containers.retain(|other| other != id);
        }
        container.sandbox
    }

    #[track_caller]
    fn expect_created(&self, id: &ContainerId) {
        let state = self.expect_container(id).state;
        assert!(state == ContainerState::Created, "container {id} is {state}: it cannot be started");
    }

    #[track_caller]
    fn expect_container(&self, id: &ContainerId) -> &Container {
        self.containers.get(id).unwrap_or_else(|| panic!("there is no container {id}"))
    }

    #[track_caller]
    fn change_container(&mut self, id: &ContainerId, change: impl FnOnce(&mut Container)) {
        let Some(container) = self.containers.get_mut(id) else { panic!("there is no container {id}") };
        change(container);
        container.entry.take();
    }
}
