//! Ends containers and pods.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Tools;
use super::memory::HooksRun;
use crate::pod::grace::{KillReason, container_grace, left, stop_timeout};
use crate::pod::journal::Journal;
use crate::pod::order::waits_for;
use crate::pod::plan::Kill;
use crate::pod::{spec, written};
use crate::runtime::{CallError, Runtime};

/// Ends what belongs to one pod.
pub(crate) struct Killer<'a, R> {
    pub(crate) tools: &'a Arc<Tools<R>>,
    pub(crate) pod: &'a Pod,
    pub(crate) journal: &'a Journal,
    /// Where the pod can be reached; not used on the host's network.
    pub(crate) ips: &'a [IpAddr],
    pub(crate) hooks: &'a HooksRun,
}

/// A container on its way out.
struct Leaving<'a> {
    id: &'a ContainerId,
    name: &'a str,
    reason: KillReason,
    message: String,
    /// In seconds; `None` if the container's own grace period counts.
    grace: Option<u64>,
    /// The containers that end first.
    before: Vec<watch::Receiver<bool>>,
}

impl<R: Runtime> Killer<'_, R> {
    /// Ends one container while its pod keeps running.
    pub(crate) async fn one(&self, kill: &Kill) -> Result<(), CallError> {
        let Kill { id, name, reason, message } = kill;
        self.container(Leaving {
            id,
            name,
            reason: *reason,
            message: message.clone(),
            grace: None,
            before: Vec::new(),
        })
        .await
    }

    /// Ends one container without waiting for it.
    pub(crate) async fn now(&self, instance: &ContainerStatus, reason: KillReason) -> Result<(), CallError> {
        let message = format!("Stopping container {}", instance.name);
        let (id, name) = (&instance.id, &*instance.name);
        self.container(Leaving { id, name, reason, message, grace: Some(0), before: Vec::new() }).await
    }

    /// Ends a container whose hook failed after it started.
    pub(crate) async fn after_failed_hook(
        &self,
        id: &ContainerId,
        container: &Container,
    ) -> Result<(), CallError> {
        let reason = KillReason::FailedPostStartHook;
        let name = container.name.as_str();
        let message = "FailedPostStartHook".to_owned();
        self.container(Leaving { id, name, reason, message, grace: None, before: Vec::new() }).await
    }

    /// Ends all running containers, at once except for sidecars, and then stops all sandboxes, even if some containers
    /// would not end. Returns the first failure.
    pub(crate) async fn pod(&self, status: &PodStatus, grace: Option<u64>) -> Result<(), CallError> {
        let running: Vec<&ContainerStatus> =
            status.containers.iter().filter(|container| may_run(container)).collect();
        let names: Vec<&str> = running.iter().map(|container| &*container.name).collect();
        let done: Vec<watch::Sender<bool>> = running.iter().map(|_| watch::Sender::new(false)).collect();
        let ends = running.iter().zip(waits_for(self.pod, &names)).enumerate().map(
            |(number, (container, first))| {
                let leaving = Leaving {
                    id: &container.id,
                    name: &container.name,
                    reason: KillReason::PodEnds,
                    message: format!("Stopping container {}", container.name),
                    grace,
                    before: first.into_iter().map(|other| done[other].subscribe()).collect(),
                };
                let done = &done[number];
                async move {
                    let ended = self.container(leaving).await;
                    // A container that would not end delays those after it until their own time is over.
                    if ended.is_ok() {
                        done.send_replace(true);
                    }
                    ended
                }
            },
        );
        let mut result: Result<(), CallError> = join_all(ends).await.into_iter().collect();
        for sandbox in &status.sandboxes {
            let stopped = self.tools.runtime.stop_sandbox(&sandbox.id).await;
            result = result.and(stopped);
        }
        result
    }

    async fn container(&self, leaving: Leaving<'_>) -> Result<(), CallError> {
        let Leaving { id, name, reason, message, grace, before } = leaving;
        let container = spec::all_containers(self.pod).find(|container| container.name == name);
        self.journal.normal(Some(name), "Killing", message);
        let mut grace = grace.unwrap_or_else(|| container_grace(self.pod, container, reason));
        let written = match container {
            None if grace > 0 => self.written(id, name).await,
            _ => None,
        };
        if let Some(container) = container.or(written.as_ref()) {
            grace = self.pre_stop(id, container, grace).await;
        }
        if !before.is_empty() && grace > 0 {
            let begun = Instant::now();
            let others = join_all(before.into_iter().map(|mut done| async move {
                // A sender that is gone belongs to a container that is done.
                let _ = done.wait_for(|done| *done).await;
            }));
            let _ = tokio::time::timeout(Duration::from_secs(grace), others).await;
            grace = left(grace, begun.elapsed());
        }
        self.tools.runtime.stop_container(id, stop_timeout(grace)).await
    }

    /// Restores a container that is in no manifest from its annotations.
    async fn written(&self, id: &ContainerId, name: &str) -> Option<Container> {
        let annotations = self.tools.runtime.annotations(id).await;
        let unread = |error: &CallError| {
            tracing::warn!(pod = %spec::pod_ref(self.pod), container = name, %error, "cannot read the annotations of \
                                                                                      a container; stopping it \
                                                                                      without its preStop hook, if \
                                                                                      it has one");
        };
        annotations.inspect_err(unread).ok().map(|annotations| written::container(name, &annotations))
    }

    /// Runs the `preStop` hook of the container; returns what is left of its grace period.
    async fn pre_stop(&self, id: &ContainerId, container: &Container, grace: u64) -> u64 {
        let hook = written::pre_stop(container).filter(|_| grace > 0 && !self.hooks.has_run(id));
        let Some(hook) = hook else { return grace };
        let begun = Instant::now();
        let hooked = self.tools.hooked(self.pod, self.journal, (id, container), self.ips);
        match tokio::time::timeout(Duration::from_secs(grace), hooked.run(hook)).await {
            Ok(Ok(())) => self.hooks.note(id),
            Ok(Err(error)) => {
                if error.was_run() {
                    self.hooks.note(id);
                }
                self.journal.warning(Some(&container.name), "FailedPreStopHook", "PreStopHook failed");
                tracing::warn!(pod = %spec::pod_ref(self.pod), container = container.name, %error, "a preStop hook failed");
            }
            // The hook's time is over, and so is the container's.
            Err(_) => {}
        }
        left(grace, begun.elapsed())
    }
}

/// Whether a container might still be running.
pub(crate) fn may_run(container: &ContainerStatus) -> bool {
    match container.state {
        ContainerState::Running | ContainerState::Unknown => true,
        ContainerState::Created | ContainerState::Exited => false,
    }
}
