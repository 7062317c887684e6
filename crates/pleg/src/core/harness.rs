//! Plays histories to a [`Core`] with the real cache behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use std::time::Duration;

use rubelet_model::{
    ContainerState, ListedContainer, ListedSandbox, PodRef, PodStatus, RuntimePod, SandboxId, SandboxState,
    UnixNanos,
};

use super::*;
use crate::announce::{Announcement, LifeStep};
use crate::cache::CacheWriter;
use crate::event::{EventKind, PodEvent};
use crate::observe::{Call, Failure, Listing, ObserveError};
use crate::records::Snapshot;

pub(super) use ContainerState::{Created, Exited, Running, Unknown};
pub(super) use SandboxState::{NotReady, Ready};

impl Core {
    /// The list view of a pod that its last successful inspection was made for.
    pub(super) fn committed(&self, pod: &PodUid) -> Option<&RuntimePod> {
        self.records.get(pod)?.committed().map(Arc::as_ref)
    }
}

/// An event, as the scenarios write it: kind, pod and subject.
pub(super) type Told = (EventKind, String, String);

pub(super) fn told(kind: EventKind, pod: &str, subject: &str) -> Told {
    (kind, pod.to_owned(), subject.to_owned())
}

pub(super) fn container(id: &str, state: ContainerState) -> ListedContainer {
    ListedContainer {
        id: id.into(),
        name: id.into(),
        sandbox: SandboxId::from("sandbox"),
        attempt: 0,
        state,
        created_at: UnixNanos(1),
    }
}

pub(super) fn sandbox(id: &str, state: SandboxState) -> ListedSandbox {
    ListedSandbox { id: id.into(), attempt: 0, state, created_at: UnixNanos(1) }
}

pub(super) fn pod(uid: &str, containers: &[(&str, ContainerState)]) -> RuntimePod {
    let mut pod = RuntimePod::empty(PodRef::new(uid, "ns", uid));
    pod.containers = containers.iter().map(|(id, state)| container(id, *state)).collect();
    pod
}

pub(super) fn sandboxes(uid: &str, sandboxes: &[(&str, SandboxState)]) -> RuntimePod {
    let mut pod = RuntimePod::empty(PodRef::new(uid, "ns", uid));
    pod.sandboxes = sandboxes.iter().map(|(id, state)| sandbox(id, *state)).collect();
    pod
}

pub(super) fn refused(target: &str) -> ObserveError {
    ObserveError {
        call: Call::ContainerStatus,
        target: Some(target.into()),
        failure: Failure::Refused,
        message: "not today".into(),
    }
}

pub(super) fn announcement(uid: &str, id: &str, step: LifeStep) -> Announcement {
    Announcement {
        id: id.into(),
        step,
        pod: Some(PodRef::new(uid, "ns", uid)),
        subject: None,
        exit: None,
        exited_at: None,
        announced_at: None,
    }
}

pub(super) struct Harness {
    pub(super) core: Core,
    pub(super) cache: CacheWriter,
    nanos: u64,
    /// The wall-clock time, which stands still unless a test sets it.
    pub(super) wall: UnixNanos,
    /// The addresses that an inspection of a pod finds.
    pub(super) ips: BTreeMap<PodUid, Vec<IpAddr>>,
    /// How an inspection finds that containers ended, for those that ended in an unusual way.
    pub(super) exits: BTreeMap<String, (i32, &'static str)>,
    /// Pods whose inspection fails.
    pub(super) failing: BTreeSet<PodUid>,
    /// Pods whose inspection gets no answer.
    pub(super) hanging: BTreeSet<PodUid>,
    pub(super) epoch: u64,
    last_epoch: Option<u64>,
    pub(super) unreadable: usize,
    list: Option<Stamp>,
    looks: Vec<(PodUid, Stamp)>,
    inspections: Vec<(Arc<Snapshot>, u64)>,
    /// When each inspection began.
    begun: BTreeMap<u64, Stamp>,
    pub(super) inspected: Vec<PodUid>,
    pub(super) told: Vec<PodEvent>,
    pub(super) measured: Vec<Measure>,
    #[cfg(feature = "record")]
    pub(super) recorder: Option<crate::record::Recorder>,
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(super) fn with(config: Config) -> Self {
        Self {
            core: Core::new(config, Stamp::from_nanos(1)),
            cache: CacheWriter::new(Arc::default()),
            nanos: 1,
            wall: UnixNanos(1_000),
            ips: BTreeMap::new(),
            exits: BTreeMap::new(),
            failing: BTreeSet::new(),
            hanging: BTreeSet::new(),
            epoch: 1,
            last_epoch: None,
            unreadable: 0,
            list: None,
            looks: Vec::new(),
            inspections: Vec::new(),
            begun: BTreeMap::new(),
            inspected: Vec::new(),
            told: Vec::new(),
            measured: Vec::new(),
            #[cfg(feature = "record")]
            recorder: None,
        }
    }

    /// Returns a new moment, later than all before.
    pub(super) fn now(&mut self) -> Now {
        self.nanos += 1;
        Now { stamp: Stamp::from_nanos(self.nanos), wall: self.wall }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.nanos += u64::try_from(time.as_nanos()).expect("a short time");
    }

    /// Steps the core and carries out its effects; calls wait until a test answers them.
    pub(super) fn step(&mut self, input: Input) {
        let now = self.now();
        let rules = Rules::before(&self.core, &input, self.last_epoch);
        if let Input::Listed { answer: Ok(listing), .. } = &input {
            self.last_epoch = Some(listing.epoch);
        }
        #[cfg(feature = "record")]
        if let Some(recorder) = &mut self.recorder {
            recorder.note(&self.core, &input, now);
        }
        let effects = self.core.step(input, now);
        rules.check(&self.core, &effects);
        for effect in effects {
            match effect {
                Effect::Ask(Ask::List { asked }) => {
                    assert!(self.list.replace(asked).is_none(), "two full lists at once");
                    self.looks.clear();
                }
                Effect::Ask(Ask::Look { pod, asked }) => {
                    assert!(self.list.is_none(), "a look starts while all pods are listed");
                    self.looks.push((pod, asked));
                }
                Effect::Ask(Ask::Inspect { snapshot, ticket }) => {
                    let pod = &snapshot.pod.pod.uid;
                    let others = self.inspections.iter().filter(|(other, _)| other.pod.pod.uid == *pod);
                    assert_eq!(others.count(), 0, "two inspections of one pod");
                    self.inspections.push((snapshot, ticket));
                    self.begun.insert(ticket, now.stamp);
                }
                Effect::Ask(Ask::AbandonLook { pod, asked }) => {
                    self.looks.retain(|(other, at)| (other, at) != (&pod, &asked));
                }
                Effect::Ask(Ask::Abandon { ticket }) => {
                    self.inspections.retain(|(_, other)| *other != ticket);
                }
                Effect::Publish(News::Store { pod, status, asked }) => self.cache.store(&pod, status, asked),
                Effect::Publish(News::Forget { pod }) => self.cache.forget(&pod),
                Effect::Publish(News::Hold { pod }) => self.cache.hold(pod),
                Effect::Publish(News::Settle { pod, asked }) => self.cache.settle(&pod, asked),
                Effect::Publish(News::Advance { asked, proves_absence }) => {
                    self.cache.advance(asked, proves_absence);
                }
                Effect::Publish(News::Tell(event)) => self.told.push(event),
                Effect::Publish(News::Measure(measure)) => self.measured.push(measure),
            }
        }
    }

    pub(super) fn tick(&mut self) {
        self.step(Input::Tick);
    }

    pub(super) fn is_listing(&self) -> bool {
        self.list.is_some()
    }

    pub(super) fn has_listed(&self) -> bool {
        self.last_epoch.is_some()
    }

    pub(super) fn looking_at(&self) -> Vec<PodUid> {
        self.looks.iter().map(|(pod, _)| pod.clone()).collect()
    }

    pub(super) fn is_looking_at(&self, uid: &str) -> bool {
        self.looks.iter().any(|(pod, _)| pod.as_str() == uid)
    }

    /// Lets time pass until a full list is requested.
    pub(super) fn start_list(&mut self) -> Stamp {
        let longest = self.core.config.longest_period;
        for _ in 0..=longest.as_secs() / 2 {
            if self.list.is_some() {
                break;
            }
            self.pass(Duration::from_secs(2));
            self.tick();
        }
        self.list.expect("a list is due")
    }

    /// Answers the full list in progress.
    pub(super) fn answer_list(&mut self, pods: Vec<RuntimePod>) {
        let asked = self.list.take().expect("a list is under way");
        let in_order = |mut pod: RuntimePod| {
            pod.sort();
            Arc::new(pod)
        };
        let pods = pods.into_iter().map(in_order).collect();
        let listing = Listing { pods, unreadable: self.unreadable, epoch: self.epoch };
        self.step(Input::Listed { asked, answer: Ok(listing) });
    }

    pub(super) fn fail_list(&mut self) {
        let asked = self.start_list();
        self.list = None;
        self.step(Input::Listed { asked, answer: Err(refused("list")) });
    }

    /// Answers the look at a pod.
    pub(super) fn answer_look(&mut self, uid: &str, pod: Option<RuntimePod>) {
        let index =
            self.looks.iter().position(|(looked, _)| looked.as_str() == uid).expect("it is looked at");
        let (looked, asked) = self.looks.remove(index);
        let pods = pod.into_iter().map(Arc::new).collect();
        let listing = Listing { pods, unreadable: self.unreadable, epoch: self.epoch };
        self.step(Input::Looked { pod: looked, asked, answer: Ok(listing) });
    }

    /// Fails the look at a pod, if there is one.
    pub(super) fn fail_look(&mut self, uid: &str) {
        if let Some(index) = self.looks.iter().position(|(pod, _)| pod.as_str() == uid) {
            let (pod, asked) = self.looks.remove(index);
            let answer = Err(refused(pod.as_str()));
            self.step(Input::Looked { pod, asked, answer });
        }
    }

    /// The views that are being inspected.
    pub(super) fn inspecting(&self) -> Vec<RuntimePod> {
        self.inspections.iter().map(|(snapshot, _)| RuntimePod::clone(&snapshot.pod)).collect()
    }

    /// The ticket of an inspection, and when it began.
    pub(super) fn inspection(&self, which: usize) -> (u64, Stamp) {
        let (_, ticket) = self.inspections[which];
        (ticket, self.begun[&ticket])
    }

    /// Answers one inspection: `found` is what is true of the pod now; `None` is an error.
    pub(super) fn answer_inspection(&mut self, which: usize, found: Option<&RuntimePod>) {
        let status = found.map(|found| self.status_of(found));
        self.answer_inspection_by(which, status);
    }

    /// Answers one inspection with this status; `None` is an error.
    pub(super) fn answer_inspection_by(&mut self, which: usize, status: Option<PodStatus>) {
        let (snapshot, ticket) = self.inspections.remove(which);
        let pod = snapshot.pod.pod.uid.clone();
        self.inspected.push(pod.clone());
        let answer = status.ok_or_else(|| refused(pod.as_str()));
        self.step(Input::Inspected { pod, ticket, answer });
    }

    /// Answers the only inspection in progress.
    pub(super) fn answer_inspection_with(&mut self, status: PodStatus) {
        let (snapshot, ticket) = self.inspections.pop().expect("one is under way");
        self.step(Input::Inspected { pod: snapshot.pod.pod.uid.clone(), ticket, answer: Ok(status) });
    }

    /// Answers every inspection that does not hang.
    pub(super) fn answer_inspections(&mut self) {
        loop {
            let hanging = &self.hanging;
            let Some(index) =
                self.inspections.iter().position(|(snapshot, _)| !hanging.contains(&snapshot.pod.pod.uid))
            else {
                return;
            };
            let (snapshot, ticket) = self.inspections.remove(index);
            let pod = snapshot.pod.pod.uid.clone();
            self.inspected.push(pod.clone());
            let answer = if self.failing.contains(&pod) {
                Err(refused(pod.as_str()))
            } else {
                Ok(self.status_of(&snapshot.pod))
            };
            self.step(Input::Inspected { pod, ticket, answer });
        }
    }

    /// What an inspection of this view finds.
    pub(super) fn status_of(&self, pod: &RuntimePod) -> PodStatus {
        let mut status = PodStatus::from(pod);
        status.ips = self.ips.get(&pod.pod.uid).cloned().unwrap_or_default();
        for container in &mut status.containers {
            container.started_at = UnixNanos(2);
            if container.state == Exited {
                container.finished_at = UnixNanos(3);
                let (code, reason) = self.exits.get(container.id.as_str()).copied().unwrap_or((7, "Error"));
                (container.exit_code, container.reason) = (code, reason.into());
            }
        }
        status
    }

    /// Makes one relist that shows `pods`, with everything that follows. Returns what subscribers receive, sorted,
    /// since the order among pods means nothing.
    pub(super) fn relist(&mut self, pods: Vec<RuntimePod>) -> Vec<Told> {
        self.start_list();
        self.answer_list(pods);
        self.answer_inspections();
        self.take_told()
    }

    /// The events that subscribers received since the last call of this.
    pub(super) fn take_told(&mut self) -> Vec<Told> {
        let mut told: Vec<Told> = std::mem::take(&mut self.told)
            .into_iter()
            .filter(|event| event.kind.is_delivered())
            .map(|event| {
                let subject = event.subject.as_ref().map_or("", |subject| subject.id()).to_owned();
                (event.kind, event.pod.uid.as_str().to_owned(), subject)
            })
            .collect();
        told.sort_by(|a, b| (&a.1, &a.2).cmp(&(&b.1, &b.2)));
        told
    }

    /// The pods that were inspected since the last call of this.
    pub(super) fn take_inspected(&mut self) -> Vec<String> {
        let mut pods: Vec<String> =
            std::mem::take(&mut self.inspected).iter().map(|pod| pod.as_str().to_owned()).collect();
        pods.sort();
        pods
    }

    /// Forgets all calls in progress: none of them will be answered.
    pub(super) fn forget_calls(&mut self) {
        self.list = None;
        self.looks.clear();
        self.inspections.clear();
    }

    pub(super) fn cached(&self, uid: &str) -> crate::CachedStatus {
        self.cache.reader().get(&uid.into())
    }
}

pub(super) fn futures_ready<F: Future>(future: F) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(future).poll(&mut context).is_ready()
}

/// What must hold for every single step, whatever the history.
struct Rules {
    input: String,
    commits: Option<PodUid>,
    list_failed: bool,
    reconnected: bool,
    committed: BTreeMap<PodUid, RuntimePod>,
    /// What successful inspections found that was not believed at once.
    withheld: BTreeMap<PodUid, Vec<RuntimePod>>,
}

impl Rules {
    fn before(core: &Core, input: &Input, last_epoch: Option<u64>) -> Self {
        let commits = match input {
            Input::Inspected { pod, answer: Ok(_), .. } => Some(pod.clone()),
            _ => None,
        };
        let reconnected = match input {
            Input::Listed { answer: Ok(listing), .. } | Input::Looked { answer: Ok(listing), .. } => {
                last_epoch.is_some_and(|last| last != listing.epoch)
            }
            _ => false,
        };
        Self {
            input: format!("{input:?}"),
            commits,
            list_failed: matches!(input, Input::Listed { answer: Err(_), .. }),
            reconnected,
            committed: committed(core),
            withheld: withheld(core),
        }
    }

    /// Whether what is committed of a pod was inspected, in this step or in an earlier one that withheld it.
    fn was_inspected(&self, pod: &PodUid, committed: &BTreeMap<PodUid, RuntimePod>) -> bool {
        let mut withheld = self.withheld.get(pod).into_iter().flatten();
        let mut was_withheld = || withheld.any(|found| committed.get(pod) == Some(found));
        self.commits.as_ref() == Some(pod) || was_withheld()
    }

    fn check(&self, core: &Core, effects: &[Effect]) {
        core.records.assert_index_is_true();
        let after = committed(core);
        for (pod, before) in &self.committed {
            let changed = after.get(pod).is_some_and(|now| now != before);
            assert!(
                !changed || self.was_inspected(pod, &after),
                "P4: {pod} was committed without an inspection by {}",
                self.input
            );
        }
        for pod in after.keys().filter(|pod| !self.committed.contains_key(*pod)) {
            assert!(self.was_inspected(pod, &after), "P4: {pod} appeared without an inspection");
        }

        let mut published = BTreeSet::new();
        let mut advanced = false;
        for effect in effects {
            match effect {
                Effect::Publish(News::Store { pod, .. } | News::Forget { pod }) => {
                    assert!(!advanced, "P6: the cache is written after the global time");
                    published.insert(pod.clone());
                }
                Effect::Publish(News::Tell(event)) => {
                    assert!(!advanced, "P6: told after the global time");
                    // Of what lived only in announcements, there is nothing to store.
                    let is_short_life = event.trigger == Trigger::Event && core.is_in_grave(event);
                    assert!(
                        is_short_life || published.contains(&event.pod.uid),
                        "P6: told before the cache knows"
                    );
                    assert!(
                        !self.reconnected || event.kind != EventKind::ContainerRemoved,
                        "P10: one list after a reconnect removed {event:?}"
                    );
                }
                Effect::Publish(News::Advance { .. }) => advanced = true,
                _ => {}
            }
            if self.list_failed {
                assert!(
                    matches!(
                        effect,
                        Effect::Publish(News::Measure(_))
                            | Effect::Ask(Ask::List { .. } | Ask::Look { .. } | Ask::Inspect { .. })
                    ),
                    "P10: a failed list led to {effect:?}"
                );
            }
        }
    }
}

fn committed(core: &Core) -> BTreeMap<PodUid, RuntimePod> {
    let committed = |record: &Record| Some((record.pod.uid.clone(), RuntimePod::clone(record.committed()?)));
    core.records.values().filter_map(committed).collect()
}

fn withheld(core: &Core) -> BTreeMap<PodUid, Vec<RuntimePod>> {
    let withheld = |record: &Record| {
        let found = record.withheld().iter().map(|found| RuntimePod::clone(&found.snapshot.pod));
        (record.pod.uid.clone(), found.collect())
    };
    core.records.values().map(withheld).collect()
}
