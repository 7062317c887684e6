//! How far a pod is initialised, and which init containers and sidecars to start or end for it.
//!
//! The walk goes from the last init container to the first: the last one that anything is known of shows how far the
//! pod is. Sidecars before it are kept alive; the others have had their turn.

use k8s_openapi::api::core::v1::Container;
use rubelet_model::{ContainerId, ContainerState, ContainerStatus};

use super::{
    Inputs, Kill, Place, Start, adoptable, is_changed, is_in_active_sandbox, kill, resize_message,
    resize_need,
};
use crate::pod::grace::KillReason;
use crate::pod::resize::Need;
use crate::pod::restart::init_exit_code;
use crate::pod::spec::{self, RestartPolicy};
use crate::probe::Verdict;

/// What to do for the init containers.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// Whether the containers may start.
    pub(super) is_initialised: bool,
    pub(super) kills: Vec<Kill>,
    /// In the order of the spec.
    pub(super) starts: Vec<Start>,
    /// Those that keep running, with other resources.
    pub(super) resized: Vec<ContainerId>,
}

/// Decides what to do; `None` if initialisation has failed for good, and the pod ends.
pub(super) fn decide(inputs: Inputs<'_>) -> Option<Decision> {
    let Inputs { pod, status, .. } = inputs;
    let init = spec::init_containers(pod);
    // One that has exited may have run before another start of this sandbox's init containers, and proves nothing.
    let has_begun = spec::containers(pod).iter().any(|container| {
        status.newest(&container.name).is_some_and(|newest| {
            is_in_active_sandbox(status, newest)
                && matches!(newest.state, ContainerState::Created | ContainerState::Running)
        })
    });
    let mut walk = Walk {
        inputs,
        last: init.len().checked_sub(1),
        has_seen_later: has_begun,
        decision: Decision { is_initialised: has_begun || init.is_empty(), ..Decision::default() },
    };
    for (index, container) in init.iter().enumerate().rev() {
        let newest = status.newest(&container.name);
        let step = if spec::is_sidecar(container) {
            walk.sidecar(index, container, newest)
        } else {
            walk.once(index, container, newest)
        };
        match step {
            Step::Unseen => {}
            Step::Seen => walk.has_seen_later = true,
            Step::Failed => return None,
        }
    }
    if !init.is_empty() && !walk.has_seen_later {
        walk.start(0, &init[0]);
    }
    walk.decision.starts.reverse();
    Some(walk.decision)
}

enum Step {
    /// It shows nothing about how far the pod is.
    Unseen,
    /// The pod got at least this far.
    Seen,
    /// The pod will never get further.
    Failed,
}

struct Walk<'a> {
    inputs: Inputs<'a>,
    last: Option<usize>,
    /// Whether the pod got further than the container at hand.
    has_seen_later: bool,
    decision: Decision,
}

impl Walk<'_> {
    /// Handles an init container that runs once.
    fn once(&mut self, index: usize, container: &Container, newest: Option<&ContainerStatus>) -> Step {
        let Some(newest) = newest else { return Step::Unseen };
        if self.has_seen_later {
            return Step::Unseen;
        }
        match newest.state {
            ContainerState::Created => self.start(index, container),
            ContainerState::Running => self.resize_in_place(container, newest),
            ContainerState::Exited if init_exit_code(newest.exit_code, &newest.reason) != 0 => {
                if !self.inputs.replaced.should_start(self.inputs.pod, container, Some(newest)) {
                    return Step::Failed;
                }
                self.start(index, container);
            }
            ContainerState::Exited => self.passed(index),
            ContainerState::Unknown => {
                if RestartPolicy::effective(self.inputs.pod, container) == RestartPolicy::Never {
                    return Step::Failed;
                }
                // Whatever is unknown of a name that starts is ended first.
                self.start(index, container);
            }
        }
        Step::Seen
    }

    /// Handles a sidecar.
    fn sidecar(&mut self, index: usize, container: &Container, newest: Option<&ContainerStatus>) -> Step {
        let Some(newest) = newest else {
            if self.has_seen_later {
                self.start(index, container);
            }
            return Step::Unseen;
        };
        match newest.state {
            ContainerState::Created | ContainerState::Exited | ContainerState::Unknown => {
                self.start(index, container);
            }
            ContainerState::Running => self.running_sidecar(index, container, newest),
        }
        Step::Seen
    }

    fn running_sidecar(&mut self, index: usize, container: &Container, running: &ContainerStatus) {
        let verdict = self.inputs.verdicts.of(&running.id);
        if container.startup_probe.is_some() {
            match verdict.startup {
                Some(Verdict::Success) => {}
                Some(Verdict::Failure) => {
                    let message = format!("Init container {} failed startup probe", container.name);
                    return self.replace(index, container, kill(running, KillReason::StartupProbe, message));
                }
                None => return,
            }
        }
        self.passed(index);
        if is_changed(container, running) {
            let message = format!("Init container {} definition changed", container.name);
            return self.replace(index, container, kill(running, KillReason::Changed, message));
        }
        if container.liveness_probe.is_some() && verdict.liveness == Some(Verdict::Failure) {
            let message = format!("Init container {} failed liveness probe", container.name);
            return self.replace(index, container, kill(running, KillReason::LivenessProbe, message));
        }
        if resize_need(self.inputs, container, running) == Need::Restart {
            let message = resize_message(container);
            return self.replace(index, container, kill(running, KillReason::Resized, message));
        }
        self.resize_in_place(container, running);
    }

    /// Resizes a container that runs once. It is never restarted for other resources: it might have done half its work.
    fn resize_in_place(&mut self, container: &Container, running: &ContainerStatus) {
        if resize_need(self.inputs, container, running) != Need::Nothing {
            self.decision.resized.push(running.id.clone());
        }
    }

    /// Moves on after an init container that has done its part: the next one may start, or the containers.
    fn passed(&mut self, index: usize) {
        if Some(index) == self.last {
            self.decision.is_initialised = true;
        } else if !self.has_seen_later {
            let next = index + 1;
            if let Some(container) = spec::init_containers(self.inputs.pod).get(next) {
                self.start(next, container);
            }
        }
    }

    fn replace(&mut self, index: usize, container: &Container, kill: Kill) {
        self.decision.kills.push(kill);
        self.start(index, container);
    }

    fn start(&mut self, index: usize, container: &Container) {
        let adopt = adoptable(self.inputs, container);
        self.decision.starts.push(Start { place: Place::Init(index), adopt });
    }
}
