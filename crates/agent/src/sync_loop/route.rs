//! What goes to whom: which pods have an actor, in which order those of one name take their turn, and who is no longer
//! wanted. A plain value; the task around it does what it says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{PodRef, PodUid};

use crate::admission::{Node, Refusal};
use crate::manifest::{Objects, Problem};
use crate::merge::{Delta, Operation, SourcesReady};
use crate::pod::{End, Mail, Sizes, Wish, full_name, orphan, pod_ref};
use crate::source::{SourceId, SourceUpdate};

/// An orphan gets so many seconds: nobody knows what it would need.
const ORPHAN_GRACE: u64 = 1;

/// How long to wait before a pod whose actor was lost gets a new one.
const RESPAWN_AFTER: Duration = Duration::from_secs(1);

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// Make an actor for a pod, which this node may refuse, and which may have to wait for one of its name from another
    /// source.
    Spawn {
        pod: Arc<Pod>,
        objects: Arc<Objects>,
        /// How long to wait, if one was lost.
        after_loss: Option<Duration>,
        refusal: Option<Refusal>,
        behind: Option<SourceId>,
    },
    /// Put something into the mailbox of a pod.
    Post { uid: PodUid, mail: Mail },
    /// Say what is wrong with a source.
    Tell { source: SourceId, problems: Vec<Problem> },
}

#[derive(Clone, Debug)]
struct Record {
    pod: Arc<Pod>,
    name: Arc<str>,
    /// Nothing for an orphan.
    source: Option<SourceId>,
    /// Whether it was told to go for good. If it is wanted then, it comes back.
    is_leaving: bool,
    /// Whether somebody has ended it, until its manifest changes.
    is_stopped: bool,
    /// Why this node does not take it.
    refusal: Option<Refusal>,
    /// What it would have if there were room.
    growth: Option<Growth>,
    /// How many came before it: who came first is asked first.
    number: u64,
}

/// Who is there, and what is known of them.
#[derive(Debug)]
pub(super) struct Routes {
    records: BTreeMap<PodUid, Record>,
    wants: Wants,
    /// The pods of one name, in the order in which they may run.
    names: BTreeMap<Arc<str>, VecDeque<PodUid>>,
    objects: BTreeMap<SourceId, Arc<Objects>>,
    sources: SourcesReady,
    /// Pods that were gone before the survey that is under way has been told: it may have seen them.
    gone: BTreeSet<PodUid>,
    /// Pods of ours in the runtime or on disk, as of the last survey.
    surveyed: BTreeMap<PodUid, PodRef>,
    /// What was given to pods that are here since before this agent.
    given: BTreeMap<PodUid, Sizes>,
    /// What this node takes.
    node: Node,
    /// Pods of which nothing runs any more: they take no room.
    over: BTreeSet<PodUid>,
    wishes: u64,
    arrivals: u64,
}

impl Routes {
    pub(super) fn new(sources: impl IntoIterator<Item = SourceId>, node: Node) -> Self {
        Self {
            records: BTreeMap::new(),
            wants: Wants::default(),
            names: BTreeMap::new(),
            objects: BTreeMap::new(),
            sources: SourcesReady::new(sources),
            gone: BTreeSet::new(),
            surveyed: BTreeMap::new(),
            given: BTreeMap::new(),
            node,
            over: BTreeSet::new(),
            wishes: 0,
            arrivals: 0,
        }
    }

    /// Something new from a source.
    pub(super) fn source(&mut self, update: SourceUpdate) -> Vec<Command> {
        let mut commands = Vec::new();
        match update {
            SourceUpdate::Objects { source, objects } => {
                self.objects_changed(&source, objects, &mut commands);
            }
            SourceUpdate::Problems { source, problems } => commands.push(Command::Tell { source, problems }),
            SourceUpdate::Pods(delta) => self.pods_changed(&delta, &mut commands),
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

    fn pods_changed(&mut self, delta: &Delta, commands: &mut Vec<Command>) {
        let mut pods: Vec<&Arc<Pod>> = delta.pods.iter().collect();
        // Those that were here before the agent was keep their room.
        pods.sort_by_key(|pod| !self.surveyed.contains_key(&pod_ref(pod).uid));
        for pod in pods {
            match delta.operation {
                Operation::Add => self.add(pod, &delta.source, commands),
                Operation::Update | Operation::Delete => self.update(pod, &delta.source, commands),
                Operation::Remove => self.remove(pod, &delta.source, commands),
                // Nobody but an API server has a status to reconcile with.
                Operation::Reconcile => {}
            }
        }
        self.sources.delivered(&delta.source);
        self.end_unwanted(commands);
    }

    fn add(&mut self, pod: &Arc<Pod>, source: &SourceId, commands: &mut Vec<Command>) {
        let found = pod_ref(pod);
        self.wants.add(&found.uid, Want { source: source.clone(), pod: pod.clone() });
        if self.records.contains_key(&found.uid) {
            self.follow(&found.uid, commands);
        } else if let Some(before) = self.by_another_name(&found) {
            self.end_orphan(&before, commands);
        } else {
            self.supersede(&found, commands);
            self.admit(pod.clone(), Some(source.clone()), commands);
        }
    }

    /// What is here since before this agent under the UID of a pod, but not as that pod. It ends before the pod comes.
    fn by_another_name(&self, pod: &PodRef) -> Option<PodRef> {
        let before = self.surveyed.get(&pod.uid)?;
        // Of some nobody knows the name.
        (!before.name.is_empty() && before != pod).then(|| before.clone())
    }

    /// What is wanted of a pod that is here has changed. One that is on its way out comes back as it is wanted then.
    fn follow(&mut self, uid: &PodUid, commands: &mut Vec<Command>) {
        let (Some(want), Some(record)) = (self.wants.of(uid).cloned(), self.records.get_mut(uid)) else {
            return;
        };
        if record.is_leaving {
            return;
        }
        // Its name is in what was made for it: nobody is renamed while it lives.
        if record.name != full_name(&want.pod) {
            self.ask_again(uid, commands);
            return;
        }
        record.source = Some(want.source);
        // Somebody who was refused may fit now, and somebody who was stopped may begin anew.
        let begins_anew = record.refusal.is_some() || record.is_stopped;
        self.take_over(uid, &want.pod);
        if begins_anew {
            self.ask_again(uid, commands);
        } else {
            self.wish(uid, commands);
        }
    }

    /// A pod of ours with this name that nobody wants any more must go before the new one comes.
    fn supersede(&mut self, newcomer: &PodRef, commands: &mut Vec<Command>) {
        let is_superseded = |found: &&PodRef| {
            found.name == newcomer.name && found.namespace == newcomer.namespace && found.uid != newcomer.uid
        };
        let old: Vec<PodRef> = self.surveyed.values().filter(is_superseded).cloned().collect();
        for found in old {
            self.end_orphan(&found, commands);
        }
    }

    /// Makes an actor. It starts when it is first of its name.
    fn admit(&mut self, pod: Arc<Pod>, source: Option<SourceId>, commands: &mut Vec<Command>) {
        let uid = pod_ref(&pod).uid;
        let name = full_name(&pod);
        let objects =
            source.as_ref().and_then(|source| self.objects.get(source)).cloned().unwrap_or_default();
        let (pod, growth, refusal) = match &source {
            Some(_) => self.welcome(&uid, pod),
            // An orphan is here already, and only to be ended.
            None => (pod, None, None),
        };
        let is_growing = growth.is_some();
        let queue = self.names.entry(name.clone()).or_default();
        queue.push_back(uid.clone());
        let is_first = queue.len() == 1;
        // One that is leaving makes room by itself.
        let first = queue.front().and_then(|first| self.records.get(first));
        let is_rival = |first: &&Record| !first.is_leaving && first.source != source;
        let behind = first.filter(is_rival).and_then(|first| first.source.clone());
        self.arrivals += 1;
        let record = Record {
            pod: pod.clone(),
            name,
            source,
            is_leaving: false,
            is_stopped: false,
            refusal: refusal.clone(),
            growth,
            number: self.arrivals,
        };
        self.records.insert(uid.clone(), record);
        commands.push(Command::Spawn { pod, objects, after_loss: None, refusal, behind });
        if is_growing {
            self.wish(&uid, commands);
        }
        if is_first {
            commands.push(Command::Post { uid, mail: Mail::may_start() });
        }
    }

    fn update(&mut self, pod: &Arc<Pod>, source: &SourceId, commands: &mut Vec<Command>) {
        let uid = pod_ref(pod).uid;
        if self.wants.update(&uid, Want { source: source.clone(), pod: pod.clone() }) {
            self.follow(&uid, commands);
        }
    }

    fn remove(&mut self, pod: &Pod, source: &SourceId, commands: &mut Vec<Command>) {
        let uid = pod_ref(pod).uid;
        if self.wants.remove(&uid, source) {
            self.follow(&uid, commands);
        }
    }

    /// Tells those to go that no source wants. Not before every source was heard: it might be another's.
    fn end_unwanted(&mut self, commands: &mut Vec<Command>) {
        if !self.sources.all() {
            return;
        }
        for (uid, record) in &mut self.records {
            if self.wants.of(uid).is_none() && !record.is_leaving {
                record.is_leaving = true;
                let mail = Mail::end(End { grace: None, forget: true });
                commands.push(Command::Post { uid: uid.clone(), mail });
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
            objects: objects.cloned().unwrap_or_default(),
            resize_pending: record
                .growth
                .as_ref()
                .map(|growth| (growth.wanted.clone(), growth.pending.clone())),
        };
        commands.push(Command::Post { uid: uid.clone(), mail: Mail::wish(wish) });
    }

    /// Something happened to a pod in the runtime.
    pub(super) fn event(&self, uid: &PodUid) -> Option<Command> {
        let is_known = self.records.contains_key(uid);
        is_known.then(|| Command::Post { uid: uid.clone(), mail: Mail::look() })
    }

    /// Somebody begins to look for all pods of ours that have left a trace.
    pub(super) fn survey_begins(&mut self) {
        self.gone.clear();
    }

    /// These are all pods of ours that have left a trace, in the runtime or on disk.
    pub(super) fn survey(&mut self, found: Vec<PodRef>) -> Vec<Command> {
        let found = found.into_iter().filter(|found| !self.gone.contains(&found.uid));
        self.surveyed = found.map(|found| (found.uid.clone(), found)).collect();
        let mut commands = Vec::new();
        self.end_unwanted(&mut commands);
        if self.sources.all() {
            for found in self.surveyed.values().cloned().collect::<Vec<_>>() {
                self.end_orphan(&found, &mut commands);
            }
        }
        commands
    }

    /// Those of somebody else's pods that have the name of one of ours.
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
        self.admit(Arc::new(orphan(found)), None, commands);
        let Some(record) = self.records.get_mut(&found.uid) else { return };
        record.is_leaving = true;
        let mail = Mail::end(End { grace: Some(ORPHAN_GRACE), forget: true });
        commands.push(Command::Post { uid: found.uid.clone(), mail });
    }

    /// The actor of a pod has ended: it is gone, or it was lost.
    pub(super) fn ended(&mut self, uid: &PodUid, was_lost: bool) -> Vec<Command> {
        let mut commands = Vec::new();
        if was_lost {
            self.respawn(uid, &mut commands);
            return commands;
        }
        let Some(record) = self.records.remove(uid) else { return commands };
        self.surveyed.remove(uid);
        self.gone.insert(uid.clone());
        // What runs next under this UID was given nothing yet.
        self.given.remove(uid);
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
            && let Some(Want { pod, source }) = self.wants.of(uid).cloned()
        {
            self.supersede(&pod_ref(&pod), &mut commands);
            self.admit(pod, Some(source), &mut commands);
        }
        commands.extend(self.reconsider());
        commands
    }

    /// An actor keeps nothing that cannot be read again: a new one goes on where it was.
    fn respawn(&mut self, uid: &PodUid, commands: &mut Vec<Command>) {
        let Some(record) = self.records.get(uid) else { return };
        let objects = record.source.as_ref().and_then(|source| self.objects.get(source)).cloned();
        commands.push(Command::Spawn {
            pod: record.pod.clone(),
            objects: objects.unwrap_or_default(),
            after_loss: Some(RESPAWN_AFTER),
            refusal: record.refusal.clone(),
            behind: None,
        });
        if self.names.get(&record.name).and_then(VecDeque::front) == Some(uid) {
            commands.push(Command::Post { uid: uid.clone(), mail: Mail::may_start() });
        }
        if record.growth.is_some() {
            self.wish(uid, commands);
        }
        let Some(record) = self.records.get(uid) else { return };
        if record.is_leaving || record.is_stopped {
            let grace = record.source.is_none().then_some(ORPHAN_GRACE);
            let mail = Mail::end(End { grace, forget: record.is_leaving });
            commands.push(Command::Post { uid: uid.clone(), mail });
        }
    }

    /// Somebody has told a pod to end, whatever its source wants.
    pub(super) fn told_to_end(&mut self, uid: &PodUid, end: End) {
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

    /// How many pods should run.
    pub(super) fn wanted(&self) -> usize {
        self.records.keys().filter(|uid| self.is_wanted(uid)).count()
    }

    /// The sources that were not heard yet.
    pub(super) fn missing_sources(&self) -> impl Iterator<Item = &SourceId> {
        self.sources.missing()
    }
}

mod growth;
mod room;
#[cfg(test)]
mod tests;
mod wants;

use growth::Growth;
pub use room::Outlook;
use wants::{Want, Wants};
