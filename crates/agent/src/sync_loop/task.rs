//! The task of the sync loop, and the handle to it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pleg::PodEvent;
use rubelet_model::{PodRef, PodUid};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};

use super::actors::{Actors, Ended};
use super::pulse::Pulse;
use super::route::{Command, Facts, Outlook, Routes};
use super::survey::{Before, Found, before, is_at_rest, late_comers, strangers, survey};
use super::unrest::Unrest;
use crate::board::{Board, Keeper, Stage};
use crate::cgroup::{PodGroups, Whole};
use crate::image::Puller;
use crate::manifest::{Problem, annotation};
use crate::metrics::{CountedPod, Metrics, Wanted};
use crate::pod::{Actor, ActorParts, End, Journal, Mail, Mailbox, Refused, Tools};
use crate::probe::{Asker, Gate, Prober};
use crate::reach::PodHttp;
use crate::runtime::{ImageStore, Runtime};
use crate::settings::Settings;
use crate::source::{SourceId, SourceUpdate};
use crate::status::Rejection;
use crate::user_ids::UserIds;
use crate::volumes::Volumes;

/// How often to look for pods that are no longer wanted.
const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// How long an agent that is shutting down may take to write the last published pod statuses to disk.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// What an agent is built from.
pub struct AgentParts<R> {
    /// Acts on containers.
    pub runtime: Arc<R>,
    /// Runs the probes in containers: the same runtime, over a connection of its own.
    pub prober: Arc<R>,
    /// Watches the containers.
    pub pleg: pleg::Handle,
    /// The configuration.
    pub settings: Settings,
    /// What the sources deliver.
    pub updates: mpsc::Receiver<SourceUpdate>,
    /// The metrics to count in.
    pub metrics: Metrics,
    /// All sources: no pod is ended before each of them has been read.
    pub sources: Vec<SourceId>,
    /// The control groups of pods; `None` if the runtime decides where pods go.
    pub groups: Option<PodGroups>,
}

/// Which pods an order is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSelector {
    /// All of them.
    All,
    /// This one.
    One(PodUid),
}

/// How much an agent knows of what it must know before it ends any pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it knows which of its own pods are on this machine.
    pub was_surveyed: bool,
    /// The sources that have not been read yet.
    pub unheard: Vec<SourceId>,
}

impl Readiness {
    /// Whether it knows everything it needs.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.was_surveyed && self.unheard.is_empty()
    }
}

/// An order to end pods, even if they are wanted.
#[derive(Debug)]
struct Order {
    which: PodSelector,
    end: End,
}

/// A handle to an [`Agent`]. It is cheap to clone, and does not keep the agent running.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    board: Board,
    pulse: Pulse,
    problems: watch::Receiver<BTreeMap<SourceId, Vec<Problem>>>,
    ready: watch::Receiver<Readiness>,
    outlook: watch::Receiver<Outlook>,
    orders: mpsc::UnboundedSender<Order>,
}

impl AgentHandle {
    /// Returns the board with the state of all pods.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Returns the pulse, which shows whether the sync loop is alive.
    #[must_use]
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Watches the problems of the sources.
    #[must_use]
    pub fn problems(&self) -> watch::Receiver<BTreeMap<SourceId, Vec<Problem>>> {
        self.problems.clone()
    }

    /// Watches whether the pods on this machine are known and every source has been read.
    #[must_use]
    pub fn ready(&self) -> watch::Receiver<Readiness> {
        self.ready.clone()
    }

    /// Watches how far the pods of the sources have come.
    #[must_use]
    pub fn outlook(&self) -> watch::Receiver<Outlook> {
        self.outlook.clone()
    }

    /// Ends pods, even if they are wanted. They stay ended until their manifest changes or the agent restarts.
    pub fn stop(&self, which: PodSelector, grace: Option<u64>) {
        self.order(which, End { grace, forget: false });
    }

    /// Ends pods and removes all that is left of them.
    pub fn forget(&self, which: PodSelector) {
        self.order(which, End { grace: None, forget: true });
    }

    fn order(&self, which: PodSelector, end: End) {
        // If the loop is gone, so are its actors: the order has no recipient.
        let _ = self.orders.send(Order { which, end });
    }
}

/// Why the pods on this machine cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SurveyProblem {
    Disk(io::ErrorKind),
    /// The survey panicked.
    Lost,
}

/// The agent: the sync loop and its actors. Dropping it ends them; pods keep running.
pub struct Agent<R> {
    tools: Arc<Tools<R>>,
    pleg: pleg::Handle,
    updates: mpsc::Receiver<SourceUpdate>,
    /// Unbounded, but in practice limited by how often people run `rubelet stop`.
    orders: mpsc::UnboundedReceiver<Order>,
    board: Board,
    pulse: Pulse,
    problems: watch::Sender<BTreeMap<SourceId, Vec<Problem>>>,
    ready: watch::Sender<Readiness>,
    outlook: watch::Sender<Outlook>,
    routes: Routes,
    actors: Actors,
    surveys: JoinSet<io::Result<Found>>,
    was_surveyed: bool,
    /// Why the last survey failed.
    survey_problem: Option<SurveyProblem>,
    /// Pods of others with the name of one of ours that have been reported.
    namesakes: BTreeSet<PodUid>,
}

impl<R: Runtime + ImageStore> Agent<R> {
    /// Creates an agent that is not running yet.
    #[must_use]
    pub fn new(parts: AgentParts<R>) -> (Self, AgentHandle) {
        let AgentParts { runtime, prober, pleg, settings, updates, metrics, sources, groups } = parts;
        let clock = pleg.clock().clone();
        let (order_sender, orders) = mpsc::unbounded_channel();
        let (problems, problems_seen) = watch::channel(BTreeMap::new());
        let (ready, ready_seen) = watch::channel(Readiness { was_surveyed: false, unheard: sources.clone() });
        let (outlook, outlook_seen) = watch::channel(Outlook::default());
        let board = Board::default();
        let pulse = Pulse::new(clock.clone());
        let routes = Routes::new(sources, settings.admission.clone());
        let http = PodHttp::default();
        let gate = Gate::new(settings.exec_probes, metrics.probes.clone());
        let prober = Prober {
            asker: Asker { runtime: prober, http: http.clone(), gate },
            clock: clock.clone(),
            metrics: metrics.probes.clone(),
        };
        let tools = Arc::new(Tools {
            http,
            prober: Arc::new(prober),
            puller: Puller::new(runtime.clone(), &settings, clock.clone()),
            runtime,
            volumes: Volumes::new(settings.data.clone()),
            user_ids: UserIds::new(settings.data.clone(), settings.user_ids.clone()),
            groups: groups.map(|groups| Arc::new(groups.within(Whole::of(&settings)))),
            settings: Arc::new(settings),
            clock,
            metrics,
        });
        let handle = AgentHandle {
            board: board.clone(),
            pulse: pulse.clone(),
            problems: problems_seen,
            ready: ready_seen,
            outlook: outlook_seen,
            orders: order_sender,
        };
        let agent = Self {
            tools,
            pleg,
            updates,
            orders,
            board,
            pulse,
            problems,
            ready,
            outlook,
            routes,
            actors: Actors::default(),
            surveys: JoinSet::new(),
            was_surveyed: false,
            survey_problem: None,
            namesakes: BTreeSet::new(),
        };
        (agent, handle)
    }

    /// Runs until `stop` completes. Pods keep running.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let (end_keeping, keeping_ends) = oneshot::channel::<()>();
        let keeper = Keeper::new(self.tools.settings.data.clone());
        let mut keepers = JoinSet::new();
        keepers.spawn(self.board.deliver_to(keeper, self.tools.clock.clone()).run(
            async move {
                let _ = keeping_ends.await;
            },
            LAST_WRITES,
        ));
        let mut events = self.pleg.subscribe();
        let mut relists = self.pleg.relists();
        let mut housekeeping = housekeeping();
        let mut unrest = Unrest::new();
        let mut statuses = self.board.changes();
        let mut sources_are_there = true;
        let mut has_listed = false;
        loop {
            let mut is_news = true;
            tokio::select! {
                biased;
                () = &mut stop => break,
                // First, since a pod that has ended makes room for those that wait.
                Some(ended) = self.actors.ended() => self.actor_ended(ended),
                Some(order) = self.orders.recv() => self.order(&order),
                Some(event) = events.next() => self.pod_event(&event),
                Some(found) = self.surveys.join_next() => {
                    self.surveyed(found);
                    is_news = false;
                }
                // Before the first list, it is not known what runs already.
                Ok(_) = relists.wait_for(Option::is_some), if !has_listed => {
                    has_listed = true;
                    self.survey();
                }
                update = self.updates.recv(), if self.was_surveyed && sources_are_there => match update {
                    Some(update) => self.update(update),
                    None => sources_are_there = false,
                },
                _ = housekeeping.tick() => {
                    is_news = statuses.has_changed().unwrap_or_default();
                    statuses.mark_unchanged();
                    if has_listed && (is_news || unrest.tick() || self.is_unsettled()) {
                        self.survey();
                        self.reconsider();
                    }
                }
            }
            if is_news {
                unrest.stir();
            }
            self.pulse.beat();
        }
        self.actors.shutdown().await;
        drop(end_keeping);
        keepers.join_all().await;
    }

    /// Gathers the facts that decisions are based on.
    fn facts(&self) -> Facts {
        Facts { over: self.board.over() }
    }

    fn update(&mut self, update: SourceUpdate) {
        let commands = self.routes.source(update, &self.facts());
        self.carry_out(commands);
        self.tools.metrics.desired_pods(self.routes.wanted());
        self.tell_readiness();
    }

    /// Whether something is pending that only another survey can notice.
    fn is_unsettled(&self) -> bool {
        !self.was_surveyed || self.survey_problem.is_some() || self.routes.missing_sources().next().is_some()
    }

    fn tell_readiness(&self) {
        let unheard: Vec<SourceId> = self.routes.missing_sources().cloned().collect();
        let now = Readiness { was_surveyed: self.was_surveyed, unheard };
        self.ready.send_if_modified(|known| {
            let is_news = *known != now;
            *known = now;
            is_news
        });
    }

    /// Reconsiders pods that were refused: one that has ended has made room.
    fn reconsider(&mut self) {
        let commands = self.routes.reconsider(&self.facts());
        self.carry_out(commands);
    }

    fn order(&mut self, order: &Order) {
        let uids: Vec<PodUid> = match &order.which {
            PodSelector::All => self.actors.uids().cloned().collect(),
            PodSelector::One(uid) => vec![uid.clone()],
        };
        for uid in uids {
            if self.actors.post(&uid, Mail::end(order.end)) {
                self.routes.note_order(&uid, order.end);
            }
        }
    }

    /// Routes an event of the PLEG to its pod.
    fn pod_event(&self, event: &PodEvent) {
        if let Some(Command::Post { uid, mail }) = self.routes.event(&event.pod.uid) {
            self.actors.post(&uid, mail);
        }
    }

    /// Looks for pods of ours, off the loop.
    fn survey(&mut self) {
        if !self.surveys.is_empty() {
            return;
        }
        let (settings, cache, board) = (self.tools.settings.clone(), self.pleg.cache(), self.board.clone());
        let is_first = !self.was_surveyed;
        self.routes.survey_begins();
        self.surveys.spawn_blocking(move || {
            // The runtime is read first: by the time folders are listed, each pod of ours in it has its folder.
            let all: Vec<_> = cache.all().into_iter().filter_map(|(_, status)| status.ok()).collect();
            let told = |uid: &PodUid| cache.get(uid).ok().map(|status| status.pod.clone());
            let mut pods = survey(&settings.data.pods(), &settings.logs, told)?;
            pods.extend(late_comers(&all, |uid| board.is_gone(uid)));
            let strangers = strangers(all, &pods);
            let rests = |uid: &PodUid| cache.get(uid).is_ok_and(|status| is_at_rest(&status));
            let at_rest = pods.iter().map(|pod| pod.uid.clone()).filter(rests).collect();
            Ok(Found { pods, at_rest, strangers, before: is_first.then(|| before(&settings.data)) })
        });
    }

    /// Handles the result of a survey. A failed survey proves nothing, not even that there are no pods.
    fn surveyed(&mut self, found: Result<io::Result<Found>, JoinError>) {
        match found {
            Ok(Ok(Found { pods, at_rest, strangers, before })) => {
                self.was_surveyed = true;
                self.survey_problem = None;
                if let Some(Before { given, footprints }) = before {
                    self.routes.note_given(given);
                    self.routes.note_footprints(footprints);
                }
                let commands = self.routes.survey(pods, &at_rest);
                let orphans = commands.iter().filter(|command| matches!(command, Command::Spawn { .. }));
                orphans.for_each(|_| self.tools.metrics.orphan());
                self.carry_out(commands);
                let commands = self.routes.let_in(&self.facts());
                self.carry_out(commands);
                self.tell_of_namesakes(strangers);
                self.count();
                self.tell_readiness();
            }
            Ok(Err(error)) => self.cannot_survey(SurveyProblem::Disk(error.kind()), &error),
            Err(error) => self.cannot_survey(SurveyProblem::Lost, &error),
        }
    }

    /// Logs why the pods on this machine cannot be listed: once per problem, not every two seconds.
    fn cannot_survey(&mut self, problem: SurveyProblem, error: &dyn Error) {
        if self.survey_problem.replace(problem) != Some(problem) {
            let folder = self.tools.settings.data.pods();
            tracing::error!(folder = %folder.display(), %error, "cannot list the pods on this machine");
        }
    }

    /// Warns of pods that somebody else made and that have the name of one of ours: once each, for as long as it runs.
    /// Two copies may be one too many, and someone who has moved from a kubelet to this agent may expect only one.
    fn tell_of_namesakes(&mut self, strangers: Vec<PodRef>) {
        let namesakes = self.routes.namesakes(strangers);
        for pod in namesakes.iter().filter(|pod| !self.namesakes.contains(&pod.uid)) {
            tracing::warn!(%pod, uid = %pod.uid, "another pod with this name, not made by this agent, runs in the \
                                                  same runtime: stop it, or, if it is a kubelet's, take it over with \
                                                  `--data-dir` set to the kubelet's root folder");
        }
        self.namesakes = namesakes.into_iter().map(|pod| pod.uid).collect();
    }

    fn actor_ended(&mut self, Ended { uid, journal }: Ended) {
        let journal = match journal {
            Ok(journal) => journal,
            Err(error) => {
                tracing::error!(%error, "a pod's actor panicked and is restarted");
                self.tools.metrics.actor_lost();
                let commands = self.routes.lost(&uid);
                return self.carry_out(commands);
            }
        };
        let commands = self.routes.ended(&uid, &self.facts());
        for command in &commands {
            if let Command::Spawn { pod, .. } = command {
                self.tools.metrics.pod_restarted(annotation::is_static(pod));
            }
        }
        self.carry_out_after(commands, Some((uid, journal)));
    }

    fn count(&self) {
        let all = self.board.all();
        self.tools.metrics.pods(all.iter().map(|view| CountedPod {
            lifecycle: match view.stage {
                Stage::Pending | Stage::Syncing => "sync",
                Stage::Terminating => "terminating",
                Stage::Terminated => "terminated",
            },
            wanted: if self.routes.is_wanted(&crate::pod::pod_ref(&view.pod).uid) {
                Wanted::BySource
            } else if crate::pod::is_orphan(&view.pod) {
                Wanted::NotKnown
            } else {
                Wanted::NoLonger
            },
            is_static: annotation::is_static(&view.pod),
            is_active: view.stage != Stage::Terminated && !view.is_finished(),
        }));
    }

    fn carry_out(&mut self, commands: Vec<Command>) {
        self.carry_out_after(commands, None);
    }

    /// Carries out commands; `gone` is a pod that has just gone, with its journal: if it is restarted, it keeps its
    /// events.
    fn carry_out_after(&mut self, commands: Vec<Command>, mut gone: Option<(PodUid, Journal)>) {
        for command in commands {
            match command {
                Command::Spawn { pod, source, objects, after_loss, refusal, behind } => {
                    let mailbox = Arc::new(Mailbox::default());
                    if let Some(refusal) = refusal {
                        // Before the actor starts, so that the pod is never seen waiting.
                        let rejection = Rejection::from(&refusal);
                        mailbox.post(Mail::refused(Refused { number: 0, rejection }));
                    }
                    let uid = crate::pod::pod_ref(&pod).uid;
                    let journal = gone.take_if(|(of, _)| *of == uid).map(|(_, journal)| journal);
                    let actor = Actor::new(ActorParts {
                        tools: self.tools.clone(),
                        pleg: self.pleg.clone(),
                        board: self.board.clone(),
                        mailbox: mailbox.clone(),
                        pod,
                        source,
                        objects,
                        behind,
                        after_loss,
                        journal,
                    });
                    self.actors.spawn(uid, mailbox, actor.run());
                }
                Command::Post { uid, mail } => {
                    self.actors.post(&uid, mail);
                }
                Command::Tell { source, problems } => self.tell(source, problems),
            }
        }
        let outlook = self.routes.outlook();
        self.outlook.send_if_modified(|known| std::mem::replace(known, outlook) != outlook);
    }

    fn tell(&self, source: SourceId, problems: Vec<Problem>) {
        self.problems.send_modify(|all| {
            all.insert(source, problems);
        });
    }
}

fn housekeeping() -> Interval {
    let mut interval = tokio::time::interval(HOUSEKEEPING);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
