//! Starts one container.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use pleg::{GoDuration, Stamp};
use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState};

use super::memory::fingerprint;
use super::{Home, Outcome, Work, retry_after};
use crate::downward::PodFacts;
use crate::environment::Environment;
use crate::pod::backoff::Wait;
use crate::pod::config::{ConfigError, ContainerParts, container_config, hosts_file, log_directory};
use crate::pod::files;
use crate::pod::plan::Start;
use crate::pod::spec::{self, Described};
use crate::pod::stop_signal;
use crate::runtime::{CallError, CallFailure, ImageStore, Runtime};
use crate::status::Trouble;
use crate::volumes::{Mount, Propagation, RecursiveReadOnly};

const HOSTS: &str = "/etc/hosts";

/// Why a container did not start.
#[derive(Debug)]
struct Failure {
    reason: &'static str,
    message: String,
    retry_at: Stamp,
    /// Whether an event has said it already.
    is_told: bool,
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Starts a container, unless it has to wait. Whether it was started.
    pub(super) async fn start(
        &mut self,
        home: &Home,
        container: &Container,
        start: &Start,
        outcome: &mut Outcome,
    ) -> bool {
        let name = container.name.as_str();
        if let Some(until) = self.memory.holds.get(name).copied().filter(|until| self.now() < *until) {
            outcome.retry(until);
            return false;
        }
        if let Some(wait) = self.crash_wait(container) {
            self.note_crash_loop(container, wait, outcome);
            return false;
        }
        match self.try_start(home, container, start, outcome).await {
            Ok(()) => {
                self.tools.metrics.container_started(start.place.kind());
                self.memory.troubles.remove(name);
                self.memory.holds.remove(name);
                true
            }
            Err(Failure { reason, message, retry_at, is_told }) => {
                self.tools.metrics.container_failed(start.place.kind(), reason);
                if !is_told {
                    self.journal.warning(Some(name), "Failed", format!("Error: {message}"));
                }
                self.memory.holds.insert(name.into(), retry_at);
                self.trouble(container, reason, message);
                outcome.retry(retry_at);
                false
            }
        }
    }

    async fn try_start(
        &mut self,
        home: &Home,
        container: &Container,
        start: &Start,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let name = container.name.as_str();
        let id = match &start.adopt {
            Some(id) => id.clone(),
            None => {
                let image = self.image(container, &home.config).await?;
                let restart_count = self.restart_count(container).await;
                let (environment, mounts) = self
                    .surroundings(home, container, restart_count)
                    .await
                    .map_err(|error| self.later("CreateContainerConfigError", &error.to_string()))?;
                let config = container_config(&ContainerParts {
                    pod: self.pod,
                    container,
                    restart_count,
                    image: &image,
                    environment: &environment,
                    mounts: &mounts,
                    machine: &self.tools.settings.machine,
                    security: &self.tools.settings.security,
                    runtime: self.tools.settings.admission.runtime,
                })
                .map_err(|error| self.later("CreateContainerConfigError", &error.to_string()))?;
                self.note_restart(container);
                // Before it is made: one that was made and not noted would never be resized.
                self.memory.grants.give(name, restart_count, container.resources.as_ref());
                self.save_grants().await;
                outcome.acted = true;
                let (runtime, sandbox, of_sandbox) =
                    (self.tools.runtime.clone(), home.sandbox.clone(), home.config.clone());
                let create = async move { runtime.create_container(&sandbox, config, of_sandbox).await };
                let id = self
                    .unbroken
                    .call(create)
                    .await
                    .map_err(|error| self.call_failed("CreateContainerError", &error))?;
                self.journal.knows_one(&id, name);
                self.journal.normal(Some(name), "Created", "Container created");
                self.check_stop_signal(&id, container).await;
                id
            }
        };
        outcome.acted = true;
        let (runtime, wanted) = (self.tools.runtime.clone(), id.clone());
        let start_it = async move { runtime.start_container(&wanted).await };
        if let Err(error) = self.unbroken.call(start_it).await {
            // Only if it was refused: one whose answer was lost may well run.
            if start.adopt.is_some() && error.failure == CallFailure::Refused {
                self.give_up_adopted(&id).await;
            }
            return Err(self.call_failed("RunContainerError", &error));
        }
        self.journal.normal(Some(name), "Started", "Container started");
        self.post_start(&id, container, &home.ips).await
    }

    /// A runtime from before there were stop signals leaves them out without a word: then there is one here.
    async fn check_stop_signal(&self, id: &ContainerId, container: &Container) {
        let wanted = stop_signal::of(container);
        if wanted == v1::Signal::RuntimeDefault {
            return;
        }
        match self.tools.runtime.stop_signal(id).await {
            Ok(got) if got == Some(wanted) => {}
            Ok(_) => {
                let message = "lifecycle.stopSignal has no effect: the runtime does not know stop signals, and ends the container with that of its image";
                self.journal.warning(Some(&container.name), "StopSignalIgnored", message);
            }
            Err(error) => {
                tracing::debug!(pod = %spec::pod_ref(self.pod), container = %id, %error, "cannot ask for the stop signal of a container");
            }
        }
    }

    /// One that somebody else made and that does not start is in the way of a new one.
    async fn give_up_adopted(&self, id: &ContainerId) {
        if let Err(error) = self.tools.runtime.remove_container(id).await {
            tracing::warn!(pod = %spec::pod_ref(self.pod), container = %id, %error, "cannot remove a container that does not start");
        }
    }

    async fn post_start(
        &self,
        id: &ContainerId,
        container: &Container,
        ips: &[IpAddr],
    ) -> Result<(), Failure> {
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(hook) = hook else { return Ok(()) };
        let hooked = self.tools.hooked(self.pod, self.journal, (id, container), ips);
        let Err(error) = hooked.run(hook).await else { return Ok(()) };
        self.journal.warning(Some(&container.name), "FailedPostStartHook", "PostStartHook failed");
        let killed = self.killer().after_failed_hook(id, container).await;
        if let Err(error) = killed {
            tracing::warn!(pod = %spec::pod_ref(self.pod), container = container.name, %error, "cannot end a container whose hook failed");
        }
        Err(Failure { is_told: true, ..self.later("PostStartHookError", &error.to_string()) })
    }

    /// The environment of a container and everything that is mounted into it.
    async fn surroundings(
        &self,
        home: &Home,
        container: &Container,
        restart_count: u32,
    ) -> Result<(Environment, Vec<Mount>), ConfigError> {
        let (tools, pod, objects) = (self.tools.clone(), self.pod.clone(), self.objects.clone());
        let (container, prepared, ips) = (container.clone(), home.prepared.clone(), home.ips.clone());
        let task = tokio::task::spawn_blocking(move || {
            let settings = &tools.settings;
            let facts = PodFacts { pod: &pod, objects: &objects, node: &settings.node, pod_ips: &ips };
            let environment = Environment::of(&container, &facts)?;
            let uid = spec::uid(&pod);
            let mut mounts = tools.volumes.mounts(uid.as_str(), &prepared, &container, &environment)?;
            let folder = settings.data.pod(uid.as_str())?;
            let brings_hosts = mounts.iter().any(|mount| mount.container_path == HOSTS);
            if !brings_hosts
                && let Some(text) = hosts_file(&pod, &ips, &settings.host_hosts, &settings.dns.cluster_domain)
            {
                let path = folder.etc_hosts();
                files::write_hosts(&path, &text).map_err(failed_at(&path))?;
                mounts.push(file_mount("etc-hosts", path, HOSTS));
            }
            if let Some(target) =
                container.termination_message_path.as_deref().filter(|path| !path.is_empty())
            {
                let folder = folder.container(&container.name);
                let path = files::make_last_words_file(&folder, restart_count).map_err(failed_at(&folder))?;
                mounts.push(file_mount("termination-message", path, target));
            }
            Ok((environment, mounts))
        });
        task.await.unwrap_or_else(|panicked| {
            let source = std::io::Error::other(panicked);
            Err(ConfigError::Files { path: self.tools.settings.data.pods(), source })
        })
    }

    async fn restart_count(&self, container: &Container) -> u32 {
        if let Some(newest) = self.status.newest(&container.name) {
            return newest.restart_count.max(newest.attempt) + 1;
        }
        let logs = log_directory(&self.tools.settings.logs, self.pod);
        let name = container.name.clone();
        let read = tokio::task::spawn_blocking(move || files::restart_count_by_logs(&logs, &name));
        read.await.unwrap_or(0).max(self.memory.next_instance(&container.name))
    }

    /// The wait that a container is in since it last ended.
    pub(super) fn crash_wait(&self, container: &Container) -> Option<Wait> {
        let ended = self.last_end(container)?;
        self.memory.crashes.wait(&container.name, &fingerprint(container), ended, self.now())
    }

    fn last_end(&self, container: &Container) -> Option<Stamp> {
        let newest = self.status.newest(&container.name)?;
        if newest.state != ContainerState::Exited {
            return None;
        }
        self.memory.ended(&newest.id)
    }

    /// A container that ended is started again now: the next time it waits longer.
    pub(super) fn note_restart(&mut self, container: &Container) {
        if let Some(ended) = self.last_end(container) {
            let now = self.now();
            self.memory.crashes.advance(&container.name, &fingerprint(container), ended, now);
        }
    }

    pub(super) fn note_crash_loop(&mut self, container: &Container, wait: Wait, outcome: &mut Outcome) {
        let pod = Described(self.pod);
        let name = container.name.as_str();
        let event = format!("Back-off restarting failed container {name} in pod {pod}");
        self.journal.warning(Some(name), "BackOff", event);
        let delay = GoDuration(wait.delay);
        let message = format!("back-off {delay} restarting failed container={name} pod={pod}");
        self.trouble(container, "CrashLoopBackOff", message);
        outcome.retry(wait.until);
    }

    fn trouble(&mut self, container: &Container, reason: &'static str, message: String) {
        self.memory.troubles.insert(Arc::from(container.name.as_str()), Trouble { reason, message });
    }

    fn later(&self, reason: &'static str, message: &str) -> Failure {
        let retry_at = self.now().plus(self.tools.settings.retry);
        Failure { reason, message: message.to_owned(), retry_at, is_told: false }
    }

    fn call_failed(&self, reason: &'static str, error: &CallError) -> Failure {
        let retry_at = self.now().plus(retry_after(error, self.tools.settings.retry));
        Failure { reason, message: error.to_string(), retry_at, is_told: false }
    }
}

impl From<super::image::NoImage> for Failure {
    fn from(none: super::image::NoImage) -> Self {
        Self { reason: none.reason, message: none.message, retry_at: none.retry_at, is_told: false }
    }
}

fn failed_at(path: &std::path::Path) -> impl Fn(std::io::Error) -> ConfigError + use<> {
    let path = path.to_owned();
    move |source| ConfigError::Files { path: path.clone(), source }
}

fn file_mount(volume: &str, host_path: PathBuf, container_path: &str) -> Mount {
    Mount {
        volume: volume.to_owned(),
        host_path,
        container_path: container_path.to_owned(),
        read_only: false,
        recursive_read_only: RecursiveReadOnly::Disabled,
        propagation: Propagation::Private,
        selinux_relabel: true,
    }
}
