//! Changes of pods and their sandboxes.

use std::collections::hash_map::Entry;

use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState, PodUid, SandboxId, SandboxState};

use super::super::profile::SandboxDeleted;
use super::change::What;
use super::event::{EventKind, YEAR_1754};
use super::kubelet::PodSpec;
use super::{NewPod, Sandbox, World};

impl World {
    /// Adds a pod with a ready sandbox and its containers, which run unless their spec says otherwise.
    #[track_caller]
    pub fn add_pod(&mut self, spec: impl Into<PodSpec>) -> NewPod {
        let spec = spec.into();
        let uid = match &spec.uid {
            Some(uid) => uid.clone(),
            None if spec.by_hand => String::new(),
            None => self.new_uid(),
        };
        let sandbox = self.insert_sandbox(spec.config(&uid, 0), String::new());
        let containers = spec
            .containers
            .into_iter()
            .map(|container| {
                let (state, code) = (container.state, container.exit_code);
                let id = self.create(&sandbox, container);
                if state != ContainerState::Created {
                    self.start(&id);
                }
                if state == ContainerState::Exited {
                    self.exit(&id, code);
                }
                id
            })
            .collect();
        NewPod { uid: self.sandboxes[&sandbox].pod.clone(), sandbox, containers }
    }

    /// Adds another sandbox, with the next attempt, to a pod that has one. New containers go to the sandbox that is
    /// named.
    ///
    /// # Panics
    /// If the pod has no sandbox any more: there is nothing to copy from.
    #[track_caller]
    pub fn add_sandbox(&mut self, pod: &PodUid) -> SandboxId {
        let newest = self.sandboxes_of(pod).max_by_key(|sandbox| sandbox.attempt());
        let newest = newest.unwrap_or_else(|| panic!("pod {pod} has no sandbox to follow"));
        let mut config = newest.config.clone();
        let handler = newest.runtime_handler.clone();
        config.metadata.get_or_insert_default().attempt += 1;
        self.insert_sandbox(config, handler)
    }

    /// Creates a sandbox from the configuration in a request.
    pub(crate) fn insert_sandbox(
        &mut self,
        config: v1::PodSandboxConfig,
        runtime_handler: String,
    ) -> SandboxId {
        let now = self.tick();
        let id = SandboxId::from(self.new_id());
        let mut sandbox = Sandbox::new(id.clone(), config, runtime_handler, now);
        let network = sandbox
            .config
            .linux
            .as_ref()
            .and_then(|linux| Some(linux.security_context.as_ref()?.namespace_options.as_ref()?.network));
        if network != Some(i32::from(v1::NamespaceMode::Node)) {
            sandbox.ips.push(self.new_ip());
        }
        self.sandbox_labels.insert(&sandbox.config.labels, id.clone());
        self.pods.entry(sandbox.pod.clone()).or_default().insert(id.clone());
        self.sandboxes.insert(id.clone(), sandbox);

        let mut announced = Vec::new();
        if self.quirks.sandbox_created_event {
            announced.push(EventKind::Created);
        }
        announced.push(EventKind::Started);
        for &kind in &announced {
            self.announce_sandbox(kind, &id, |_| ());
        }
        self.note_sandbox(&id, What::Created, announced);
        id
    }

    /// Stops the sandbox alone, as when its process dies: it is not ready, but its containers keep running.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn sandbox_dies(&mut self, id: &SandboxId) {
        if self.expect_sandbox(id).state == SandboxState::NotReady {
            return;
        }
        self.tick();
        self.change_sandbox(id, |sandbox| sandbox.state = SandboxState::NotReady);
        self.announce_sandbox(EventKind::Stopped, id, |_| ());
        self.note_sandbox(id, What::Stopped, vec![EventKind::Stopped]);
    }

    /// Kills the containers of a sandbox and stops it. Does nothing to a stopped one.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn stop_sandbox(&mut self, id: &SandboxId) {
        for container in self.loaded_containers(id) {
            let state = self.containers[&container].state;
            if matches!(state, ContainerState::Running | ContainerState::Unknown) {
                self.exit(&container, 137);
            }
        }
        self.sandbox_dies(id);
    }

    /// Stops a sandbox if necessary, and removes it with its containers.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn remove_sandbox(&mut self, id: &SandboxId) {
        self.begin_sandbox_removal(id);
        self.finish_sandbox_removal(id);
    }

    /// Does the first half of a removal: the containers are gone, and a runtime that announces the removal beforehand
    /// has done so, but the sandbox is still listed.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn begin_sandbox_removal(&mut self, id: &SandboxId) {
        self.stop_sandbox(id);
        for container in self.loaded_containers(id) {
            if self.quirks.deleted_with_sandbox_events {
                self.remove(&container);
            } else {
                self.vanish(&container);
            }
        }
        let sandbox = self.expect_sandbox(id);
        if self.quirks.sandbox_deleted == SandboxDeleted::BeforeItIsGone && !sandbox.removing {
            self.tick();
            self.announce_sandbox(EventKind::Deleted, id, |event| {
                if let Some(status) = &mut event.pod_sandbox_status {
                    status.created_at = YEAR_1754;
                }
            });
        }
        self.change_sandbox(id, |sandbox| sandbox.removing = true);
    }

    /// Does the second half of a removal: the sandbox disappears from lists.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn finish_sandbox_removal(&mut self, id: &SandboxId) {
        self.expect_sandbox(id);
        self.tick();
        let mut announced = vec![EventKind::Deleted];
        match self.quirks.sandbox_deleted {
            SandboxDeleted::WithoutStatus => {
                self.announce_sandbox(EventKind::Deleted, id, |event| event.pod_sandbox_status = None);
            }
            SandboxDeleted::BeforeItIsGone => {}
            SandboxDeleted::Never => announced.clear(),
        }
        self.note_sandbox(id, What::Removed, announced);
        self.drop_sandbox(id);
    }

    /// Gives a sandbox these addresses, or none. No event is sent.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn set_ips(&mut self, id: &SandboxId, ips: &[&str]) {
        let ips = ips.iter().map(|&ip| ip.to_owned()).collect();
        self.tick();
        self.change_sandbox(id, |sandbox| sandbox.ips = ips);
        self.note_sandbox(id, What::Altered, Vec::new());
    }

    /// Forces a sandbox into a state. No event is sent.
    ///
    /// # Panics
    /// If there is no such sandbox.
    #[track_caller]
    pub fn force_sandbox_state(&mut self, id: &SandboxId, state: SandboxState) {
        self.tick();
        self.change_sandbox(id, |sandbox| sandbox.state = state);
        let what = match state {
            SandboxState::Ready => What::Started,
            SandboxState::NotReady => What::Stopped,
            SandboxState::Unknown => What::Unknown,
        };
        self.note_sandbox(id, what, Vec::new());
    }

    /// Stops every sandbox of a pod, killing the containers.
    pub fn stop_pod(&mut self, pod: &PodUid) {
        for sandbox in self.sandbox_ids_of(pod) {
            self.stop_sandbox(&sandbox);
        }
    }

    /// Removes every sandbox and container of a pod.
    pub fn remove_pod(&mut self, pod: &PodUid) {
        for sandbox in self.sandbox_ids_of(pod) {
            self.remove_sandbox(&sandbox);
        }
    }

    fn sandbox_ids_of(&self, pod: &PodUid) -> Vec<SandboxId> {
        self.sandboxes_of(pod).map(|sandbox| sandbox.id.clone()).collect()
    }

    fn drop_sandbox(&mut self, id: &SandboxId) {
        if let Some(sandbox) = self.sandboxes.remove(id) {
            self.sandbox_labels.remove(&sandbox.config.labels, id);
            if let Entry::Occupied(mut pod) = self.pods.entry(sandbox.pod) {
                pod.get_mut().remove(id);
                if pod.get().is_empty() {
                    pod.remove();
                }
            }
        }
    }

    /// The containers of a sandbox, except those that could not be loaded when the runtime started.
    #[track_caller]
    fn loaded_containers(&self, id: &SandboxId) -> Vec<ContainerId> {
        self.expect_sandbox(id);
        self.containers_of(id).map(|container| container.id().clone()).collect()
    }

    #[track_caller]
    fn expect_sandbox(&self, id: &SandboxId) -> &Sandbox {
        self.sandboxes.get(id).unwrap_or_else(|| panic!("there is no sandbox {id}"))
    }

    #[track_caller]
    fn change_sandbox(&mut self, id: &SandboxId, change: impl FnOnce(&mut Sandbox)) {
        let Some(sandbox) = self.sandboxes.get_mut(id) else { panic!("there is no sandbox {id}") };
        change(sandbox);
        sandbox.entry.take();
    }

    /// Assigns the next address from 10.0.0.0/8.
    fn new_ip(&mut self) -> String {
        let n = self.sandboxes_made;
        self.sandboxes_made = self.sandboxes_made.wrapping_add(1);
        let [_, a, b, c] = (n.wrapping_add(2)).to_be_bytes();
        format!("10.{a}.{b}.{c}")
    }
}
