//! Removes what is left of containers, sandboxes and pods that ended. Nothing is removed before its exit has been
//! published: callers have published the status that shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use rubelet_model::{
    ContainerId, ContainerState, ContainerStatus, PodStatus, PodUid, SandboxId, SandboxState,
};

use super::{Tools, Unbroken, Work};
use crate::disk::Hangs;
use crate::leavings::{Leavings, LeavingsError};
use crate::off_thread::off_thread;
use crate::pod::config::log_directory;
use crate::pod::files;
use crate::pod::spec;
use crate::runtime::{CallError, ImageStore, Runtime};

/// What may be removed of a pod that keeps running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remains {
    pub(crate) containers: Vec<ContainerId>,
    pub(crate) sandboxes: Vec<SandboxId>,
}

impl Remains {
    /// Selects dead instances other than the newest few of each name, those made in an old sandbox and never started,
    /// and dead sandboxes without containers other than the newest.
    pub(crate) fn of(status: &PodStatus, keep: usize) -> Self {
        let mut dead: BTreeMap<&str, Vec<&ContainerStatus>> = BTreeMap::new();
        for container in status.containers.iter().filter(|one| one.state == ContainerState::Exited) {
            dead.entry(&container.name).or_default().push(container);
        }
        let mut containers = Vec::new();
        for instances in dead.values_mut() {
            instances.sort_by_key(|instance| Reverse(instance.seniority()));
            containers.extend(instances.iter().skip(keep).map(|instance| instance.id.clone()));
        }
        let newest = status.sandboxes.first().map(|sandbox| &sandbox.id);
        let is_stillborn =
            |one: &&ContainerStatus| one.state == ContainerState::Created && Some(&one.sandbox) != newest;
        containers.extend(status.containers.iter().filter(is_stillborn).map(|one| one.id.clone()));
        let is_used = |id: &SandboxId| {
            let mut stay = status.containers.iter().filter(|container| !containers.contains(&container.id));
            stay.any(|container| container.sandbox == *id)
        };
        let sandboxes = status
            .sandboxes
            .iter()
            .skip(1)
            .filter(|sandbox| sandbox.state == SandboxState::NotReady && !is_used(&sandbox.id))
            .map(|sandbox| sandbox.id.clone())
            .collect();
        Self { containers, sandboxes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.sandboxes.is_empty()
    }
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Removes what is left of earlier instances. What cannot be removed now is found again at the next look.
    pub(crate) async fn remove(&self, remains: &Remains) {
        for id in &remains.containers {
            let Some(instance) = self.status.container(id) else { continue };
            if let Err(error) = self.remove_instance(instance, remains).await {
                tracing::warn!(pod = %spec::pod_ref(self.pod), container = %id, %error, "cannot remove a dead container");
            }
        }
        for id in &remains.sandboxes {
            if let Err(error) = self.remove_sandbox(id).await {
                tracing::warn!(pod = %spec::pod_ref(self.pod), sandbox = %id, %error, "cannot remove a dead sandbox");
            }
        }
    }

    /// Removes all init containers before a new sandbox is made: those of the old one would be taken for those of the
    /// new.
    pub(super) async fn remove_init_containers(&self) -> Result<(), CallError> {
        for container in spec::init_containers(self.pod) {
            let of_name = self.status.containers.iter().filter(|instance| *instance.name == *container.name);
            for instance in of_name {
                self.tools.runtime.remove_container(&instance.id).await?;
            }
            self.remove_old_files(&container.name).await;
        }
        Ok(())
    }

    async fn remove_instance(
        &self,
        instance: &ContainerStatus,
        remains: &Remains,
    ) -> Result<(), CleanupError> {
        let others = self.status.instances(&instance.name);
        let stay = others.filter(|one| !remains.containers.contains(&one.id)).map(|one| one.restart_count);
        // Files first: once the container is gone, nothing tells which files are its own.
        self.remove_files(&instance.name, instance.restart_count, stay.collect()).await?;
        Ok(self.tools.runtime.remove_container(&instance.id).await?)
    }

    /// Removes old files of a container whose instances are all removed, so that it starts from the beginning. What the
    /// newest left on disk stays, for inspection and because the number of restarts is read from it.
    pub(super) async fn remove_old_files(&self, container: &str) {
        let newest = self.status.instances(container).map(|one| one.restart_count).max();
        let stay = u32::try_from(self.tools.settings.dead_instances.max(1)).unwrap_or(u32::MAX);
        let Some(last) = newest.and_then(|newest| newest.checked_sub(stay)) else { return };
        if let Err(error) = self.remove_files(container, last, Vec::new()).await {
            tracing::warn!(pod = %spec::pod_ref(self.pod), container, %error, "cannot remove old logs of a container");
        }
    }

    /// Removes what instances of a container left on disk, up to the instance with this number, except those that stay.
    /// Some of these instances may be long gone. Logs that are still to be read go with the next removal.
    async fn remove_files(&self, container: &str, last: u32, stay: Vec<u32>) -> io::Result<()> {
        let logs = log_directory(&self.tools.settings.logs, self.pod).join(container);
        // A UID that cannot be a folder name was rejected with its manifest.
        let words = self.tools.settings.data.pod(spec::uid(self.pod).as_str());
        let words = words.ok().map(|directory| directory.container(container));
        let reader = self.tools.settings.log_reader.clone();
        off_thread(move || {
            let are_gone = |number: u32| number <= last && !stay.contains(&number);
            let is_to_read = |number| reader.as_ref().is_some_and(|reader| reader.is_to_read(&logs, number));
            files::remove_logs(&logs, |number| are_gone(number) && !is_to_read(number))?;
            words.map_or(Ok(()), |words| files::remove_last_words(&words, are_gone))
        })
        .await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CallError> {
        self.tools.runtime.stop_sandbox(id).await?;
        self.tools.runtime.remove_sandbox(id).await
    }

    /// Removes everything of a pod that ended. The folder goes last: as long as it exists, the pod is known as ours.
    pub(crate) async fn forget(&self) -> Result<(), CleanupError> {
        for instance in &self.status.containers {
            self.tools.runtime.remove_container(&instance.id).await?;
        }
        for sandbox in &self.status.sandboxes {
            self.remove_sandbox(&sandbox.id).await?;
        }
        let uid = spec::uid(self.pod);
        clear(self.tools, self.unbroken, uid.clone(), move |leavings| leavings.remove(&uid)).await
    }
}

/// Applies `how` to what a pod leaves behind. After that, other pods may get its ids.
async fn clear<R: Runtime + ImageStore>(
    tools: &Arc<Tools<R>>,
    unbroken: &Unbroken,
    uid: PodUid,
    how: impl FnOnce(&Leavings<'_>) -> Result<(), LeavingsError> + Send + 'static,
) -> Result<(), CleanupError> {
    let tools = tools.clone();
    let clearing = unbroken.take_down(move || {
        let Tools { groups, settings, volumes, user_ids, .. } = &*tools;
        how(&Leavings { groups: groups.as_deref(), logs: &settings.logs, volumes })?;
        user_ids.give_back(&uid);
        Ok::<_, LeavingsError>(())
    });
    Ok(clearing.await??)
}

/// Gives back what a pod used that has nothing running any more. The records of the pod stay.
pub(crate) async fn release<R>(
    tools: &Arc<Tools<R>>,
    unbroken: &Unbroken,
    uid: &PodUid,
) -> Result<(), CleanupError>
where
    R: Runtime + ImageStore,
{
    let gone = uid.clone();
    clear(tools, unbroken, uid.clone(), move |leavings| leavings.release(&gone)).await
}

/// Why something could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CleanupError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Leavings(#[from] LeavingsError),
    #[error(transparent)]
    Hangs(#[from] Hangs),
    #[error("its logs and termination messages: {0}")]
    Files(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit::{self, Is, instance, sandbox};

    #[test]
    fn the_newest_dead_instance_and_everything_alive_stay() {
        let mut status = testkit::status(SandboxState::Ready, &[]);
        status.containers = vec![
            instance("a", 3, Is::Running, "sandbox-2"),
            instance("a", 2, Is::Exited(1), "sandbox-2"),
            instance("a", 1, Is::Exited(1), "sandbox-1"),
            instance("a", 0, Is::Exited(1), "sandbox-0"),
            instance("b", 0, Is::Exited(0), "sandbox-1"),
            instance("c", 0, Is::Created, "sandbox-2"),
        ];
        status.sandboxes = vec![
            sandbox(2, SandboxState::Ready),
            sandbox(1, SandboxState::NotReady),
            sandbox(0, SandboxState::NotReady),
        ];
        let remains = Remains::of(&status, 1);
        let ids: Vec<&str> = remains.containers.iter().map(ContainerId::as_str).collect();
        assert_eq!(ids, ["a-1", "a-0"]);
        let sandboxes: Vec<&str> = remains.sandboxes.iter().map(SandboxId::as_str).collect();
        assert_eq!(sandboxes, ["sandbox-0"], "the other still has a container that stays");
        assert!(Remains::of(&testkit::status(SandboxState::NotReady, &[]), 1).is_empty(), "the newest stays");
        assert_eq!(Remains::of(&status, 9), Remains::default());
    }

    #[test]
    fn what_was_made_and_never_started_goes_with_its_sandbox() {
        let mut status = testkit::status(SandboxState::Ready, &[]);
        status.containers = vec![
            instance("a", 2, Is::Created, "sandbox-1"),
            instance("a", 1, Is::Created, "sandbox-0"),
            instance("a", 0, Is::Exited(1), "sandbox-0"),
            instance("b", 0, Is::Created, "sandbox-0"),
        ];
        status.sandboxes = vec![sandbox(1, SandboxState::Ready), sandbox(0, SandboxState::NotReady)];
        let ids = |remains: &Remains| -> Vec<String> {
            remains.containers.iter().map(ToString::to_string).collect()
        };
        let remains = Remains::of(&status, 1);
        assert_eq!(ids(&remains), ["a-1", "b-0"], "it is not told of, so another that ended is");
        assert_eq!(remains.sandboxes, Vec::<SandboxId>::new());
        let remains = Remains::of(&status, 0);
        assert_eq!(ids(&remains), ["a-0", "a-1", "b-0"]);
        assert_eq!(remains.sandboxes, ["sandbox-0".into()]);
    }
}
