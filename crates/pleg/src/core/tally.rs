//! How many pods and containers there are.

use std::ops::AddAssign;

use rubelet_model::{ContainerState, RuntimePod, SandboxState};
use serde::{Deserialize, Serialize};

/// Counts of pods and containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Pods with a ready sandbox.
    pub(crate) running_pods: u32,
    /// Containers, in the order of [`ContainerState::ALL`].
    pub(crate) containers: [u32; 4],
}

impl Tally {
    /// What one pod adds to the counts.
    #[must_use]
    pub(crate) fn of(pod: &RuntimePod) -> Self {
        let runs = pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        let count = |state| pod.containers.iter().filter(|container| container.state == state).count() as u32;
        Self { running_pods: u32::from(runs), containers: ContainerState::ALL.map(count) }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.running_pods += other.running_pods;
        for (count, more) in self.containers.iter_mut().zip(other.containers) {
            *count += more;
        }
    }
}
