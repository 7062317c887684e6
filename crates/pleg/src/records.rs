//! What is known about each pod: mainly the list view that was committed last, and the newest one.
//!
//! The committed view advances only when an inspection of the new view has succeeded. So a change whose inspection
//! failed is found again next time, against the same old view, and nothing between two successful inspections is lost.
//! All of this is plain values; nothing here waits or reads a clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rubelet_model::{ContainerId, PodRef, PodStatus, RuntimePod, SandboxState};
use serde::{Deserialize, Serialize};

use crate::announce::LifeStep;
use crate::clock::Stamp;
use crate::core::{Effect, Measure, News, Tally};
use crate::diff::{self, Known, Seen, Told};
use crate::event::{End, EventKind, Subject, Trigger};
use crate::observe::ObserveError;

mod register;

pub(crate) use register::Register;

/// One pod in one list.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// What the list showed.
    pub(crate) pod: Arc<RuntimePod>,
    /// When the list was requested: nothing in it was read before.
    pub(crate) asked: Stamp,
    /// Why the list was requested.
    pub(crate) trigger: Trigger,
}

/// Something in a pod that changed, and the events that follow from it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// What changed.
    pub subject: Subject,
    /// The events, in this order.
    pub kinds: &'static [EventKind],
    /// Whether its start had been reported, and its end had not.
    pub had_run: bool,
}

/// The newest list view of a pod, relative to the committed one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Latest {
    /// The same as the committed one.
    AsCommitted,
    /// Different from the committed one, or not known to be the same.
    Listed(Arc<Snapshot>),
    /// The runtime no longer knows the pod, according to a list or look with this trigger.
    Gone(Trigger),
}

/// The state of a pod's inspection. There is never more than one in progress for a pod.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Inspection {
    /// None is wanted.
    Idle,
    /// Waiting for its turn.
    Queued { since: Stamp },
    /// In progress. The answer is about `snapshot`, whatever has been listed since.
    InFlight { ticket: u64, started: Stamp, snapshot: Arc<Snapshot> },
}

/// How the inspections of a pod have been failing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Trouble {
    /// When the first of the failed inspections began.
    pub(crate) since: Stamp,
    pub(crate) failures: u64,
    pub(crate) last_error: ObserveError,
}

/// Whether a pod is inspected once more after it was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Recheck {
    No,
    /// At some later time.
    Later,
    /// Now.
    Due,
}

/// The result of an inspection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    /// What was inspected. The inspection began at `started`.
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) started: Stamp,
    pub(crate) status: Arc<PodStatus>,
}

/// Made-up ends that are not believed yet; see the module `doubt`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Doubt {
    /// From when on all of them are believed.
    pub(crate) until: Stamp,
    /// From when on each of them is believed.
    #[serde(default)]
    pub(crate) ends: BTreeMap<ContainerId, Stamp>,
    /// What is withheld, in recordings of earlier versions.
    #[serde(default, skip_serializing)]
    pub(crate) status: Option<Arc<PodStatus>>,
}

/// The default for recordings that lack the field: the versions that made them did not doubt ends in the first status
/// of a pod.
fn yes() -> bool {
    true
}

/// Everything that is known about one pod.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pod: PodRef,
    committed: Option<Arc<Snapshot>>,
    /// The last reports about those things that `committed` shows in a state that is not reported.
    #[serde(with = "crate::pairs")]
    told_before_unknown: BTreeMap<Subject, Told>,
    /// The status from the last successful inspection, that of `committed`. Shared with the cache.
    pub(crate) status: Option<Arc<PodStatus>>,
    /// Whether the inspection, being later than the list, found other states than the list. If so, a list that shows
    /// the committed view again does not confirm the status.
    status_is_ahead: bool,
    latest: Latest,
    /// The newest list view of all, and its counts. The next one is nearly always the same value.
    counted: Option<(Arc<RuntimePod>, Tally)>,
    /// When the newest list that counted for this pod was requested.
    pub(crate) listed_at: Stamp,
    /// When the first look was requested that has not led to the end of an inspection yet, successful or not.
    pub(crate) looked_since: Option<Stamp>,
    /// The number of the last full list that named this pod.
    pub(crate) named_by: u64,
    /// Whether the newest list lacked something that is known, without proving that it is gone.
    pub(crate) parts_missing: bool,
    /// When a reinspection was asked for, which is due even if nothing has changed.
    pub(crate) reinspect: Option<Stamp>,
    /// Whether an end that may yet turn out otherwise is looked at once more.
    pub(crate) recheck: Recheck,
    pub(crate) doubt: Option<Box<Doubt>>,
    /// What inspections found that is not committed yet, since more may be known in a moment: the last result, and
    /// before it those without which something would not be reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<Found>,
    /// Containers whose end may not be fully known yet, and from when on it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) incomplete_ends: BTreeMap<ContainerId, Stamp>,
    /// How containers ended whose end has not been reported: the latest result of an inspection, even if they have gone
    /// since.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) untold_ends: BTreeMap<ContainerId, End>,
    /// Whether the first full list showed the pod. What had ended by then will not become better known.
    #[serde(default = "yes")]
    pub(crate) is_from_before: bool,
    /// The containers that are gone without a report of how they ended, and until when to wait for one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) awaited_ends: BTreeMap<ContainerId, Stamp>,
    /// Until when to wait for any of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) patience_ends: Option<Stamp>,
    pub(crate) inspection: Inspection,
    pub(crate) trouble: Option<Box<Trouble>>,
    /// When the last successful inspection began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_success: Option<Stamp>,
    /// Whether the pod is held: the global time of the cache does not vouch for it.
    pub(crate) held: bool,
}

impl Record {
    fn new(pod: PodRef, is_from_before: bool) -> Self {
        Self {
            pod,
            committed: None,
            told_before_unknown: BTreeMap::new(),
            status: None,
            status_is_ahead: false,
            latest: Latest::AsCommitted,
            counted: None,
            listed_at: Stamp::ZERO,
            looked_since: None,
            named_by: 0,
            parts_missing: false,
            reinspect: None,
            recheck: Recheck::No,
            doubt: None,
            withheld: Vec::new(),
            incomplete_ends: BTreeMap::new(),
            untold_ends: BTreeMap::new(),
            is_from_before,
            awaited_ends: BTreeMap::new(),
            patience_ends: None,
            inspection: Inspection::Idle,
            trouble: None,
            last_success: None,
            held: false,
        }
    }

    /// Ends the look at the pod, since its inspection has ended or there was none to make.
    pub(crate) fn end_look(&mut self, now: Stamp) -> Option<Effect> {
        let since = self.looked_since.take()?;
        Some(Effect::Publish(News::Measure(Measure::Look(since.until(now)))))
    }

    /// The counts of a list view of this pod.
    pub(crate) fn tally(&mut self, pod: &Arc<RuntimePod>) -> Tally {
        match &self.counted {
            Some((counted, tally)) if Arc::ptr_eq(counted, pod) => *tally,
            _ => self.counted.insert((pod.clone(), Tally::of(pod))).1,
        }
    }

    /// Whether nothing is wanted or in progress, so that the next list only has to be compared with the committed view.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.latest, Latest::AsCommitted)
            && matches!(self.inspection, Inspection::Idle)
            && !self.wants_inspection()
            && !self.held
    }

    /// Whether nothing about it has to be asked again.
    pub(crate) fn is_calm(&self) -> bool {
        self.trouble.is_none() && !self.parts_missing
    }

    /// Whether it must be inspected even if it has not changed.
    pub(crate) fn wants_inspection(&self) -> bool {
        self.reinspect.is_some() || self.recheck == Recheck::Due
    }

    /// How far something has come in its life, according to the committed view.
    pub(crate) fn committed_step(&self, id: &str) -> Option<LifeStep> {
        step_in(self.committed()?, id)
    }

    /// Whether the end of a container has been reported.
    pub(crate) fn has_told_end(&self, id: &ContainerId) -> bool {
        let mut committed = self.committed().into_iter().flat_map(|committed| entries(committed));
        let entry = committed.find(|entry| entry.key() == (false, id.as_str()));
        entry.is_some_and(|entry| known(entry, &self.told_before_unknown).told() == Told::Died)
    }

    /// The withheld findings, from the oldest to the newest.
    pub(crate) fn withheld(&self) -> &[Found] {
        &self.withheld
    }

    /// Withholds a finding.
    pub(crate) fn withhold(&mut self, found: Found) {
        self.withheld = self.take_withheld_before(Some(&found.snapshot.pod));
        self.withheld.push(found);
    }

    /// Stops withholding, and returns the findings that must be committed before `next` (`None`: the pod is gone), so
    /// that everything an inspection has shown is reported, however soon somebody looked again.
    pub(crate) fn take_withheld_before(&mut self, next: Option<&RuntimePod>) -> Vec<Found> {
        let withheld = std::mem::take(&mut self.withheld);
        withheld.into_iter().filter(|found| self.alone_tells_something(found, next)).collect()
    }

    /// Takes the newest of the withheld findings.
    pub(crate) fn take_newest_withheld(&mut self) -> Option<Found> {
        self.withheld.pop()
    }

    /// Whether less would be reported if `next` were committed without this finding.
    fn alone_tells_something(&self, found: &Found, next: Option<&RuntimePod>) -> bool {
        let known = self.known();
        let next: HashMap<EntryKey<'_>, Seen> =
            next.into_iter().flat_map(entries).map(|entry| (entry.key(), entry.seen)).collect();
        entries(&found.snapshot.pod).any(|entry| {
            let key = entry.key();
            diff::is_told_by(entry.seen, known.get(&key).copied(), next.get(&key).copied())
        })
    }

    /// How far something has come in its life, according to the newest view.
    pub(crate) fn newest_step(&self, id: &str) -> Option<LifeStep> {
        step_in(self.newest_view()?, id)
    }

    /// Whether something is in a view that is committed or may yet be.
    pub(crate) fn holds(&self, id: &str) -> bool {
        let in_flight = match &self.inspection {
            Inspection::InFlight { snapshot, .. } => step_in(&snapshot.pod, id),
            Inspection::Queued { .. } | Inspection::Idle => None,
        };
        let will_be_committed = |found: &&Found| self.alone_tells_something(found, self.newest_view());
        let mut withheld = self.withheld.iter().filter(will_be_committed);
        in_flight.is_some()
            || self.committed_step(id).is_some()
            || withheld.any(|found| step_in(&found.snapshot.pod, id).is_some())
    }

    /// The committed list view, if there is one.
    pub(crate) fn committed(&self) -> Option<&Arc<RuntimePod>> {
        self.committed.as_deref().map(|snapshot| &snapshot.pod)
    }

    /// The committed list view, for another inspection.
    pub(crate) fn committed_snapshot(&self) -> Option<Arc<Snapshot>> {
        self.committed.clone()
    }

    /// Whether a list filtered by UID finds all of this pod, as far as is known.
    pub(crate) fn is_selectable(&self) -> bool {
        let seen_last = self.newest_view().or_else(|| self.committed().map(Arc::as_ref));
        seen_last.is_some_and(|pod| pod.selectable)
    }

    /// Whether `pod` shows the same things in the same states as both the committed view and its status.
    pub(crate) fn confirms_committed(&self, pod: &Arc<RuntimePod>) -> bool {
        !self.status_is_ahead
            && self
                .committed()
                .is_some_and(|committed| Arc::ptr_eq(committed, pod) || shows_the_same(committed, pod))
    }

    /// The changes that committing `new` (`None`: the pod is gone) over the committed view would report. They are in
    /// the kubelet's order: the containers of the old view, then its sandboxes, then what is new in the new view.
    pub(crate) fn changes(&self, new: Option<&RuntimePod>) -> Vec<Change> {
        let old = self.committed().map(Arc::as_ref);
        if let (Some(old), Some(new)) = (old, new)
            && shows_the_same(old, new)
        {
            return Vec::new();
        }
        let seen_now: HashMap<EntryKey<'_>, Seen> =
            new.into_iter().flat_map(entries).map(|entry| (entry.key(), entry.seen)).collect();
        let known_before = self.known();

        let of_old = old.into_iter().flat_map(entries).map(|entry| {
            (
                entry,
                diff::events(known_before.get(&entry.key()).copied(), seen_now.get(&entry.key()).copied()),
            )
        });
        let of_new = new
            .into_iter()
            .flat_map(entries)
            .filter(|entry| !known_before.contains_key(&entry.key()))
            .map(|entry| (entry, diff::events(None, Some(entry.seen))));
        of_old
            .chain(of_new)
            .filter(|(_, kinds)| !kinds.is_empty())
            .map(|(entry, kinds)| Change {
                subject: entry.subject(),
                kinds,
                had_run: known_before.get(&entry.key()).is_some_and(|known| known.told() == Told::Started),
            })
            .collect()
    }

    /// Makes `snapshot` the committed view, with the status that was found for it.
    fn commit(&mut self, snapshot: Arc<Snapshot>, status: Arc<PodStatus>) {
        self.status_is_ahead = !agrees(&snapshot.pod, &status);
        self.status = Some(status);
        let old = self.known();
        let told = entries(&snapshot.pod)
            .filter(|entry| entry.seen == Seen::Unknown)
            .map(|entry| (entry.subject(), diff::commit(old.get(&entry.key()).copied(), entry.seen).told()))
            .filter(|(_, told)| *told != Told::Nothing)
            .collect();
        drop(old);
        self.told_before_unknown = told;
        self.pod = snapshot.pod.pod.clone();
        match (&self.latest, &self.committed) {
            (Latest::Listed(latest), _) if *latest == snapshot => self.latest = Latest::AsCommitted,
            // What was withheld is older than the newest view, which was the committed one until now.
            (Latest::AsCommitted, Some(committed)) if *committed != snapshot => {
                self.latest = Latest::Listed(committed.clone());
            }
            (Latest::Listed(_) | Latest::AsCommitted | Latest::Gone(_), _) => {}
        }
        // The ends of what it shows as ended, or no longer shows, are reported with this commit. The others are still
        // to be reported.
        let before = self.committed.take();
        let was_known = |id: &str| before.as_ref().is_some_and(|before| step_in(&before.pod, id).is_some());
        self.untold_ends.retain(|id, _| match step_in(&snapshot.pod, id.as_str()) {
            Some(step) => step < LifeStep::Stopped,
            None => !was_known(id.as_str()),
        });
        self.committed = Some(snapshot);
    }

    /// What has been reported about everything in the committed view.
    fn known(&self) -> HashMap<EntryKey<'_>, Known> {
        let committed = self.committed().map(Arc::as_ref);
        let entries = committed.into_iter().flat_map(entries);
        entries.map(|entry| (entry.key(), known(entry, &self.told_before_unknown))).collect()
    }

    /// Keeps the last known addresses if the new status has none, and none of its sandboxes is ready to have one.
    pub(crate) fn keep_addresses(&self, status: &mut PodStatus) {
        if !status.ips.is_empty() {
            return;
        }
        if status.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready) {
            return;
        }
        if let Some(before) = &self.status {
            status.ips.clone_from(&before.ips);
        }
    }

    /// The newest list view, relative to the committed one.
    pub(crate) fn latest(&self) -> &Latest {
        &self.latest
    }

    /// Marks the newest view as committed if it shows the same.
    pub(crate) fn settle_latest(&mut self) {
        if let Latest::Listed(snapshot) = &self.latest
            && self.confirms_committed(&snapshot.pod)
        {
            self.latest = Latest::AsCommitted;
        }
    }

    /// The ids of everything that the committed or the newest view shows.
    fn ids(&self) -> impl Iterator<Item = Arc<str>> {
        let newest = match &self.latest {
            Latest::Listed(snapshot) => Some(&snapshot.pod),
            Latest::AsCommitted | Latest::Gone(_) => None,
        };
        let views = self.committed().into_iter().chain(newest);
        views.flat_map(|pod| {
            let containers = pod.containers.iter().map(|container| container.id.clone().into());
            containers.chain(pod.sandboxes.iter().map(|sandbox| sandbox.id.clone().into()))
        })
    }

    /// The newest view of the pod, committed or not; `None` if the pod is gone, or new and not listed yet.
    pub(crate) fn newest_view(&self) -> Option<&RuntimePod> {
        match &self.latest {
            Latest::Listed(snapshot) => Some(&snapshot.pod),
            Latest::AsCommitted => self.committed().map(Arc::as_ref),
            Latest::Gone(_) => None,
        }
    }

    /// `listed` with everything added that the view before it showed and that is missing; `None` if nothing is missing.
    pub(crate) fn with_missing(&self, listed: &RuntimePod) -> Option<RuntimePod> {
        let before = self.newest_view()?;
        let mut whole = listed.clone();
        // What is missing may be something that no filter finds.
        whole.selectable &= before.selectable;
        for sandbox in &before.sandboxes {
            if !whole.sandboxes.iter().any(|there| there.id == sandbox.id) {
                whole.sandboxes.push(sandbox.clone());
            }
        }
        for container in &before.containers {
            if !whole.containers.iter().any(|there| there.id == container.id) {
                whole.containers.push(container.clone());
            }
        }
        whole.sort();
        let grew = whole.sandboxes.len() > listed.sandboxes.len()
            || whole.containers.len() > listed.containers.len();
        grew.then_some(whole)
    }
}

/// A container or sandbox in a list view.
#[derive(Clone, Copy)]
struct Entry<'a> {
    seen: Seen,
    of: EntryOf<'a>,
}

#[derive(Clone, Copy)]
enum EntryOf<'a> {
    Container(&'a rubelet_model::ListedContainer),
    Sandbox(&'a rubelet_model::ListedSandbox),
}

/// Whether it is a sandbox, and its id. Containers and sandboxes have separate ids, so the same text may name one of
/// each.
type EntryKey<'a> = (bool, &'a str);

impl<'a> Entry<'a> {
    fn key(self) -> EntryKey<'a> {
        match self.of {
            EntryOf::Container(container) => (false, container.id.as_str()),
            EntryOf::Sandbox(sandbox) => (true, sandbox.id.as_str()),
        }
    }

    fn subject(self) -> Subject {
        match self.of {
            EntryOf::Container(container) => Subject::Container {
                id: container.id.clone(),
                name: container.name.clone(),
                attempt: container.attempt,
            },
            EntryOf::Sandbox(sandbox) => {
                Subject::Sandbox { id: sandbox.id.clone(), attempt: sandbox.attempt }
            }
        }
    }
}

fn entries(pod: &RuntimePod) -> impl Iterator<Item = Entry<'_>> {
    let containers = pod
        .containers
        .iter()
        .map(|container| Entry { seen: container.state.into(), of: EntryOf::Container(container) });
    let sandboxes = pod
        .sandboxes
        .iter()
        .map(|sandbox| Entry { seen: sandbox.state.into(), of: EntryOf::Sandbox(sandbox) });
    containers.chain(sandboxes)
}

/// How far something in `pod` has come in its life.
fn step_in(pod: &RuntimePod, id: &str) -> Option<LifeStep> {
    steps_in(pod).find(|(entry, _)| *entry == id).map(|(_, step)| step)
}

/// How far everything in a view has come in its life.
pub(crate) fn steps_in(pod: &RuntimePod) -> impl Iterator<Item = (&str, LifeStep)> {
    entries(pod).map(|entry| {
        let step = match entry.seen {
            Seen::Unknown => LifeStep::Created,
            Seen::Running => LifeStep::Started,
            Seen::Exited => LifeStep::Stopped,
        };
        (entry.key().1, step)
    })
}

fn known(entry: Entry<'_>, told_before_unknown: &BTreeMap<Subject, Told>) -> Known {
    match entry.seen {
        Seen::Running => Known::Running,
        Seen::Exited => Known::Exited,
        Seen::Unknown if told_before_unknown.is_empty() => Known::Unknown(Told::Nothing),
        Seen::Unknown => {
            Known::Unknown(told_before_unknown.get(&entry.subject()).copied().unwrap_or(Told::Nothing))
        }
    }
}

/// Whether a status shows the things of a view in the same states.
fn agrees(pod: &RuntimePod, status: &PodStatus) -> bool {
    pod.containers
        .iter()
        .all(|listed| status.container(&listed.id).is_some_and(|inspected| inspected.state == listed.state))
        && pod
            .sandboxes
            .iter()
            .all(|listed| status.sandbox(&listed.id).is_some_and(|inspected| inspected.state == listed.state))
}

/// Whether two sorted views show the same things in the same states. This must be cheap, since it decides for every pod
/// in every relist. It is stricter than the table of events: `created` and `unknown` yield the same events, but a
/// cached status must not say one while the other is true.
fn shows_the_same(a: &RuntimePod, b: &RuntimePod) -> bool {
    a.containers.len() == b.containers.len()
        && a.sandboxes.len() == b.sandboxes.len()
        && a.containers.iter().zip(&b.containers).all(|(a, b)| a.state == b.state && a.id == b.id)
        && a.sandboxes.iter().zip(&b.sandboxes).all(|(a, b)| a.state == b.state && a.id == b.id)
}
