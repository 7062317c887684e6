//! The status of a sandbox that is being replaced, after everything in it was ended and before anything is removed.

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{ContainerStatus, PodStatus};

use crate::pod::{restart, spec};

/// Returns the status that a plan was made from, but with the ends of its init containers since then.
///
/// Only theirs, since they are about to be removed. How the other containers ended while they were replaced must not be
/// taken for how they would have ended by themselves, or a pod that is about to run again would count as finished. For
/// the same reason, an end is left out if the init container may not run again: either in general, or after the very
/// end that it was brought to.
pub(super) fn of_init_containers(pod: &Pod, planned: &PodStatus, ended: &PodStatus) -> PodStatus {
    let comes_back = |end: &ContainerStatus| {
        let mut init = spec::init_containers(pod).iter();
        init.find(|container| *container.name == *end.name).is_some_and(|container| {
            let restarts_after = |code| restart::restarts_after(pod, container, code);
            let code = restart::init_exit_code(end.exit_code, &end.reason);
            restarts_after(1) && (code == 0 || restarts_after(code))
        })
    };
    let mut status = planned.clone();
    for instance in &mut status.containers {
        if let Some(now) = ended.container(&instance.id).filter(|now| comes_back(now)) {
            *instance = now.clone();
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use rubelet_model::{ContainerState, SandboxState};

    use super::*;
    use crate::pod::testkit::{self, Is};

    #[test]
    fn only_the_ends_of_init_containers_that_come_back_are_told() {
        // policy → the published states of an init container, a sidecar and a container that were ended
        for (policy, init) in [
            ("Always", ContainerState::Exited),
            ("OnFailure", ContainerState::Exited),
            ("Never", ContainerState::Running),
        ] {
            let pod = testkit::pod(policy, &["setup", "proxy*"], &["web"]);
            let instances = |is| [("setup", is), ("proxy", is), ("web", is)];
            let planned = testkit::status(SandboxState::NotReady, &instances(Is::Running));
            let ended = testkit::status(SandboxState::NotReady, &instances(Is::Exited(7)));
            let told = of_init_containers(&pod, &planned, &ended);
            let state = |name| told.newest(name).unwrap().state;
            let states = ["setup", "proxy", "web"].map(state);
            assert_eq!(states, [init, ContainerState::Exited, ContainerState::Running], "{policy}");
            let gone = PodStatus::unknown_to_runtime("uid");
            assert_eq!(of_init_containers(&pod, &planned, &gone), planned, "nobody knows how");
        }
    }

    #[test]
    fn an_end_after_which_an_init_container_would_not_run_again_is_not_told() {
        // exit codes after which it runs again, the exit code it was ended with → its published state
        for (codes, code, wanted) in [
            (vec![1], 143, ContainerState::Running),
            (vec![1], 1, ContainerState::Exited),
            (vec![1], 0, ContainerState::Exited),
            (vec![1, 143], 143, ContainerState::Exited),
            (vec![143], 143, ContainerState::Running),
        ] {
            let mut pod = testkit::pod("Always", &["setup"], &["web"]);
            let setup = &mut pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0];
            testkit::on_exit(setup, "Restart", &codes);
            let planned = testkit::status(SandboxState::NotReady, &[("setup", Is::Running)]);
            let ended = testkit::status(SandboxState::NotReady, &[("setup", Is::Exited(code))]);
            let told = of_init_containers(&pod, &planned, &ended);
            assert_eq!(told.newest("setup").unwrap().state, wanted, "{codes:?}, {code}");
        }
    }
}
