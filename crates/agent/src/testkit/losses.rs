//! What a runtime in memory can lose.

use rubelet_model::{ContainerState, SandboxState};

use super::FakeRuntime;

impl FakeRuntime {
    /// Breaks every sandbox.
    pub(crate) fn break_sandboxes(&self) {
        let mut world = self.0.lock();
        for sandbox in world.sandboxes.values_mut() {
            sandbox.status.state = SandboxState::NotReady;
        }
    }

    /// Restarts the machine: nothing is left of any pod.
    pub(crate) fn forget_everything(&self) {
        let mut world = self.0.lock();
        world.sandboxes.clear();
        world.containers.clear();
    }

    /// Makes the state of every running container unknown.
    pub(crate) fn lose_sight(&self) {
        let mut world = self.0.lock();
        let statuses = world.containers.values_mut().map(|(_, status)| status);
        statuses
            .filter(|status| status.state == ContainerState::Running)
            .for_each(|status| status.state = ContainerState::Unknown);
    }

    /// Removes every running container without a trace. Those that have ended are still known.
    pub(crate) fn forget_running(&self) {
        self.0.lock().containers.retain(|_, (_, status)| status.state != ContainerState::Running);
    }
}
