//! Starts one container.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use pleg::{GoDuration, Stamp};
use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState};

use super::furnish::Furnished;
use super::memory::fingerprint;
use super::{Home, Killer, Outcome, Work, retry_after};
use crate::pod::backoff::Wait;
use crate::pod::plan::Start;
use crate::pod::spec::{self, Described};
use crate::pod::stop_signal;
use crate::runtime::{CallError, CallFailure, ImageStore, Runtime};
use crate::status::Trouble;

/// Why a container did not start.
#[derive(Debug)]
struct Failure {
    reason: &'static str,
    message: String,
    retry_at: Stamp,
    /// What an event has yet to report about it.
    untold: Option<String>,
    /// The instance that was made all the same.
    made: Option<ContainerId>,
}

/// A container that could not be started, and is left alone for a while.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    until: Stamp,
    /// The instance that was made. Once it has ended, this is a container that keeps ending, and waits as such.
    made: Option<ContainerId>,
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Starts a container, unless it has to wait. Returns whether it was started.
    pub(super) async fn start(
        &mut self,
        home: &Home,
        container: &Container,
        start: &Start,
        outcome: &mut Outcome,
    ) -> bool {
        let name = container.name.as_str();
        let held =
            self.memory.holds.get(name).filter(|hold| self.now() < hold.until && !self.has_ended(hold));
        if let Some(hold) = held {
            outcome.retry(hold.until);
            return false;
        }
        // An adopted instance has had its wait already.
        let wait = if start.adopt.is_none() { self.crash_wait(container) } else { None };
        if let Some(wait) = wait {
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
            Err(Failure { reason, message, retry_at, untold, made }) => {
                self.tools.metrics.container_failed(start.place.kind(), reason);
                if let Some(words) = untold {
                    self.journal.warning(Some(name), "Failed", format!("Error: {words}"));
                }
                self.memory.holds.insert(name.into(), Hold { until: retry_at, made });
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
                let furnished = self
                    .furnish_container(home, container, image)
                    .await
                    .map_err(|error| self.later("CreateContainerConfigError", &error.to_string()))?;
                let Furnished { config, grants } = furnished;
                self.note_restart(container);
                self.memory.grants = grants;
                outcome.acted = true;
                let (runtime, sandbox, of_sandbox) =
                    (self.tools.runtime.clone(), home.sandbox.clone(), home.config.clone());
                let create = async move { runtime.create_container(&sandbox, config, of_sandbox).await };
                let id = self
                    .unbroken
                    .call(create)
                    .await
                    .map_err(|error| self.call_failed("CreateContainerError", &error))?;
                self.journal.learn_name(&id, name);
                self.journal.normal(Some(name), "Created", "Container created");
                self.check_stop_signal(&id, container).await;
                id
            }
        };
        outcome.acted = true;
        let (runtime, wanted) = (self.tools.runtime.clone(), id.clone());
        let start_it = async move { runtime.start_container(&wanted).await };
        if let Err(error) = self.unbroken.call(start_it).await {
            // Only if the start was refused: if merely the answer was lost, the container may well run.
            if start.adopt.is_some() && error.failure == CallFailure::Refused {
                self.give_up_adopted(&id).await;
            }
            return Err(Failure { made: Some(id), ..self.call_failed("RunContainerError", &error) });
        }
        self.journal.normal(Some(name), "Started", "Container started");
        self.post_start(&id, container, &home.ips).await
    }

    /// An older runtime ignores stop signals silently: this reports it.
    async fn check_stop_signal(&self, id: &ContainerId, container: &Container) {
        let wanted = stop_signal::of(container);
        if wanted == v1::Signal::RuntimeDefault {
            return;
        }
        match self.tools.runtime.stop_signal(id).await {
            Ok(got) if got == Some(wanted) => {}
            Ok(_) => {
                let message = "lifecycle.stopSignal has no effect: the runtime does not support stop signals and \
                               uses the image's";
                self.journal.warning(Some(&container.name), "StopSignalIgnored", message);
            }
            Err(error) => {
                tracing::debug!(pod = %spec::pod_ref(self.pod), container = %id, %error, "cannot read back the stop \
                                                                                          signal of a container");
            }
        }
    }

    /// Removes an adopted instance that does not start: it is in the way of a new one. Its start may have been refused
    /// because an agent that was killed had requested it already, and it runs by now: then the next look shows it.
    async fn give_up_adopted(&self, id: &ContainerId) {
        let runtime = &self.tools.runtime;
        let removed = match runtime.is_unstarted(id).await {
            Ok(true) => runtime.remove_container(id).await,
            Ok(false) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(pod = %spec::pod_ref(self.pod), container = %id, %error, "cannot remove a container that \
                                                                                     failed to start");
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
        // Not the addresses that the plan was based on: the sandbox may be new.
        let killer = Killer { ips, ..self.killer() };
        let killed = killer.after_failed_hook(id, container).await;
        if let Err(error) = killed {
            tracing::warn!(pod = %spec::pod_ref(self.pod), container = container.name, %error, "cannot stop a \
                                                                                                container whose hook \
                                                                                                failed");
        }
        let made = Some(id.clone());
        Err(Failure { untold: None, made, ..self.later("PostStartHookError", &error.to_string()) })
    }

    /// Whether what could not be started properly is known to have ended.
    fn has_ended(&self, hold: &Hold) -> bool {
        let made = hold.made.as_ref().and_then(|id| self.status.container(id));
        made.is_some_and(|instance| instance.state == ContainerState::Exited)
    }

    /// Returns the wait that a container is in since it last ended.
    pub(super) fn crash_wait(&self, container: &Container) -> Option<Wait> {
        let ended = self.last_end(container)?;
        self.memory.crashes.wait(&container.name, &fingerprint(container), ended, self.now())
    }

    /// Returns when an instance of a container last ended. An instance that was told to end just now, because of its
    /// probes, is not known to have ended: then the one before it counts, so that a container that is killed again and
    /// again waits as well.
    fn last_end(&self, container: &Container) -> Option<Stamp> {
        let ended = self.status.instances(&container.name).filter(|one| one.state == ContainerState::Exited);
        self.memory.ended(&ended.max_by_key(|one| one.seniority())?.id)
    }

    /// Notes that a container that ended is started again now: the next wait is longer.
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
        let untold = Some(message.to_owned());
        Failure { reason, message: message.to_owned(), retry_at, untold, made: None }
    }

    fn call_failed(&self, reason: &'static str, error: &CallError) -> Failure {
        let retry_at = self.now().plus(retry_after(error, self.tools.settings.retry));
        Failure { retry_at, ..self.later(reason, &error.to_string()) }
    }
}

impl From<super::image::NoImage> for Failure {
    fn from(none: super::image::NoImage) -> Self {
        Self {
            reason: none.reason,
            message: none.message,
            retry_at: none.retry_at,
            // The pull has reported why.
            untold: Some(none.reason.to_owned()),
            made: None,
        }
    }
}
