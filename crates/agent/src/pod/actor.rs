//! The task of one pod: it reads its mail, waits for a status that was read after its last action, and acts on it.
//!
//! ```text
//! mail ─▶ lifecycle ─▶ wait for a fresh status ─▶ publish ─▶ plan ─▶ act ─▶ nudge the PLEG ─┐
//!   ▲                                                                                       │
//!   └───────── idle, until mail or the time to try again ◀──────────────────────────────────┘
//! ```
//! It keeps nothing that could not be read again: an actor that is lost is simply made anew.

mod publish;
mod tenure;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use pleg::{CacheReader, Stamp};
use rubelet_model::{PodStatus, PodUid, SandboxState};

use self::tenure::Tenure;
use super::act::{Killer, Memory, Outcome, Remains, Tools, Unbroken, Work, may_run, release};
use super::config::pod_amounts;
use super::journal::Journal;
use super::last_words::LastWords;
use super::lifecycle::{Ending, Lifecycle};
use super::mailbox::{Mail, Mailbox};
use super::plan::{self, Plan, plan};
use super::spec;
use crate::board::Board;
use crate::manifest::Objects;
use crate::metrics::Operation;
use crate::off_thread::off_thread;
use crate::probe::{PodProbes, Verdicts};
use crate::runtime::{ImageStore, Runtime};
use crate::source::SourceId;
use crate::status::{Phase, ResizePending};
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
    objects: Arc<Objects>,
    probes: PodProbes<R>,
    /// What the probes said when this was last looked at.
    verdicts: Verdicts,
    memory: Memory,
    journal: Journal,
    /// What was last published, by this agent or by the one before it.
    said: Option<ApiStatus>,
    /// Whether the node refused the pod before it was started.
    is_rejected: bool,
    last_words: LastWords,
    /// The status that was last acted on.
    shown: Option<Arc<PodStatus>>,
    /// Whether the pod needs a sandbox, as far as is known.
    lacks_sandbox: bool,
    unbroken: Unbroken,
    /// When something was last done to the pod: older statuses are not acted on.
    acted: Stamp,
    tenure: Tenure,
    /// Until when nothing can be done to keep the pod running.
    sync_held_until: Option<Stamp>,
    /// Until when a pod that would not end is not ended again.
    kill_held_until: Option<Stamp>,
    /// Why the pod does not get what its manifest says yet.
    resize_pending: Option<ResizePending>,
    /// What was told of the change of resources that is under way, if it was told by this agent.
    resizing: Option<String>,
    /// Whether what another agent may have left undone of a pod that runs already was done, if it did.
    is_taken_over: bool,
    /// Whether the files of volumes may be out of date. They may have changed while no agent was there, and anything may
    /// have happened to them since the last look.
    refresh_volumes: bool,
    /// Whether the volumes and the control group of a pod that has ended were given back.
    is_released: bool,
    /// How long to wait at first, in place of an actor that was lost.
    after_loss: Option<Duration>,
}

/// What an actor is made from.
pub(crate) struct Parts<R> {
    pub(crate) tools: Arc<Tools<R>>,
    pub(crate) pleg: pleg::Handle,
    pub(crate) board: Board,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) pod: Arc<Pod>,
    pub(crate) objects: Arc<Objects>,
    /// Whose pod of the same name it has to wait for.
    pub(crate) behind: Option<SourceId>,
    /// How long to wait, if it comes in place of one that was lost.
    pub(crate) after_loss: Option<Duration>,
}

enum Next {
    /// Go on at once.
    Again,
    /// Nothing to do before mail comes, or this moment.
    Idle(Option<Stamp>),
    /// Nothing is left of the pod.
    Gone,
}

impl<R: Runtime + ImageStore> Actor<R> {
    pub(crate) fn new(parts: Parts<R>) -> Self {
        let Parts { tools, pleg, board, mailbox, pod, objects, behind, after_loss } = parts;
        let journal = Journal::new(tools.clock.clone());
        let unbroken = Unbroken::new(tools.clock.clone());
        if let Some(source) = behind {
            let message =
                format!("a pod of this name comes from {source}, too: this one starts when that one is gone");
            journal.warning(None, "NameTaken", message);
        }
        Self {
            probes: PodProbes::new(tools.prober.clone(), journal.clone(), spec::pod_ref(&pod)),
            cache: pleg.cache(),
            uid: spec::uid(&pod),
            memory: Memory::new(tools.settings.backoff),
            lifecycle: Lifecycle::born(pod),
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
            sync_held_until: None,
            kill_held_until: None,
            resize_pending: None,
            resizing: None,
            is_taken_over: false,
            refresh_volumes: true,
            is_released: false,
            after_loss,
        }
    }

    /// Runs until nothing is left of the pod, or the PLEG ends.
    pub(crate) async fn run(mut self) {
        if let Some(pause) = self.after_loss {
            tokio::time::sleep(pause).await;
            // What was done last may not show yet.
            self.has_acted();
        }
        self.recall().await;
        loop {
            let mail = self.mailbox.take();
            let operation = self.operation(&mail);
            self.read(mail);
            let begun = self.tools.clock.stamp();
            // On the heap, so that an actor that waits, as nearly all do, is small.
            let next = match self.lifecycle.clone() {
                Lifecycle::Pending { .. } => {
                    self.publish_unseen();
                    Next::Idle(None)
                }
                Lifecycle::Syncing { pod } => Box::pin(self.sync(&pod)).await,
                Lifecycle::Terminating { pod, ending } => Box::pin(self.terminate(&pod, ending)).await,
                Lifecycle::Terminated { forget: false, .. } => Box::pin(self.release()).await,
                Lifecycle::Terminated { pod, forget: true } => Box::pin(self.forget(&pod)).await,
            };
            self.tools.metrics.worked(operation, begun.until(self.tools.clock.stamp()));
            match next {
                Next::Again => {}
                Next::Idle(until) => tokio::select! {
                    biased;
                    () = self.mailbox.arrived() => {}
                    () = self.probes.changed() => {}
                    () = sleep_until(&self.tools.clock, until) => self.refresh_volumes = true,
                },
                Next::Gone => break,
            }
        }
        self.board.remove(&self.uid);
    }

    fn read(&mut self, mut mail: Mail) {
        let rejection = mail.rejection.take();
        if let Some(wish) = &mail.wish {
            self.objects = wish.objects.clone();
            self.memory.forgive();
            self.sync_held_until = None;
            self.refresh_volumes = true;
            self.tell_of_pending_resize(wish.resize_pending.clone());
        }
        let now = self.tools.clock.stamp();
        self.transition(|lifecycle| lifecycle.next(mail, now));
        if let Some(rejection) = rejection {
            self.reject(&rejection, now);
        }
        if matches!(self.lifecycle, Lifecycle::Syncing { .. }) && self.tenure.begin(now) {
            let pod = self.lifecycle.pod();
            let containers = spec::all_containers(pod).count();
            self.tools.metrics.work_begins(publish::seen_ago(pod).unwrap_or_default(), containers);
        }
    }

    /// What the next round is, for the numbers.
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
        let inputs = plan::Inputs {
            pod,
            status: &status,
            verdicts: &self.verdicts,
            grants: &self.memory.grants,
            amounts: &amounts,
        };
        let plan = plan(inputs);
        self.lacks_sandbox = matches!(plan, Plan::Recreate { .. });
        if !std::mem::replace(&mut self.is_taken_over, true) && !self.lacks_sandbox {
            self.take_over(pod).await;
        }
        let now = self.tools.clock.stamp();
        if self.tenure.is_over(pod, now) {
            self.say_deadline_exceeded();
        }
        let phase = self.publish(&status);
        if phase.is_terminal() {
            self.transition(|lifecycle| lifecycle.finished(now));
            return Next::Again;
        }
        let remains = Remains::of(&status, self.tools.settings.dead_instances);
        let held_until = self.sync_held_until.filter(|until| now < *until);
        let is_nothing = plan.is_nothing();
        let is_resized = matches!(&plan, Plan::Adjust { resize: Some(_), .. });
        let refresh = is_nothing && self.refresh_volumes && volumes::are_written(pod);
        if let Some(until) = held_until {
            return Next::Idle(Some(self.tenure.no_later(until, pod)));
        }
        if is_nothing && remains.is_empty() && !refresh {
            return Next::Idle(Some(self.next_look(pod, now)));
        }
        let outcome = self.act(pod, &status, plan, &remains, refresh).await;
        let Some(outcome) = outcome else { return Next::Again };
        self.refresh_volumes &= !outcome.volumes_are_ready;
        self.sync_held_until = outcome.hold_until;
        self.publish(&status);
        if outcome.acted && is_resized {
            // What containers use shows in no list: nobody would notice.
            self.pleg.reinspect(&self.uid);
        }
        if outcome.acted {
            return Next::Again;
        }
        let next_look = self.next_look(pod, now);
        Next::Idle(Some(outcome.retry_at.map_or(next_look, |retry| retry.min(next_look))))
    }

    /// A pod that was there before this agent has its group already, but its class must weigh it, too. Its folder shows whose
    /// it is to whoever has no agent to ask, and another agent may have had another data folder.
    async fn take_over(&self, pod: &Arc<Pod>) {
        let (tools, found, uid) = (self.tools.clone(), pod.clone(), self.uid.clone());
        let taken = off_thread(move || {
            let folder = tools.settings.data.pod(uid.as_str()).and_then(|directory| directory.create());
            let groups = tools.groups.as_ref().map_or(Ok(()), |groups| groups.count(&found));
            (folder, groups)
        });
        let (folder, groups) = taken.await;
        if let Err(error) = folder {
            tracing::warn!(pod = %spec::pod_ref(pod), %error, "a pod that was found has no folder");
        }
        if let Err(error) = groups {
            tracing::warn!(pod = %spec::pod_ref(pod), %error, "the weight of a class of pods cannot be set");
        }
    }

    /// Carries out a plan; `None` if the pod was ended in the middle of it. What probes find out meanwhile is told at
    /// once: acting may take as long as an image takes to come.
    async fn act(
        &mut self,
        pod: &Arc<Pod>,
        status: &Arc<PodStatus>,
        plan: Plan,
        remains: &Remains,
        refresh: bool,
    ) -> Option<Outcome> {
        let (mailbox, tools, objects) = (self.mailbox.clone(), self.tools.clone(), self.objects.clone());
        let (journal, unbroken) = (self.journal.clone(), self.unbroken.clone());
        // What is told meanwhile is told by what stood in the way before.
        let mut memory = self.memory.clone();
        let outcome = {
            let mut work = Work {
                tools: &tools,
                pod,
                objects: &objects,
                status,
                memory: &mut memory,
                journal: &journal,
                unbroken: &unbroken,
            };
            let mut acting = std::pin::pin!(async {
                let mut outcome = work.carry_out(plan).await;
                if refresh {
                    work.refresh_volumes(&mut outcome).await;
                }
                work.remove(remains).await;
                outcome
            });
            loop {
                tokio::select! {
                    biased;
                    () = mailbox.interrupted(None) => break None,
                    outcome = &mut acting => break Some(outcome),
                    () = self.probes.changed() => self.publish_verdicts(status).await,
                }
            }
        };
        self.memory = memory;
        if outcome.is_none() {
            // What it makes must show in the next status, or nobody would ever see it.
            self.unbroken.settled().await;
        }
        if outcome.as_ref().is_none_or(|outcome| outcome.acted) {
            self.has_acted();
        }
        outcome
    }

    async fn terminate(&mut self, pod: &Arc<Pod>, ending: Ending) -> Next {
        let status = match self.fresh_status().await {
            Ok(status) => status,
            Err(next) => return next,
        };
        self.lacks_sandbox = !is_up(&status);
        if self.lacks_sandbox {
            self.publish_last(&status);
            self.transition(Lifecycle::stopped);
            self.probes.end();
            return Next::Again;
        }
        self.publish(&status);
        let now = self.tools.clock.stamp();
        if let Some(until) = self.kill_held_until.filter(|until| now < *until) {
            return Next::Idle(Some(until));
        }
        let (mailbox, tools, journal) = (self.mailbox.clone(), self.tools.clone(), self.journal.clone());
        let killer = Killer { tools: &tools, pod, journal: &journal, ips: &status.ips };
        let mut killing = std::pin::pin!(killer.pod(&status, Some(ending.left(now))));
        let killed = loop {
            tokio::select! {
                biased;
                () = mailbox.interrupted(Some(ending.grace)) => break None,
                killed = &mut killing => break Some(killed),
                () = self.probes.changed() => self.publish_verdicts(&status).await,
            }
        };
        self.has_acted();
        if let Some(Err(error)) = &killed {
            self.journal.warning(None, "FailedKillPod", format!("error killing pod: {error}"));
            tracing::warn!(pod = %spec::pod_ref(pod), %error, "a pod could not be ended, trying again");
        }
        // Whether it worked shows in the next status. If it did not, there is no hurry to do the same again.
        self.kill_held_until = killed.map(|_| self.acted.plus(KILL_RETRY));
        Next::Again
    }

    /// The pod stays to be looked at, but what it used is given back.
    async fn release(&mut self) -> Next {
        if self.is_released {
            return Next::Idle(None);
        }
        match release(&self.tools, &self.uid).await {
            Ok(()) => {
                self.is_released = true;
                Next::Idle(None)
            }
            Err(error) => {
                tracing::warn!(pod = %spec::pod_ref(self.lifecycle.pod()), %error, "what a pod used cannot be given back, trying again");
                Next::Idle(Some(self.tools.clock.stamp().plus(self.tools.settings.retry)))
            }
        }
    }

    async fn forget(&mut self, pod: &Arc<Pod>) -> Next {
        let status = match self.fresh_status().await {
            Ok(status) => status,
            Err(next) => return next,
        };
        if let Some(until) = self.may_come_yet(&status).await {
            sleep_until(&self.tools.clock, Some(until)).await;
            self.has_acted();
            return Next::Again;
        }
        let work = Work {
            tools: &self.tools,
            pod,
            objects: &self.objects,
            status: &status,
            memory: &mut self.memory,
            journal: &self.journal,
            unbroken: &self.unbroken,
        };
        let forgotten = work.forget().await;
        self.has_acted();
        match forgotten {
            Ok(()) => {
                // Whoever runs under this UID next must not find what is no more. An error is as good: it is no status.
                let _ = self.cache.newer_than(&self.uid, self.acted).await;
                Next::Gone
            }
            Err(error) => {
                tracing::warn!(pod = %spec::pod_ref(pod), %error, "what is left of a pod could not be removed, trying again");
                Next::Idle(Some(self.tools.clock.stamp().plus(KILL_RETRY)))
            }
        }
    }

    /// Nothing is there of the pod. But what an earlier agent asked for just before it was killed, or what we asked for and
    /// got no answer to, may come yet, and once the pod is forgotten nobody would know whose it is.
    async fn may_come_yet(&self, status: &PodStatus) -> Option<Stamp> {
        let is_there = !status.sandboxes.is_empty() || !status.containers.is_empty();
        let was_anothers = !self.tenure.has_begun();
        let asked = was_anothers.then_some(Stamp::ZERO).max(self.unbroken.settled().await);
        let until = asked?.plus(LATE_COMERS);
        (!is_there && self.tools.clock.stamp() < until).then_some(until)
    }

    /// A status that was read after the last action. An order to end is not kept waiting.
    async fn fresh_status(&mut self) -> Result<Arc<PodStatus>, Next> {
        let may_be_interrupted = matches!(self.lifecycle, Lifecycle::Syncing { .. });
        let answer = loop {
            tokio::select! {
                biased;
                () = self.mailbox.interrupted(None), if may_be_interrupted => return Err(Next::Again),
                answer = self.cache.newer_than(&self.uid, self.acted) => break answer,
                () = self.probes.changed() => {
                    if let Some(shown) = self.shown.clone() {
                        self.publish_verdicts(&shown).await;
                    }
                }
            }
        };
        match answer {
            Ok(Ok(status)) => {
                self.memory.observe(&status, self.tools.clock.now());
                self.journal.knows(&status);
                // A UID that cannot be a folder was refused with its manifest.
                if let Ok(directory) = self.tools.settings.data.pod(self.uid.as_str()) {
                    self.last_words.hear(self.lifecycle.pod(), &status, &directory).await;
                }
                self.tend_probes(&status).await;
                Ok(status)
            }
            Ok(Err(error)) => {
                self.journal.warning(None, "FailedSync", format!("error determining status: {error}"));
                // The PLEG asks again by itself, and tells when there is an answer.
                Err(Next::Idle(Some(self.tools.clock.stamp().plus(self.tools.settings.retry))))
            }
            Err(pleg::Closed) => Err(Next::Gone),
        }
    }

    /// Has the probes follow what runs, and takes note of what they say.
    async fn tend_probes(&mut self, status: &Arc<PodStatus>) {
        let pod = self.lifecycle.pod().clone();
        let is_ending = match self.lifecycle {
            Lifecycle::Pending { .. } | Lifecycle::Syncing { .. } => false,
            Lifecycle::Terminating { .. } | Lifecycle::Terminated { .. } => true,
        };
        let ips = spec::reachable_ips(&pod, &status.ips, &self.tools.settings.node.host_ips);
        self.probes.tend(&pod, status, &ips, is_ending);
        self.verdicts = self.probes.verdicts();
        self.probes.save().await;
        self.shown = Some(status.clone());
    }

    /// Tells everybody what probes have found out, in the middle of something else.
    async fn publish_verdicts(&mut self, status: &PodStatus) {
        self.verdicts = self.probes.verdicts();
        self.publish(status);
        self.probes.save().await;
    }

    fn has_acted(&mut self) {
        // First the moment, then the nudge: so the look that it leads to is newer.
        self.acted = self.tools.clock.stamp();
        self.pleg.nudge(&self.uid);
    }

    fn transition(&mut self, step: impl FnOnce(Lifecycle) -> Lifecycle) {
        let lifecycle = std::mem::replace(&mut self.lifecycle, Lifecycle::born(Arc::default()));
        self.lifecycle = step(lifecycle);
    }

    fn next_look(&self, pod: &Pod, now: Stamp) -> Stamp {
        let resync = self.tools.settings.resync;
        // Spread, so that pods that were made together are not looked at together for ever.
        let look = now.plus(resync + resync.mul_f64(0.5 * fastrand::f64()));
        self.tenure.no_later(look, pod)
    }

    fn say_deadline_exceeded(&mut self) {
        const REASON: &str = "DeadlineExceeded";
        const MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
        self.journal.normal(None, REASON, MESSAGE);
        let said = self.said.get_or_insert_default();
        said.phase = Some(Phase::Failed.as_str().to_owned());
        said.reason = Some(REASON.to_owned());
        said.message = Some(MESSAGE.to_owned());
    }
}

/// How long to wait before a pod that would not end is ended again.
const KILL_RETRY: Duration = Duration::from_secs(2);

/// How long after it was asked for without an answer something may appear.
const LATE_COMERS: Duration = Duration::from_secs(5);

/// Whether anything of a pod might still run.
fn is_up(status: &PodStatus) -> bool {
    status.containers.iter().any(may_run)
        || status.sandboxes.iter().any(|sandbox| sandbox.state != SandboxState::NotReady)
}

async fn sleep_until(clock: &pleg::Clock, moment: Option<Stamp>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(clock.instant(moment)).await,
        None => std::future::pending().await,
    }
}
