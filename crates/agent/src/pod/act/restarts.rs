//! The least number of the next instance of a container, by what was published about those before it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus as ApiContainer, PodStatus as ApiStatus};
use rubelet_model::ContainerId;

use crate::status::is_lost;

/// What was published about a container.
#[derive(Clone, Debug, Default)]
struct Told {
    /// The instance that was last published as started.
    instance: Option<ContainerId>,
    /// Whether an earlier agent published it, so that only the count is known.
    is_hearsay: bool,
    next: u32,
}

/// What was published about the containers of a pod, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restarts(BTreeMap<String, Told>);

impl Restarts {
    /// Notes the published numbers of starts, which never go back.
    pub(crate) fn note(&mut self, said: &ApiStatus) {
        self.hear(said, false);
    }

    /// Notes what an earlier actor or agent published.
    pub(crate) fn recall(&mut self, said: &ApiStatus) {
        self.hear(said, true);
    }

    fn hear(&mut self, said: &ApiStatus, is_hearsay: bool) {
        let init = said.init_container_statuses.iter().flatten();
        for status in init.chain(said.container_statuses.iter().flatten()) {
            self.0.entry(status.name.clone()).or_default().hear(status, is_hearsay);
        }
    }

    /// Returns the least number of the next instance of a container, where the runtime knows this one as its newest.
    pub(super) fn next(&self, container: &str, newest: Option<&ContainerId>) -> u32 {
        let Some(told) = self.0.get(container) else { return 0 };
        // The published count may include a loss already: the instance's own number is more exact.
        let is_known_better = told.is_hearsay && newest.is_some() && newest == told.instance.as_ref();
        if is_known_better { 0 } else { told.next }
    }
}

impl Told {
    fn hear(&mut self, status: &ApiContainer, is_hearsay: bool) {
        let mut next = u32::try_from(status.restart_count).unwrap_or(0);
        let state = status.state.as_ref();
        let ended = state.and_then(|state| state.terminated.as_ref());
        if ended.is_some() || state.is_some_and(|state| state.running.is_some()) {
            let instance = status.container_id.as_deref().map(without_runtime);
            // A lost instance is published with the number of the next one from then on, however it ends, and even if
            // it is found again. So only the first number published for it is its own.
            if instance != self.instance {
                next = next.saturating_add(u32::from(!ended.is_some_and(is_lost)));
                (self.instance, self.is_hearsay) = (instance, is_hearsay);
            }
        }
        self.next = self.next.max(next);
    }
}

/// Extracts the id from `containerd://1234`.
fn without_runtime(id: &str) -> ContainerId {
    ContainerId::from(id.split_once("://").map_or(id, |(_, id)| id))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    };

    use super::*;

    #[derive(Clone, Copy)]
    enum Is {
        Waiting,
        Running,
        Ended,
        Lost,
    }
    use Is::{Ended, Lost, Running, Waiting};

    type Said<'a> = (&'a str, Is, i32);

    fn said((id, is, restart_count): Said<'_>) -> ApiStatus {
        let ended = |reason: &str| ContainerStateTerminated {
            reason: Some(reason.to_owned()),
            ..ContainerStateTerminated::default()
        };
        let mut state = ApiState::default();
        match is {
            Waiting => state.waiting = Some(ContainerStateWaiting::default()),
            Running => state.running = Some(ContainerStateRunning::default()),
            Ended => state.terminated = Some(ended("Error")),
            Lost => state.terminated = Some(ended("ContainerStatusUnknown")),
        }
        let container = ApiContainer {
            name: "web".to_owned(),
            container_id: Some(format!("containerd://{id}")).filter(|_| !id.is_empty()),
            restart_count,
            state: Some(state),
            ..ApiContainer::default()
        };
        ApiStatus { container_statuses: Some(vec![container]), ..ApiStatus::default() }
    }

    #[test]
    fn what_is_lost_counts_once() {
        let table: &[(&[Said<'_>], u32)] = &[
            (&[], 0),
            (&[("x", Waiting, 3)], 3),
            (&[("x", Waiting, 3), ("x", Running, 3)], 4),
            (&[("x", Running, 3), ("x", Ended, 3), ("x", Waiting, 3)], 4),
            // Lost, then killed, then removed.
            (&[("x", Running, 3), ("x", Lost, 4)], 4),
            (&[("x", Running, 3), ("x", Lost, 4), ("x", Ended, 4)], 4),
            (&[("x", Running, 3), ("x", Lost, 4), ("x", Ended, 4), ("", Waiting, 4)], 4),
            (&[("x", Running, 3), ("x", Lost, 4), ("x", Ended, 4), ("y", Running, 4)], 5),
            // Lost and found, and then gone altogether.
            (&[("x", Running, 3), ("x", Lost, 4), ("x", Running, 4)], 4),
            (&[("x", Running, 3), ("x", Lost, 4), ("x", Running, 4), ("", Waiting, 5)], 5),
            // Gone without a trace, while the runtime may still know the one before it.
            (&[("x", Running, 3), ("", Waiting, 4)], 4),
            (&[("x", Ended, 3), ("y", Running, 4), ("x", Ended, 4)], 5),
            // Nothing goes back.
            (&[("x", Running, 3), ("y", Running, 0)], 4),
        ];
        for (history, wanted) in table {
            let mut restarts = Restarts::default();
            history.iter().for_each(|one| restarts.note(&said(*one)));
            let next = restarts.next("web", Some(&"x".into()));
            assert_eq!(
                next,
                *wanted,
                "case {:?}",
                history.iter().map(|(id, _, n)| (id, n)).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn an_agent_before_this_one_may_have_counted_a_loss() {
        // recalled, published since; next if the runtime knows it, and if it does not
        let table: [(Said<'_>, &[Said<'_>], u32, u32); 4] = [
            (("x", Running, 3), &[], 0, 4),
            (("x", Lost, 4), &[("x", Ended, 4)], 0, 4),
            (("x", Ended, 4), &[("x", Ended, 4)], 0, 5),
            (("y", Running, 4), &[("x", Ended, 4)], 5, 5),
        ];
        for (recalled, since, wanted, of_unknown) in table {
            let mut restarts = Restarts::default();
            restarts.recall(&said(recalled));
            since.iter().for_each(|one| restarts.note(&said(*one)));
            let id = recalled.0;
            assert_eq!(restarts.next("web", Some(&"x".into())), wanted, "{id} {}", recalled.2);
            assert_eq!(restarts.next("web", None), of_unknown, "{id} {}", recalled.2);
        }
    }
}
