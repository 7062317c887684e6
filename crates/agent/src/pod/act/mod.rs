//! Carries out plans on a runtime.
//!
//! Nothing is decided here but what only trying can tell. Whatever happens, the next plan is made from a status that
//! was read afterwards: an action that failed, or was cut short, may still have taken effect.

mod cleanup;
mod furnish;
mod hooks;
mod image;
mod kill;
mod lone;
mod memory;
mod network;
mod resize;
mod restarts;
mod start;
mod unbroken;
mod users;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pleg::{Clock, Stamp};
use rubelet_cri::v1;
use rubelet_model::{ContainerId, ContainerState, PodStatus, SandboxId};
use tokio::sync::{mpsc, oneshot};

use super::config::{
    HostDns, HostName, NameTooLong, PodDns, SandboxParts, asks_for_selinux, depends_on_host, dns_of_pod,
    pod_amounts, sandbox_config,
};
use super::grace::KillReason;
use super::grants::PodGrant;
use super::journal::Journal;
use super::plan::{Adjustment, Kill, Place, Plan, Replacement, Start};
use super::spec;
use crate::cgroup::PodGroups;
use crate::image::Puller;
use crate::manifest::Objects;
use crate::metrics::Metrics;
use crate::off_thread::off_thread;
use crate::probe::Prober;
use crate::reach::PodHttp;
use crate::runtime::{CallError, ImageStore, Runtime};
use crate::settings::Settings;
use crate::user_ids::{IdRange, UserIds};
use crate::volumes::{Prepared, Volumes};

pub(crate) use cleanup::{CleanupError, Remains, release};
pub(crate) use furnish::refresh_volumes;
pub(crate) use kill::{Killer, may_run};
pub use lone::{EndedWithoutAgent, LoneContainer};
pub(crate) use memory::Memory;
pub(crate) use unbroken::Unbroken;
use users::NoUsers;

/// What acting needs, the same for all pods.
#[derive(Debug)]
pub(crate) struct Tools<R> {
    pub(crate) runtime: Arc<R>,
    pub(crate) puller: Puller<R>,
    pub(crate) volumes: Volumes,
    pub(crate) user_ids: UserIds,
    /// `None` if the runtime decides where pods go.
    pub(crate) groups: Option<Arc<PodGroups>>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) http: PodHttp,
    pub(crate) prober: Arc<Prober<R>>,
}

/// The outcome of acting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether the runtime was asked to change anything: what was known before may no longer hold.
    pub(crate) acted: bool,
    /// When to retry what could not be done now.
    pub(crate) retry_at: Option<Stamp>,
    /// Until when nothing can be done for the pod at all.
    pub(crate) hold_until: Option<Stamp>,
    /// Whether all volumes were found, or made, as they should be.
    pub(crate) volumes_are_ready: bool,
}

impl Outcome {
    fn retry(&mut self, at: Stamp) {
        self.retry_at = Some(self.retry_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn hold(&mut self, until: Stamp) {
        self.retry(until);
        self.hold_until = Some(until);
    }
}

/// One pod, while it is acted on.
pub(crate) struct Work<'a, R> {
    pub(crate) tools: &'a Arc<Tools<R>>,
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) objects: &'a Arc<Objects>,
    pub(crate) status: &'a PodStatus,
    pub(crate) memory: &'a mut Memory,
    pub(crate) journal: &'a Journal,
    pub(crate) unbroken: &'a Unbroken,
    pub(crate) milestones: &'a mpsc::Sender<Milestone>,
}

/// Progress that is published while a pod is acted on.
#[derive(Debug)]
pub(crate) enum Milestone {
    /// Everything in the old sandbox was ended. What is about to be removed waits until its end has been published.
    Ended(oneshot::Sender<()>),
    /// The pod has got a sandbox: what comes after may take long.
    Sandbox,
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Carries out a plan.
    pub(crate) async fn carry_out(&mut self, plan: Plan) -> Outcome {
        let mut outcome = Outcome::default();
        let mut next = Some(plan);
        while let Some(plan) = next.take() {
            match plan {
                Plan::EndPod => self.end_pod(&mut outcome).await,
                Plan::Recreate { replacement, starts } => {
                    self.recreate(replacement, &starts, &mut outcome).await;
                }
                Plan::RestartAll { cause, remove, meanwhile } => {
                    if self.must_wait(&cause, &mut outcome) {
                        next = meanwhile.map(|plan| *plan);
                    } else {
                        self.restart_all(&cause, &remove, &mut outcome).await;
                    }
                }
                Plan::Adjust(adjustment) => self.adjust(adjustment, &mut outcome).await,
            }
        }
        outcome
    }

    async fn adjust(&mut self, adjustment: Adjustment, outcome: &mut Outcome) {
        let Adjustment { sandbox, attempt, kills, starts, resize } = adjustment;
        // First of all: no container is ended to be started again without the volumes it needs.
        let prepared = if starts.is_empty() { None } else { self.volumes(outcome).await };
        let lacks_volumes = !starts.is_empty() && prepared.is_none();
        let starts_again = |kill: &Kill| {
            starts.iter().any(|start| start.place.of(self.pod).is_some_and(|own| *own.name == *kill.name))
        };
        let kills: Vec<&Kill> = kills.iter().filter(|kill| !lacks_volumes || !starts_again(kill)).collect();
        self.note_replaced(kills.iter().filter(|kill| starts_again(kill)).map(|kill| &kill.id)).await;
        for kill in kills {
            let now = self.now();
            if let Some(until) = self.memory.claim_kill(&kill.id, now) {
                return outcome.hold(until);
            }
            outcome.acted = true;
            if let Err(error) = self.killer().one(kill).await {
                return self.failed(outcome, &error);
            }
        }
        if lacks_volumes {
            return;
        }
        // Before anything is started: what starts may need the room that the resize makes.
        if let Some(resize) = &resize {
            self.resize(resize, outcome).await;
        }
        if let Some(prepared) = prepared {
            let Blueprint { config, users, .. } = match self.sandbox_config(attempt).await {
                Ok(blueprint) => blueprint,
                Err(error) => return self.no_sandbox(&error, outcome),
            };
            let ips = spec::ips(self.pod, &self.status.ips, &self.tools.settings.host_ips.now());
            let home = Home { sandbox, config, users, ips, prepared };
            self.start_all(&home, &starts, outcome).await;
        }
    }

    /// Records on disk that these instances are about to be ended for their successors. They are replaced even if
    /// recording fails.
    async fn note_replaced(&mut self, ids: impl Iterator<Item = &ContainerId>) {
        let mut is_news = false;
        for id in ids {
            let Some(instance) = self.status.container(id) else { continue };
            let container = spec::all_containers(self.pod).find(|own| *own.name == *instance.name);
            is_news |= container.is_some_and(|own| self.memory.replaced.note(self.pod, own, id));
        }
        // A UID that cannot be a folder name was rejected with its manifest.
        let Ok(folder) = self.tools.settings.data.pod(spec::uid(self.pod).as_str()) else { return };
        if !is_news {
            return;
        }
        let replaced = self.memory.replaced.clone();
        let write = move || replaced.write(&folder.replaced());
        let problem = match self.with_files("the list of containers being replaced", write).await {
            Ok(written) => written.err().map(|error| error.to_string()),
            Err(hangs) => Some(hangs.to_string()),
        };
        if let Some(problem) = problem {
            tracing::warn!(pod = %spec::pod_ref(self.pod), problem, "cannot record which containers are about to be \
                                                                     replaced; after a restart the agent may take \
                                                                     their exit for a normal one");
        }
    }

    async fn end_pod(&mut self, outcome: &mut Outcome) {
        outcome.acted = true;
        match self.killer().pod(self.status, None).await {
            // Whether it worked shows in the next status; there is no hurry to try again.
            Ok(()) => outcome.hold(self.now().plus(self.tools.settings.retry)),
            Err(error) => self.failed(outcome, &error),
        }
    }

    async fn recreate(&mut self, replacement: Replacement, starts: &[Start], outcome: &mut Outcome) {
        if let Some(wait) = self.memory.sandboxes.wait_since_failure(SANDBOX, self.now()) {
            let message =
                format!("Back-off {}s re-creating a pod sandbox that keeps breaking", wait.delay.as_secs());
            self.journal.warning(None, "BackOff", message);
            outcome.hold(wait.until);
            return;
        }
        if self.waits_for_network(outcome).await {
            return;
        }
        let Some(prepared) = self.furnish(outcome).await else { return };
        let amounts = pod_amounts(self.pod, &self.tools.settings.machine);
        self.memory.grants.pod = Some(PodGrant::of(self.pod, amounts));
        let Blueprint { config, users, warnings } = match self.sandbox_config(replacement.attempt).await {
            Ok(blueprint) => blueprint,
            Err(error) => return self.no_sandbox(&error, outcome),
        };
        self.tell_once_a_sandbox(warnings);
        if replacement.replaces.is_some() {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.journal.normal(None, "SandboxChanged", message);
        }
        if !self.status.sandboxes.is_empty() || !self.status.containers.is_empty() {
            outcome.acted = true;
            let running = self.status.containers.iter().filter(|instance| may_run(instance));
            self.note_replaced(running.map(|instance| &instance.id)).await;
            if let Err(error) = self.killer().pod(self.status, None).await {
                self.failed(outcome, &error);
                return;
            }
            if !self.ends_are_told().await {
                outcome.hold(self.now().plus(self.tools.settings.retry));
                return;
            }
            if let Err(error) = self.remove_init_containers().await {
                self.failed(outcome, &error);
                return;
            }
        }
        outcome.acted = true;
        self.tools.metrics.pod_started();
        let (runtime, wanted) = (self.tools.runtime.clone(), config.clone());
        let run = self.unbroken.call(async move { runtime.run_sandbox(wanted, DEFAULT_HANDLER).await });
        let made = match run.await {
            Ok(sandbox) => match self.ips(&sandbox).await {
                Ok(ips) => Ok((sandbox, ips)),
                Err(error) => Err(("FailedPodSandBoxStatus", "Unable to get pod sandbox status", error)),
            },
            Err(error) => Err(("FailedCreatePodSandBox", "Failed to create pod sandbox", error)),
        };
        match made {
            Ok((sandbox, ips)) => {
                if replacement.replaces.is_some() {
                    // The first replacement is immediate; a sandbox that breaks again and again waits like a container
                    // that does.
                    let now = self.now();
                    self.memory.sandboxes.failed(SANDBOX, now);
                }
                self.reach(Milestone::Sandbox).await;
                let home = Home { sandbox, config, users, ips, prepared };
                self.start_all(&home, starts, outcome).await;
            }
            Err((reason, what, error)) => {
                self.tools.metrics.pod_failed();
                if self.lacks_network(outcome).await {
                    return;
                }
                self.journal.warning(None, reason, format!("{what}: {error}"));
                self.failed(outcome, &error);
            }
        }
    }

    /// Publishes the ends of the init containers that ran until now; returns whether that was possible.
    async fn ends_are_told(&self) -> bool {
        let init = spec::init_containers(self.pod).iter();
        if !init.flat_map(|container| self.status.instances(&container.name)).any(may_run) {
            return true;
        }
        let (tell, told) = oneshot::channel();
        self.reach(Milestone::Ended(tell)).await;
        told.await.is_ok()
    }

    async fn reach(&self, milestone: Milestone) {
        // A receiver that is gone no longer acts on the pod.
        let _ = self.milestones.send(milestone).await;
    }

    async fn ips(&self, sandbox: &SandboxId) -> Result<Vec<IpAddr>, CallError> {
        if spec::uses_host_network(self.pod) {
            return Ok(self.tools.settings.host_ips.now().to_vec());
        }
        self.tools.runtime.sandbox_ips(sandbox).await
    }

    /// Starts containers one after the other. An init container that cannot start holds up those after it.
    async fn start_all(&mut self, home: &Home, starts: &[Start], outcome: &mut Outcome) {
        for start in starts {
            let Some(container) = start.place.of(self.pod).cloned() else { continue };
            let began = self.start(home, &container, start, outcome).await;
            let holds_up = matches!(start.place, Place::Init(_)) && !spec::is_sidecar(&container);
            if !began && holds_up {
                return;
            }
        }
    }

    /// Whether a container that keeps asking to restart all containers has to wait before the next restart.
    fn must_wait(&mut self, cause: &str, outcome: &mut Outcome) -> bool {
        let container = spec::all_containers(self.pod).find(|container| container.name == cause).cloned();
        let wait = container.and_then(|container| Some((self.crash_wait(&container)?, container)));
        wait.is_some_and(|(wait, container)| {
            self.note_crash_loop(&container, wait, outcome);
            true
        })
    }

    async fn restart_all(&mut self, cause: &str, remove: &[ContainerId], outcome: &mut Outcome) {
        outcome.acted = true;
        for id in remove {
            let Some(instance) = self.status.container(id) else { continue };
            let ended = match instance.state {
                ContainerState::Exited => Ok(()),
                _ => self.killer().now(instance, KillReason::RestartAllContainers).await,
            };
            let removed = match ended {
                Ok(()) => self.tools.runtime.remove_container(id).await,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                self.failed(outcome, &error);
                return;
            }
            self.remove_old_files(&instance.name).await;
            // Its troubles were those of the instance that is gone.
            self.memory.troubles.remove(&instance.name);
            self.memory.holds.remove(&instance.name);
        }
        // Only now: a restart that is cut off in the middle is finished without another wait.
        let container = spec::all_containers(self.pod).find(|container| container.name == cause).cloned();
        if let Some(container) = container {
            self.note_restart(&container);
        }
    }

    async fn sandbox_config(&self, attempt: u32) -> Result<Blueprint, NoSandbox> {
        let users = self.users().await?;
        let PodDns { config: dns_config, warnings } = self.dns().await?;
        let Settings { logs, dns, machine, .. } = &*self.tools.settings;
        let config = sandbox_config(SandboxParts {
            pod: self.pod,
            attempt,
            users,
            logs,
            hostname: HostName::of(self.pod, &dns.cluster_domain).for_kernel(self.pod)?,
            dns_config,
            machine,
            cgroup: self.tools.groups.as_ref().map(|groups| groups.parent(self.pod)),
        });
        Ok(Blueprint { config, users, warnings })
    }

    async fn dns(&self) -> Result<PodDns, NoSandbox> {
        let node = &self.tools.settings.dns;
        let host = if depends_on_host(self.pod, node) {
            let reading = node.clone();
            let unreadable = |source| NoSandbox::Dns { path: node.resolv_conf.clone(), source };
            off_thread(move || reading.host()).await.map_err(unreadable)?
        } else {
            HostDns::default()
        };
        Ok(dns_of_pod(self.pod, node, &self.tools.settings.host_ips.now(), host))
    }

    /// Reports what the pod asks for and does not get.
    fn tell_once_a_sandbox(&self, warnings: Vec<Warning>) {
        if asks_for_selinux(self.pod) && !self.tools.settings.security.selinux {
            let message = "seLinuxOptions have no effect: SELinux is not enabled on this node";
            self.journal.warning(None, "SELinuxDisabled", message);
        }
        for (reason, message) in warnings {
            self.journal.warning(None, reason, message);
        }
    }

    /// Reports that a pod cannot have the name, the users or the name servers that it wants; it stays without a
    /// sandbox.
    fn no_sandbox(&self, error: &NoSandbox, outcome: &mut Outcome) {
        let message = format!("Failed to create pod sandbox: {error}");
        self.journal.warning(None, "FailedCreatePodSandBox", message);
        outcome.hold(self.now().plus(self.tools.settings.retry));
    }

    fn killer(&self) -> Killer<'_, R> {
        let (tools, pod, journal) = (self.tools, self.pod, self.journal);
        Killer { tools, pod, journal, ips: &self.status.ips, hooks: &self.memory.hooks }
    }

    fn now(&self) -> Stamp {
        self.tools.clock.stamp()
    }

    /// Handles a failed call: it is retried later, or sooner if the runtime is merely unavailable.
    fn failed(&self, outcome: &mut Outcome, error: &CallError) {
        tracing::warn!(pod = %spec::pod_ref(self.pod), %error, "a runtime call for a pod failed");
        outcome.hold(self.now().plus(retry_after(error, self.tools.settings.retry)));
    }
}

/// Why a pod cannot have a sandbox.
#[derive(Debug, thiserror::Error)]
enum NoSandbox {
    #[error(transparent)]
    Name(#[from] NameTooLong),
    #[error(transparent)]
    Users(#[from] NoUsers),
    #[error("cannot read {}, which lists the name servers: {source}", path.display())]
    Dns { path: PathBuf, source: io::Error },
}

/// A reason and a message.
type Warning = (&'static str, String);

/// What a sandbox is made from.
struct Blueprint {
    config: v1::PodSandboxConfig,
    /// The ids of its users, if it has its own.
    users: Option<IdRange>,
    /// What the sandbox will lack, for the user.
    warnings: Vec<Warning>,
}

/// The runtime's default handler.
const DEFAULT_HANDLER: &str = "";

/// The back-off name of the sandbox, of which a pod has only one.
const SANDBOX: &str = "sandbox";

/// Where containers are made.
struct Home {
    sandbox: SandboxId,
    config: v1::PodSandboxConfig,
    users: Option<IdRange>,
    ips: Vec<IpAddr>,
    prepared: Prepared,
}

/// Returns how long to wait after a call failed.
fn retry_after(error: &CallError, usual: Duration) -> Duration {
    let passes_soon = error.failure.is_absence();
    if passes_soon { usual.min(Duration::from_secs(1)) } else { usual }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::CallFailure;

    #[test]
    fn what_passes_by_itself_is_tried_again_soon() {
        let usual = Duration::from_secs(10);
        for (failure, message, seconds) in [
            (CallFailure::Unavailable, "connection refused", 1),
            (CallFailure::Lost, "connection broken", 1),
            (CallFailure::Refused, "no space left on device", 10),
            (CallFailure::Timeout, "no answer", 10),
            (CallFailure::NotFound, "no such sandbox", 10),
        ] {
            let error = CallError { failure, message: message.into() };
            assert_eq!(retry_after(&error, usual), Duration::from_secs(seconds), "{message}");
        }
    }
}
