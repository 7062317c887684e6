//! Routing: which pods have an actor, in which order pods of the same name take their turn, and which pods are no
//! longer wanted. A plain value; the task around it carries out its commands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{PodRef, PodUid};

use crate::admission::{Node, Refusal};
use crate::board::Footprint;
use crate::manifest::{Objects, Problem};
use crate::merge::{Delta, Operation, SourcesReady};
use crate::pod::{End, Mail, Sizes, Wish, full_name, orphan, pod_ref};
use crate::source::{SourceId, SourceUpdate};

/// How long to wait before a pod whose actor panicked gets a new one.
const RESPAWN_AFTER: Duration = Duration::from_secs(1);

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// Create an actor for a pod. This node may refuse the pod, and the pod may have to wait for one of the same name
    /// from another source.
    Spawn {
        pod: Arc<Pod>,
        source: Option<SourceId>,
        objects: Arc<Objects>,
        /// How long to wait first, if the previous actor panicked.
        after_loss: Option<Duration>,
        refusal: Option<Refusal>,
        behind: Option<SourceId>,
    },
    /// Put mail into the mailbox of a pod.
    Post { uid: PodUid, mail: Mail },
    /// Publish the problems of a source.
    Tell { source: SourceId, problems: Vec<Problem> },
}

#[derive(Clone, Debug)]
struct Record {
    pod: Arc<Pod>,
    name: Arc<str>,
    /// `None` for an orphan.
    source: Option<SourceId>,
    /// Whether it was ordered to go for good. If a source still wants it once it is gone, it is created again.
    is_leaving: bool,
    /// Whether it was stopped by an order, which holds until its manifest changes.
    is_stopped: bool,
    /// Whether it had finished before this agent started: it takes no room, even before its actor has published that.
    had_finished: bool,
    /// Why this node refuses it.
    refusal: Option<Refusal>,
    /// What it would get if there were room.
    growth: Option<Growth>,
    /// How many pods came before it: the oldest is considered first.
    number: u64,
}

/// What decisions are based on, besides what the sources want.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Pods that have nothing running any more: they take no room.
    pub(super) over: BTreeSet<PodUid>,
}

/// A pod of ours in the runtime or on disk.
#[derive(Debug)]
struct Surveyed {
    pod: PodRef,
    /// Whether nothing of it runs.
    is_at_rest: bool,
}

/// All known pods, and what is known of them.
#[derive(Debug)]
pub(super) struct Routes {
    records: BTreeMap<PodUid, Record>,
    wants: Wants,
    held: Held,
    /// The pods of each name, in the order in which they may run.
    names: BTreeMap<Arc<str>, VecDeque<PodUid>>,
    objects: BTreeMap<SourceId, Arc<Objects>>,
    sources: SourcesReady,
    /// Pods that have gone since the survey in progress began: it may still have seen them.
    gone: BTreeSet<PodUid>,
    /// Pods of ours in the runtime or on disk, as of the last survey.
    surveyed: BTreeMap<PodUid, Surveyed>,
    /// What an earlier agent recorded about them.
    before: BTreeMap<PodUid, Footprint>,
    /// The resources given to pods that are older than this agent.
    given: BTreeMap<PodUid, Sizes>,
    /// What this node accepts.
    node: Node,
    wishes: u64,
    arrivals: u64,
}

impl Routes {
    pub(super) fn new(sources: impl IntoIterator<Item = SourceId>, node: Node) -> Self {
        Self {
            records: BTreeMap::new(),
            wants: Wants::default(),
            held: Held::default(),
            names: BTreeMap::new(),
            objects: BTreeMap::new(),
            sources: SourcesReady::new(sources),
            gone: BTreeSet::new(),
            surveyed: BTreeMap::new(),
            before: BTreeMap::new(),
            given: BTreeMap::new(),
            node,
            wishes: 0,
            arrivals: 0,
        }
    }

    /// Handles an update from a source.
    pub(super) fn source(&mut self, update: SourceUpdate, facts: &Facts) -> Vec<Command> {
        let mut commands = Vec::new();
        match update {
            SourceUpdate::Objects { source, objects } => {
                self.objects_changed(&source, objects, &mut commands);
            }
            SourceUpdate::Problems { source, problems } => commands.push(Command::Tell { source, problems }),
            SourceUpdate::Pods(delta) => self.pods_changed(&delta, facts, &mut commands),
        }
        commands
    }

    fn objects_changed(&mut self, source: &SourceId, objects: Arc<Objects>, commands: &mut Vec<Command>) {
        self.objects.insert(source.clone(), objects);
        let of_source: Vec<PodUid> = self
            .records
            .iter()
            .filter(|(_, record)| record.source.as_ref() == Some(source) && !record.is_leaving)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in of_source {
            self.wish(&uid, commands);
        }
    }

    fn pods_changed(&mut self, delta: &Delta, facts: &Facts, commands: &mut Vec<Command>) {
        self.sources.delivered(&delta.source);
        let mut pods: Vec<&Arc<Pod>> = delta.pods.iter().collect();
        // Pods that are older than the agent come first, so that they keep their room.
        pods.sort_by_key(|pod| self.rank(&pod_ref(pod).uid));
        for pod in pods {
            match delta.operation {
                Operation::Add => self.add(pod, &delta.source, facts, commands),
                Operation::Update | Operation::Delete => self.update(pod, &delta.source, facts, commands),
                Operation::Remove => self.remove(pod, &delta.source, facts, commands),
                // Only an API server has a status to reconcile with.
                Operation::Reconcile => {}
            }
        }
        commands.extend(self.let_in(facts));
        self.end_unwanted(commands);
    }

    fn add(&mut self, pod: &Arc<Pod>, source: &SourceId, facts: &Facts, commands: &mut Vec<Command>) {
        let found = pod_ref(pod);
        let is_here = self.records.contains_key(&found.uid);
        let has_had = !is_here && self.source_before(&found.uid) == Some(source);
        self.wants.add(&found.uid, Want { source: source.clone(), pod: pod.clone() }, has_had);
        if let Some((first, next)) = self.wants.rivals(&found.uid) {
            tracing::warn!(pod = %found, uid = %found.uid, %first, %next, "two sources define a pod with this UID; \
                                                                           the first one is used until it is gone");
        }
        let counts = self.wants.of(&found.uid).is_some_and(|first| first.source == *source);
        if is_here && counts {
            self.follow(&found.uid, facts, commands);
        } else if is_here {
            // Nothing changes until the pod of the other source is gone.
        } else if self.must_wait(&found) {
            self.held.hold(found.uid);
        } else {
            self.take_in(&found.uid, facts, commands);
        }
    }

    /// Lets in a pod that is wanted and not here yet, after what must go before it.
    fn take_in(&mut self, uid: &PodUid, facts: &Facts, commands: &mut Vec<Command>) {
        let Some(Want { source, pod }) = self.wants.of(uid).cloned() else { return };
        let newcomer = pod_ref(&pod);
        if let Some(before) = self.by_another_name(&newcomer) {
            self.end_orphan(&before, commands);
            return;
        }
        self.supersede(&newcomer, commands);
        self.end_older_versions(&full_name(&pod), &source, commands);
        self.admit(Want { source, pod }, false, facts, commands);
    }

    /// A version that its source has replaced goes at once, even if other sources have not been read: its successor is
    /// known.
    fn end_older_versions(&mut self, name: &str, source: &SourceId, commands: &mut Vec<Command>) {
        let of_name = self.names.get(name).into_iter().flatten();
        for uid in of_name.filter(|uid| self.wants.of(uid).is_none()) {
            let of_source = |record: &&mut Record| record.source.as_ref() == Some(source);
            if let Some(record) = self.records.get_mut(uid).filter(of_source) {
                tell_to_leave(uid, record, commands);
            }
        }
    }

    /// What has existed under the UID of a pod since before this agent, but as a different pod. It ends before the pod
    /// is let in.
    fn by_another_name(&self, pod: &PodRef) -> Option<PodRef> {
        let before = &self.surveyed.get(&pod.uid)?.pod;
        // The names of some are unknown.
        (!before.name.is_empty() && before != pod).then(|| before.clone())
    }

    /// Follows a change to what is wanted of a pod that is here. A pod on its way out comes back as it is wanted then.
    fn follow(&mut self, uid: &PodUid, facts: &Facts, commands: &mut Vec<Command>) {
        let (Some(want), Some(record)) = (self.wants.of(uid).cloned(), self.records.get_mut(uid)) else {
            return;
        };
        if record.is_leaving {
            // An order to stop it was given before this version of the pod was wanted.
            record.is_stopped = false;
            return;
        }
        // What was made for a pod contains its name: no pod is renamed while it lives.
        if record.name != full_name(&want.pod) {
            self.ask_again(uid, commands);
            return;
        }
        record.source = Some(want.source);
        // A refused pod may fit now, and a stopped pod may be restarted.
        let begins_anew = record.refusal.is_some() || record.is_stopped;
        self.take_over(uid, &want.pod, facts);
        if begins_anew {
            self.ask_again(uid, commands);
        } else {
            self.wish(uid, commands);
        }
    }

    /// Ends pods of ours with this name that are no longer wanted: they must go before the new one starts.
    fn supersede(&mut self, newcomer: &PodRef, commands: &mut Vec<Command>) {
        let old: Vec<PodRef> = self.namesakes_before(newcomer).cloned().collect();
        for found in old {
            self.end_orphan(&found, commands);
        }
    }

    /// Pods of ours that have had this name since before this agent.
    fn namesakes_before(&self, newcomer: &PodRef) -> impl Iterator<Item = &PodRef> {
        self.surveyed.values().map(|found| &found.pod).filter(|found| {
            found.name == newcomer.name && found.namespace == newcomer.namespace && found.uid != newcomer.uid
        })
    }

    /// Creates an actor for a pod of a source, whether or not this node accepts the pod.
    fn admit(&mut self, want: Want, is_stopped: bool, facts: &Facts, commands: &mut Vec<Command>) {
        let Want { source, pod } = want;
        let uid = pod_ref(&pod).uid;
        let welcome = self.welcome(&uid, pod, facts);
        self.enter(welcome, Some(source), is_stopped, commands);
    }

    /// Creates an actor. It starts once it is the first of its name, unless the pod has been stopped by an order.
    fn enter(
        &mut self,
        welcome: Welcome,
        source: Option<SourceId>,
        is_stopped: bool,
        commands: &mut Vec<Command>,
    ) {
        let Welcome { pod, growth, refusal } = welcome;
        let uid = pod_ref(&pod).uid;
        // Another source may have defined it in the meantime.
        self.held.forget(&uid);
        let name = full_name(&pod);
        let objects =
            source.as_ref().and_then(|source| self.objects.get(source)).cloned().unwrap_or_default();
        let is_growing = growth.is_some();
        let is_to_end = is_stopped && refusal.is_none();
        let queue = self.names.entry(name.clone()).or_default();
        queue.push_back(uid.clone());
        let is_first = queue.len() == 1;
        // A pod that is leaving makes room by itself.
        let first = queue.front().and_then(|first| self.records.get(first));
        let is_rival = |first: &&Record| !first.is_leaving && first.source != source;
        let behind = first.filter(is_rival).and_then(|first| first.source.clone());
        self.arrivals += 1;
        let record = Record {
            pod: pod.clone(),
            name,
            source: source.clone(),
            is_leaving: false,
            is_stopped,
            had_finished: self.had_finished(&uid),
            refusal: refusal.clone(),
            growth,
            number: self.arrivals,
        };
        self.records.insert(uid.clone(), record);
        commands.push(Command::Spawn { pod, source, objects, after_loss: None, refusal, behind });
        if is_growing {
            self.wish(&uid, commands);
        }
        if is_to_end {
            let mail = Mail::end(End { grace: None, forget: false });
            commands.push(Command::Post { uid: uid.clone(), mail });
        }
        if is_first {
            commands.push(Command::Post { uid, mail: Mail::may_start() });
        }
    }

    fn update(&mut self, pod: &Arc<Pod>, source: &SourceId, facts: &Facts, commands: &mut Vec<Command>) {
        let uid = pod_ref(pod).uid;
        if self.wants.update(&uid, Want { source: source.clone(), pod: pod.clone() }) {
            self.follow(&uid, facts, commands);
        }
    }

    fn remove(&mut self, pod: &Pod, source: &SourceId, facts: &Facts, commands: &mut Vec<Command>) {
        let uid = pod_ref(pod).uid;
        if self.wants.remove(&uid, source) {
            self.follow(&uid, facts, commands);
        }
        if self.wants.of(&uid).is_none() {
            self.held.forget(&uid);
        }
    }

    /// Orders pods to go that no source wants, but only once every source has been read: they might belong to another
    /// one.
    fn end_unwanted(&mut self, commands: &mut Vec<Command>) {
        if !self.sources.all() {
            return;
        }
        for (uid, record) in &mut self.records {
            if self.wants.of(uid).is_none() {
                tell_to_leave(uid, record, commands);
            }
        }
    }

    fn wish(&mut self, uid: &PodUid, commands: &mut Vec<Command>) {
        let Some(record) = self.records.get(uid) else { return };
        let objects = record.source.as_ref().and_then(|source| self.objects.get(source));
        self.wishes += 1;
        let wish = Wish {
            number: self.wishes,
            pod: record.pod.clone(),
            source: record.source.clone(),
            objects: objects.cloned().unwrap_or_default(),
            resize_pending: record
                .growth
                .as_ref()
                .map(|growth| (growth.wanted.clone(), growth.pending.clone())),
        };
        commands.push(Command::Post { uid: uid.clone(), mail: Mail::wish(wish) });
    }

    /// Routes an event of the runtime to its pod.
    pub(super) fn event(&self, uid: &PodUid) -> Option<Command> {
        let is_known = self.records.contains_key(uid);
        is_known.then(|| Command::Post { uid: uid.clone(), mail: Mail::look() })
    }

    /// Notes that a survey begins, which looks for all pods of ours that have left a trace.
    pub(super) fn survey_begins(&mut self) {
        self.gone.clear();
    }

    /// Handles a survey: all pods of ours that have left a trace in the runtime or on disk, and which of them have
    /// nothing running.
    pub(super) fn survey(&mut self, found: Vec<PodRef>, at_rest: &BTreeSet<PodUid>) -> Vec<Command> {
        self.held.survey();
        let found = found.into_iter().filter(|found| !self.gone.contains(&found.uid));
        let surveyed = |pod: PodRef| {
            let is_at_rest = at_rest.contains(&pod.uid);
            (pod.uid.clone(), Surveyed { pod, is_at_rest })
        };
        self.surveyed = found.map(surveyed).collect();
        let mut commands = Vec::new();
        self.end_unwanted(&mut commands);
        if self.sources.all() {
            for found in self.surveyed.values().map(|found| found.pod.clone()).collect::<Vec<_>>() {
                self.end_orphan(&found, &mut commands);
            }
        }
        commands
    }

    /// Returns those of the `strangers` that have the name of one of ours.
    pub(super) fn namesakes(&self, strangers: Vec<PodRef>) -> Vec<PodRef> {
        let is_namesake = |stranger: &PodRef| {
            let was_ours = self.records.contains_key(&stranger.uid) || self.gone.contains(&stranger.uid);
            !was_ours && self.names.contains_key(&full_name(&orphan(stranger)))
        };
        strangers.into_iter().filter(is_namesake).collect()
    }

    fn end_orphan(&mut self, found: &PodRef, commands: &mut Vec<Command>) {
        if self.records.contains_key(&found.uid) {
            return;
        }
        // If its source may still want it, its grace period was recorded by an earlier agent.
        let own = self.may_be_claimed(&found.uid).then(|| self.grace_before(&found.uid)).flatten();
        let mut pod = orphan(found);
        if let (Some(own), Some(spec)) = (own, &mut pod.spec) {
            spec.termination_grace_period_seconds = Some(own);
        }
        // It is here already, and only to be ended.
        let welcome = Welcome { pod: Arc::new(pod), growth: None, refusal: None };
        self.enter(welcome, None, false, commands);
        let Some(record) = self.records.get_mut(&found.uid) else { return };
        record.is_leaving = true;
        let mail = Mail::end(End { grace: None, forget: true });
        commands.push(Command::Post { uid: found.uid.clone(), mail });
    }

    /// Handles the end of a pod's actor: nothing is left of the pod.
    pub(super) fn ended(&mut self, uid: &PodUid, facts: &Facts) -> Vec<Command> {
        let mut commands = Vec::new();
        let Some(record) = self.records.remove(uid) else { return commands };
        self.surveyed.remove(uid);
        self.gone.insert(uid.clone());
        // The next pod with this UID has not been given anything yet.
        self.given.remove(uid);
        self.before.remove(uid);
        if let Some(queue) = self.names.get_mut(&record.name) {
            let was_first = queue.front() == Some(uid);
            queue.retain(|other| other != uid);
            match queue.front() {
                Some(next) if was_first => {
                    commands.push(Command::Post { uid: next.clone(), mail: Mail::may_start() });
                }
                Some(_) => {}
                None => {
                    self.names.remove(&record.name);
                }
            }
        }
        if record.is_leaving
            && let Some(want) = self.wants.of(uid).cloned()
        {
            self.supersede(&pod_ref(&want.pod), &mut commands);
            self.admit(want, record.is_stopped, facts, &mut commands);
        }
        commands.extend(self.reconsider(facts));
        commands
    }

    /// Handles an actor that panicked. It kept nothing that cannot be read again: a new one continues where it was.
    pub(super) fn lost(&mut self, uid: &PodUid) -> Vec<Command> {
        let mut commands = Vec::new();
        let Some(record) = self.records.get(uid) else { return commands };
        let objects = record.source.as_ref().and_then(|source| self.objects.get(source)).cloned();
        commands.push(Command::Spawn {
            pod: record.pod.clone(),
            source: record.source.clone(),
            objects: objects.unwrap_or_default(),
            after_loss: Some(RESPAWN_AFTER),
            refusal: record.refusal.clone(),
            behind: None,
        });
        if self.names.get(&record.name).and_then(VecDeque::front) == Some(uid) {
            commands.push(Command::Post { uid: uid.clone(), mail: Mail::may_start() });
        }
        let end = End { grace: None, forget: record.is_leaving };
        let is_to_end = record.is_leaving || record.is_stopped;
        if record.growth.is_some() {
            self.wish(uid, &mut commands);
        }
        if is_to_end {
            commands.push(Command::Post { uid: uid.clone(), mail: Mail::end(end) });
        }
        commands
    }

    /// Notes that a pod was ordered to end, whatever its source wants.
    pub(super) fn note_order(&mut self, uid: &PodUid, end: End) {
        let Some(record) = self.records.get_mut(uid) else { return };
        record.is_stopped = true;
        if end.forget {
            record.is_leaving = true;
            self.wants.forget(uid);
        }
    }

    /// Whether a pod should run.
    pub(super) fn is_wanted(&self, uid: &PodUid) -> bool {
        self.wants.of(uid).is_some() && self.records.get(uid).is_some_and(|record| !record.is_leaving)
    }

    /// Returns how many pods should run.
    pub(super) fn wanted(&self) -> usize {
        self.records.keys().filter(|uid| self.is_wanted(uid)).count()
    }

    /// The sources that have not been read yet.
    pub(super) fn missing_sources(&self) -> impl Iterator<Item = &SourceId> {
        self.sources.missing()
    }
}

/// Orders a pod to end for good, with its own grace period.
fn tell_to_leave(uid: &PodUid, record: &mut Record, commands: &mut Vec<Command>) {
    if !std::mem::replace(&mut record.is_leaving, true) {
        let mail = Mail::end(End { grace: None, forget: true });
        commands.push(Command::Post { uid: uid.clone(), mail });
    }
}

mod before;
mod growth;
mod held;
mod room;
#[cfg(test)]
mod tests;
mod wants;

use growth::{Growth, Welcome};
use held::Held;
pub use room::Outlook;
use wants::{Want, Wants};
