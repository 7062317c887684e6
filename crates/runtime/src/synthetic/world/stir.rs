//! Random histories: steps that any node may take, chosen by the seed.

use rubelet_model::{ContainerId, ContainerState, SandboxId, SandboxState};

use super::World;
use super::change::Exit;
use super::kubelet::{ContainerSpec, PodSpec};

/// What random steps may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stir {
    /// The maximum number of pods.
    pub pods: usize,
    /// The maximum number of containers per sandbox, including exited ones.
    pub containers: usize,
    /// Whether to include changes that no runtime announces: failed starts, lost records, unknown states, revised
    /// exits.
    pub unannounced: bool,
    /// Whether some containers are created by hand, without the labels of their pod.
    pub by_hand: bool,
}

impl Default for Stir {
    fn default() -> Self {
        Self { pods: 10, containers: 4, unannounced: true, by_hand: false }
    }
}

impl World {
    /// Takes this many random steps. The same seed takes the same ones.
    pub fn stir(&mut self, steps: usize, how: Stir) {
        for _ in 0..steps {
            self.steps_made += 1;
            let rng = self.seed.rng("stir", "", self.steps_made);
            self.step(rng, how);
        }
    }

    fn step(&mut self, mut rng: fastrand::Rng, how: Stir) {
        let room_for_pods = self.pods.len() < how.pods;
        if self.sandboxes.is_empty() || (room_for_pods && rng.u8(..10) == 0) {
            let name = format!("stirred-{}", self.steps_made);
            // Some are created by hand, without labels or UID.
            let by_hand = rng.u8(..10) == 0;
            self.add_pod(if by_hand { PodSpec::by_hand(name) } else { PodSpec::new("stir", name) });
            return;
        }
        if self.containers.is_empty() || rng.u8(..4) == 0 {
            let nth = rng.usize(..self.sandboxes.len());
            let id = self.sandboxes.keys().nth(nth).expect("it is in range").clone();
            self.step_sandbox(&mut rng, &id, how);
        } else {
            let nth = rng.usize(..self.containers.len());
            let id = self.containers.keys().nth(nth).expect("it is in range").clone();
            self.step_container(&mut rng, &id, how);
        }
    }

    fn step_sandbox(&mut self, rng: &mut fastrand::Rng, id: &SandboxId, how: Stir) {
        let sandbox = &self.sandboxes[id];
        let (ready, containers, pod) =
            (sandbox.state == SandboxState::Ready, sandbox.containers.len(), sandbox.pod.clone());
        let is_newest = self.sandboxes_of(&pod).all(|other| other.attempt() <= self.sandboxes[id].attempt());
        match rng.u8(..20) {
            0..14 if ready && containers < how.containers => {
                let name = format!("c{}", rng.u8(..3));
                let by_hand = how.by_hand && rng.u8(..8) == 0;
                self.create(
                    id,
                    if by_hand { ContainerSpec::by_hand(name) } else { ContainerSpec::new(name) },
                );
            }
            14 if ready => self.stop_sandbox(id),
            15 if ready => self.sandbox_dies(id),
            16 if how.unannounced => self.set_ips(id, &["10.99.0.1"]),
            // Another sandbox is created only when the previous one is not ready; a pod created by hand gets none.
            0..15 if !ready && is_newest && pod.as_str() != id.as_str() && containers < how.containers => {
                self.add_sandbox(&pod);
            }
            _ if !ready => self.remove_sandbox(id),
            _ => {}
        }
    }

    fn step_container(&mut self, rng: &mut fastrand::Rng, id: &ContainerId, how: Stir) {
        let (state, choice) = (self.containers[id].state, rng.u8(..20));
        let code = [0, 1, 137, 143, 255][rng.usize(..5)];
        match (state, choice) {
            (_, 0) if how.unannounced => self.vanish(id),
            (ContainerState::Created, 1) if how.unannounced => {
                self.fail_start(id, "no such file or directory");
            }
            (ContainerState::Created, 2..6) => self.start_and_exit(id, code),
            (ContainerState::Created, 6) => self.remove(id),
            (ContainerState::Created, _) => self.start(id),
            (ContainerState::Running, 1) if how.unannounced => self.set_unknown(id),
            (ContainerState::Running, 2) => self.remove(id),
            (ContainerState::Running, 3) => self.oom(id),
            (ContainerState::Running, 4..12) => self.exit(id, code),
            (ContainerState::Exited, 1..3) if how.unannounced => self.revise_exit(id, Exit::oom()),
            (ContainerState::Exited, 3..12) => self.remove(id),
            (ContainerState::Unknown, 1..4) => self.force_state(id, ContainerState::Running),
            (ContainerState::Unknown, 4..12) => self.exit(id, code),
            _ => {}
        }
    }
}
