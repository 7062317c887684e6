//! The task of one pod: it reads its mail, waits for a status that was read after its last action, and acts on it.
//!
//! ```text
//! mail ─▶ lifecycle ─▶ wait for a fresh status ─▶ publish ─▶ plan ─▶ act ─▶ nudge the PLEG ─┐
//!   ▲                                                                                       │
//!   └───────── idle, until mail or the time to try again ◀──────────────────────────────────┘
//! ```
//! It keeps nothing that cannot be read again: an actor that panics is simply replaced by a new one.

mod ends;
mod farewell;
mod publish;
mod refresh;
mod resync;
mod tenure;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use pleg::{CacheReader, Stamp};
use rubelet_model::{PodStatus, PodUid};
use tokio::sync::mpsc;

use self::farewell::Farewell;
use self::publish::Failure;
use self::refresh::Refresh;
use self::tenure::Tenure;
use super::act::{Memory, Outcome, Remains, Tools, Unbroken, Work};
use super::config::pod_amounts;
use super::journal::Journal;
use super::last_words::LastWords;
use super::lifecycle::Lifecycle;
use super::mailbox::{Mail, Mailbox, Refused};
use super::plan::{self, Adjustment, Plan, plan};
use super::spec;
use crate::board::Board;
use crate::manifest::Objects;
use crate::metrics::Operation;
use crate::off_thread::off_thread;
use crate::probe::{PodProbes, Verdicts};
use crate::runtime::{ImageStore, Runtime};
use crate::settings::HostIps;
use crate::source::SourceId;
use crate::status::{self, ResizePending};
use crate::volumes;

/// The task of one pod.
pub(crate) struct Actor<R> {
    tools: Arc<Tools<R>>,
    pleg: pleg::Handle,
    cache: CacheReader,
    board: Board,
    mailbox: Arc<Mailbox>,
    uid: PodUid,
    lifecycle: Lifecycle,
    /// The source of the pod.
    source: Option<SourceId>,
    objects: Arc<Objects>,
    probes: PodProbes<R>,
    /// The verdicts of the probes when they were last read.
    verdicts: Verdicts,
    memory: Memory,
    journal: Journal,
    /// The status that was last published, by this agent or the one before it.
    said: Option<ApiStatus>,
    /// Whether the node refused the pod before it was started.
    is_rejected: bool,
    last_words: LastWords,
    /// Where pods on the host's network can be reached.
    host_ips: HostIps,
    /// The status of the runtime that was last published: the one that is acted on, but for what has ended since.
    shown: Option<Arc<PodStatus>>,
    /// Whether the pod needs a sandbox, as far as is known.
    lacks_sandbox: bool,
    unbroken: Unbroken,
    /// When something was last done to the pod: older statuses are not acted on.
    acted: Stamp,
    tenure: Tenure,
    /// Whether an earlier agent may have started the pod: its folder is made before anything else of it.
    had_folder: bool,
    /// Until when nothing can be done to keep the pod running.
    sync_held_until: Option<Stamp>,
    farewell: Farewell,
    /// Why the pod does not get the resources of its manifest yet.
    resize_pending: Option<ResizePending>,
    /// The message about the resize in progress, if this agent published one.
    resizing: Option<String>,
    /// Whether the pod, if it already runs, has been given what an earlier agent may have left undone.
    is_taken_over: bool,
    /// Whether the files of volumes may be out of date. They may have changed while no agent was running, and anything
    /// may have happened to them since they were last checked.
    refresh_volumes: bool,
    refresh: Option<Refresh>,
    /// When to report again what a pod waits for that may not start yet.
    tell_of_wait: Option<Stamp>,
    /// How long to wait first, if the previous actor panicked.
    after_loss: Option<Duration>,
}

/// What an actor is built from.
pub(crate) struct Parts<R> {
    pub(crate) tools: Arc<Tools<R>>,
    pub(crate) pleg: pleg::Handle,
    pub(crate) board: Board,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) pod: Arc<Pod>,
    /// The source of the pod; `None` if no source wants it.
    pub(crate) source: Option<SourceId>,
    pub(crate) objects: Arc<Objects>,
    /// The source of the pod of the same name that it has to wait for.
    pub(crate) behind: Option<SourceId>,
    /// How long to wait first, if it replaces an actor that panicked.
    pub(crate) after_loss: Option<Duration>,
    /// The events of the pod's previous life, if it is restarted.
    pub(crate) journal: Option<Journal>,
}

enum Next {
    /// Continue at once.
    Again,
    /// Nothing to do before mail arrives, or before this moment.
    Idle(Option<Stamp>),
    /// Nothing is left of the pod.
    Gone,
}

impl<R: Runtime + ImageStore> Actor<R> {
    pub(crate) fn new(parts: Parts<R>) -> Self {
        let Parts { tools, pleg, board, mailbox, pod, source, objects, behind, after_loss, journal } = parts;
        let journal = journal.unwrap_or_else(|| Journal::new(tools.clock.clone()));
        let unbroken = Unbroken::new(tools.clock.clone());
        if let Some(source) = behind {
            let message =
                format!("{source} already has a pod of this name; this one starts when that one is gone");
            journal.warning(None, "NameTaken", message);
        }
        Self {
            probes: PodProbes::new(
                tools.prober.clone(),
                journal.clone(),
                spec::pod_ref(&pod),
                unbroken.files.clone(),
            ),
            cache: pleg.cache(),
            host_ips: tools.settings.host_ips.clone(),
            uid: spec::uid(&pod),
            memory: Memory::new(tools.settings.backoff),
            lifecycle: Lifecycle::born(pod),
            source,
            tools,
            pleg,
            board,
            mailbox,
            objects,
            verdicts: Verdicts::default(),
            journal,
            is_rejected: false,
            said: None,
            last_words: LastWords::default(),
            shown: None,
            lacks_sandbox: true,
            unbroken,
            acted: Stamp::ZERO,
            tenure: Tenure::default(),
            had_folder: false,
            sync_held_until: None,
            farewell: Farewell::default(),
            resize_pending: None,
            resizing: None,
            is_taken_over: false,
            refresh_volumes: true,
            refresh: None,
            tell_of_wait: None,
            after_loss,
        }
    }

    /// Runs until nothing is left of the pod but its events, or until the PLEG ends.
    pub(crate) async fn run(mut self) -> Journal {
        if let Some(pause) = self.after_loss {
            tokio::time::sleep(pause).await;
            // The effect of the last action may not show yet.
            self.note_action();
        }
        self.recall().await;
        loop {
            let mail = self.mailbox.take();
            let operation = self.operation(&mail);
            self.read(mail);
            if !matches!(self.lifecycle, Lifecycle::Syncing { .. }) {
                self.refresh = None;
            }
            let begun = self.tools.clock.stamp();
            // Boxed, so that an actor that is waiting, as nearly all are, stays small.
            let next = match self.lifecycle.clone() {
                Lifecycle::Pending { pod } => self.wait_for_predecessor(&pod),
                Lifecycle::Syncing { pod } => Box::pin(self.sync(&pod)).await,
                Lifecycle::Terminating { pod, ending } => Box::pin(self.terminate(&pod, ending)).await,
                Lifecycle::Terminated { pod, ending } => Box::pin(self.clear(&pod, ending)).await,
            };
            self.tools.metrics.worked(operation, begun.until(self.tools.clock.stamp()));
            match next {
                Next::Again => {}
                Next::Idle(until) => self.idle(until).await,
                Next::Gone => break,
            }
        }
        self.board.remove(&self.uid);
        self.journal
    }

    /// Waits for mail, for a change of the probes, for another address of the pod, or for that moment.
    async fn idle(&mut self, mut until: Option<Stamp>) {
        let is_on_host_network = spec::uses_host_network(self.lifecycle.pod());
        loop {
            tokio::select! {
                biased;
                () = self.mailbox.arrived() => return,
                () = self.probes.changed() => return,
                () = self.journal.changed() => self.publish_again(),
                () = self.host_ips.changed(), if is_on_host_network => return,
                is_up_to_date = Refresh::over(&mut self.refresh) => {
                    if !is_up_to_date {
                        self.refresh_volumes = true;
                        let retry = self.tools.clock.stamp().plus(self.tools.settings.retry);
                        until = Some(until.map_or(retry, |until| until.min(retry)));
                    } else if self.refresh_volumes {
                        return;
                    }
                }
                () = sleep_until(&self.tools.clock, until) => {
                    self.refresh_volumes = true;
                    return;
                }
            }
        }
    }

    fn read(&mut self, mut mail: Mail) {
        let refused = mail.refused.take();
        if let Some(wish) = &mail.wish {
            self.objects = wish.objects.clone();
            self.source.clone_from(&wish.source);
            self.memory.forgive();
            self.sync_held_until = None;
            self.refresh_volumes = true;
            self.tell_of_pending_resize(wish.resize_pending.clone());
            self.tell_of_unapplied(&wish.pod);
        }
        let now = self.tools.clock.stamp();
        self.transition(|lifecycle| lifecycle.next(mail, now));
        if let Some(Refused { rejection, .. }) = refused {
            self.reject(&rejection);
        }
        if matches!(self.lifecycle, Lifecycle::Syncing { .. }) && self.tenure.begin(now) {
            let pod = self.lifecycle.pod();
            let containers = spec::all_containers(pod).count();
            self.tools.metrics.work_begins(publish::seen_ago(pod).unwrap_or_default(), containers);
        }
    }

    /// Classifies the next round for the metrics.
    fn operation(&self, mail: &Mail) -> Operation {
        match &self.lifecycle {
            Lifecycle::Terminated { .. } => Operation::Terminated,
            Lifecycle::Terminating { .. } => Operation::Kill,
            _ if mail.end.is_some() => Operation::Kill,
            Lifecycle::Pending { .. } => Operation::Create,
            Lifecycle::Syncing { .. } if mail.wish.is_some() => Operation::Update,
            Lifecycle::Syncing { .. } => Operation::Sync,
        }
    }

    async fn sync(&mut self, pod: &Arc<Pod>) -> Next {
        let status = match self.fresh_status().await {
            Ok(status) => status,
            Err(next) => return next,
        };
        let amounts = pod_amounts(pod, &self.tools.settings.machine);
        let over = self.said.as_ref().map(|said| status::over_for_good(pod, said)).unwrap_or_default();
        let inputs = plan::Inputs {
            pod,
            status: &status,
            verdicts: &self.verdicts,
            over: &over,
            grants: &self.memory.grants,
            replaced: &self.memory.replaced,
            amounts: &amounts,
        };
        let plan = plan(inputs);
        let planned_by = self.verdicts.clone();
        self.lacks_sandbox = plan::lacks_sandbox(inputs);
        if !std::mem::replace(&mut self.is_taken_over, true) && !self.lacks_sandbox {
            self.take_over(pod).await;
        }
        let now = self.tools.clock.stamp();
        let mut phase = self.publish(&status);
        if let Some(failure) = self.failure(pod, &status, &plan).filter(|_| !phase.is_terminal()) {
            self.say_failed(failure);
            phase = self.publish(&status);
        }
        if phase.is_terminal() {
            self.transition(Lifecycle::finished);
            return Next::Again;
        }
        let remains = Remains::of(&status, self.tools.settings.dead_instances);
        let held_until = self.sync_held_until.filter(|until| now < *until);
        let is_nothing = plan.is_nothing();
        let is_resized = matches!(&plan, Plan::Adjust(Adjustment { resize: Some(_), .. }));
        let refresh = self.refresh_volumes && plan.starts_nothing() && volumes::are_written(pod);
        if let Some(until) = held_until {
            return Next::Idle(Some(self.tenure.no_later(until, pod)));
        }
        if refresh {
            self.begin_refresh(pod, &status);
        }
        if is_nothing && remains.is_empty() {
            return Next::Idle(Some(self.next_look(pod, now)));
        }
        let outcome = self.act(pod, &status, plan, &remains).await;
        let Some(outcome) = outcome else { return Next::Again };
        self.refresh_volumes &= !outcome.volumes_are_ready;
        self.sync_held_until = outcome.hold_until;
        let shown = self.shown.clone().unwrap_or(status);
        self.publish(&shown);
        if outcome.acted && is_resized {
            // The resources of containers do not show in any list, so the PLEG would not notice the change.
            self.pleg.reinspect(&self.uid);
        }
        // Verdicts that arrived in the meantime were published, but no plan is based on them yet, and probes signal
        // each only once.
        if outcome.acted || self.verdicts != planned_by {
            return Next::Again;
        }
        let next_look = self.next_look(pod, now);
        Next::Idle(Some(outcome.retry_at.map_or(next_look, |retry| retry.min(next_look))))
    }

    /// Why a pod has failed though its containers do not show it.
    fn failure(&self, pod: &Pod, status: &PodStatus, plan: &Plan) -> Option<Failure> {
        if self.tenure.is_over(pod, self.tools.clock.stamp()) {
            return Some(Failure::DeadlineExceeded);
        }
        (*plan == Plan::EndPod && !farewell::is_up(status)).then_some(Failure::SandboxLost)
    }

    /// Does for a pod that is older than this agent what an earlier agent may have left undone. Its control group
    /// exists already, but the weight of its QoS class must include it as well. Its folder shows to commands that find
    /// no agent whose pod it is, and the earlier agent may have had another data folder.
    async fn take_over(&self, pod: &Arc<Pod>) {
        let (tools, found, uid) = (self.tools.clone(), pod.clone(), self.uid.clone());
        let taken = off_thread(move || {
            let folder = tools.settings.data.pod(uid.as_str()).and_then(|directory| directory.create());
            let groups = tools.groups.as_ref().map_or(Ok(()), |groups| groups.count(&found));
            (folder, groups)
        });
        let (folder, groups) = taken.await;
        if let Err(error) = folder {
            tracing::warn!(pod = %spec::pod_ref(pod), %error, "cannot create the folder of a pod found in the runtime");
        }
        if let Err(error) = groups {
            tracing::warn!(pod = %spec::pod_ref(pod), %error, "cannot set the CPU weight of a QoS class");
        }
    }

    /// Carries out a plan; `None` if the pod was ended in the middle of it. What happens in the meantime is published
    /// at once: acting may take as long as pulling an image.
    async fn act(
        &mut self,
        pod: &Arc<Pod>,
        status: &Arc<PodStatus>,
        plan: Plan,
        remains: &Remains,
    ) -> Option<Outcome> {
        let (mailbox, tools, objects) = (self.mailbox.clone(), self.tools.clone(), self.objects.clone());
        let (journal, unbroken) = (self.journal.clone(), self.unbroken.clone());
        // What is published in the meantime uses `self.memory`, which still has the earlier troubles, and is noted
        // there.
        let mut memory = self.memory.clone();
        let (reached, mut milestones) = mpsc::channel(1);
        let outcome = {
            let mut work = Work {
                tools: &tools,
                pod,
                objects: &objects,
                status,
                memory: &mut memory,
                journal: &journal,
                unbroken: &unbroken,
                milestones: &reached,
            };
            let mut acting = std::pin::pin!(async {
                let outcome = work.carry_out(plan).await;
                work.remove(remains).await;
                outcome
            });
            loop {
                tokio::select! {
                    biased;
                    () = mailbox.interrupted(None) => break None,
                    outcome = &mut acting => break Some(outcome),
                    () = self.probes.changed() => self.publish_verdicts(),
                    Some(milestone) = milestones.recv() => self.tell_of(milestone).await,
                    () = journal.changed() => self.publish_again(),
                }
            }
        };
        self.memory = memory.with_noted(self.memory.clone());
        if outcome.is_none() {
            let mail = self.mailbox.take();
            self.read(mail);
            self.publish_again();
            // Whatever is still being made must show in the next status, or it would never be seen.
            self.unbroken.settled().await;
        }
        if outcome.as_ref().is_none_or(|outcome| outcome.acted) {
            self.note_action();
        }
        outcome
    }

    /// Returns a status that was read after the last action. An order to end interrupts the wait.
    async fn fresh_status(&mut self) -> Result<Arc<PodStatus>, Next> {
        let may_be_interrupted = matches!(self.lifecycle, Lifecycle::Syncing { .. });
        let answer = loop {
            tokio::select! {
                biased;
                () = self.mailbox.interrupted(None), if may_be_interrupted => return Err(Next::Again),
                answer = self.cache.newer_than(&self.uid, self.acted) => break answer,
                () = self.probes.changed() => self.publish_verdicts(),
                () = self.journal.changed() => self.publish_again(),
            }
        };
        match answer {
            Ok(Ok(status)) => {
                self.memory.observe(&status, self.tools.clock.now());
                self.journal.learn_names(&status);
                // A UID that cannot be a folder name was rejected with its manifest.
                if let Ok(directory) = self.tools.settings.data.pod(self.uid.as_str()) {
                    let disk = self.unbroken.files.clone();
                    self.last_words.hear(self.lifecycle.pod(), &status, &directory, &disk).await;
                }
                self.tend_probes(&status);
                Ok(status)
            }
            Ok(Err(error)) => {
                self.journal.warning(None, "FailedSync", format!("error determining status: {error}"));
                // The PLEG retries by itself, and sends an event when there is an answer.
                Err(Next::Idle(Some(self.tools.clock.stamp().plus(self.tools.settings.retry))))
            }
            Err(pleg::Closed) => Err(Next::Gone),
        }
    }

    fn note_action(&mut self) {
        // The stamp is taken before the nudge, so that the look it leads to is newer.
        self.acted = self.tools.clock.stamp();
        self.pleg.nudge(&self.uid);
    }

    fn transition(&mut self, step: impl FnOnce(Lifecycle) -> Lifecycle) {
        let lifecycle = std::mem::replace(&mut self.lifecycle, Lifecycle::born(Arc::default()));
        self.lifecycle = step(lifecycle);
    }

    fn next_look(&self, pod: &Pod, now: Stamp) -> Stamp {
        let look = resync::next(now, self.tools.settings.resync, fastrand::f64());
        self.tenure.no_later(look, pod)
    }
}

async fn sleep_until(clock: &pleg::Clock, moment: Option<Stamp>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(clock.instant(moment)).await,
        None => std::future::pending().await,
    }
}
