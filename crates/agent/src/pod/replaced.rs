//! Instances of containers that were ended in order to be started again, because of a probe, a change, or their
//! sandbox.
//!
//! How such an instance ended says nothing about how it would have ended by itself: a program that handles an order to
//! end well exits with 0, and its restart policy would take that for the end of its work. The start that follows may
//! have to wait for a back-off or an image, and the agent may be killed before it. So this is on disk before any
//! container is told to end.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus};
use serde::{Deserialize, Serialize};

use super::restart;
use super::spec::RestartPolicy;
use crate::pod_file::{self, Outlives};

/// The instances of a pod's containers that were ended to be started again, and have no successor yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced(BTreeSet<String>);

impl Replaced {
    /// Whether an instance has ended and was to be followed by another.
    pub(crate) fn has_ended(&self, instance: &ContainerStatus) -> bool {
        instance.state == ContainerState::Exited && self.0.contains(instance.id.as_str())
    }

    /// Whether a container is to be started, given its newest instance.
    pub(crate) fn should_start(
        &self,
        pod: &Pod,
        container: &Container,
        newest: Option<&ContainerStatus>,
    ) -> bool {
        let is_owed = newest.is_some_and(|newest| self.has_ended(newest));
        restart::should_start(pod, container, newest, is_owed)
    }

    /// Notes that an instance is about to be ended for its successor. Returns whether that is news to be kept: an
    /// instance that comes back however it ends needs no note.
    pub(crate) fn note(&mut self, pod: &Pod, container: &Container, id: &ContainerId) -> bool {
        RestartPolicy::effective(pod, container) != RestartPolicy::Always && self.0.insert(id.to_string())
    }

    /// Forgets those that have a successor or are gone.
    pub(crate) fn observe(&mut self, status: &PodStatus) {
        self.0.retain(|id| {
            let instance = status.containers.iter().find(|instance| instance.id.as_str() == id);
            let newest = instance.and_then(|instance| status.newest(&instance.name));
            newest.is_some_and(|newest| newest.id.as_str() == id)
        });
    }

    /// Reads the set from disk. If the file is missing or damaged, the set is empty.
    pub(crate) fn read(path: &Path) -> Self {
        pod_file::read_or_default(path, "the list of containers stopped for a restart")
    }

    /// Writes the set to disk, if the pod's folder exists. Blocks.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        pod_file::write(path, self, Outlives::Agent)
    }
}

#[cfg(test)]
mod tests {
    use rubelet_model::SandboxState;

    use super::*;
    use crate::pod::testkit::{self, Is};

    #[test]
    fn who_was_ended_for_a_successor_is_started_however_it_ended_until_there_is_one() {
        // policy → whether it needs a note, and whether one that exited with 0 is started without it
        for (policy, is_noted, by_itself) in
            [("Always", false, true), ("OnFailure", true, false), ("Never", true, false)]
        {
            let pod = testkit::pod(policy, &[], &["web"]);
            let container = &pod.spec.as_ref().unwrap().containers[0];
            let status = |is| testkit::status(SandboxState::Ready, &[("web", is)]);
            let mut replaced = Replaced::default();
            let running = status(Is::Running);
            let newest = running.newest("web").unwrap();
            assert_eq!(replaced.note(&pod, container, &newest.id), is_noted, "{policy}");
            assert!(!replaced.note(&pod, container, &newest.id), "once");
            let exited = status(Is::Exited(0));
            let starts = |replaced: &Replaced| replaced.should_start(&pod, container, exited.newest("web"));
            assert!(starts(&replaced), "{policy}");
            assert!(!replaced.should_start(&pod, container, Some(newest)), "{policy}: it still runs");
            assert_eq!(starts(&Replaced::default()), by_itself, "{policy}");

            replaced.observe(&exited);
            assert!(starts(&replaced), "{policy}");
            let mut followed = exited.clone();
            let successor = ContainerStatus { id: "next".into(), attempt: 1, ..exited.containers[0].clone() };
            followed.containers.insert(0, successor);
            replaced.observe(&followed);
            assert_eq!(replaced, Replaced::default(), "{policy}");
        }
    }

    #[test]
    fn the_next_agent_knows_who_was_ended_for_a_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replaced.json");
        let pod = testkit::pod("Never", &[], &["web"]);
        let mut replaced = Replaced::default();
        replaced.note(&pod, &pod.spec.as_ref().unwrap().containers[0], &"web-0".into());
        replaced.write(&path).unwrap();
        assert_eq!(Replaced::read(&path), replaced);
    }
}
