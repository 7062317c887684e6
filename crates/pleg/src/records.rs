//! What is known of one pod: the list view that was last committed, and the newest one.
//!
//! The committed view advances only when an inspection of it has succeeded, so a change whose inspection
//! failed is found again next time, against the same old view, and nothing between two good inspections is
//! lost. All of it is plain values; nothing here waits or reads a clock.

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
    /// What the list said.
    pub(crate) pod: Arc<RuntimePod>,
    /// Just before the list was asked for: nothing in it is older.
    pub(crate) asked: Stamp,
    /// Why the list was asked for.
    pub(crate) trigger: Trigger,
}

/// Something in a pod that changed, and what that tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// What changed.
    pub subject: Subject,
    /// What to tell of it, in this order.
    pub kinds: &'static [EventKind],
    /// Whether its start had been told, and not its end.
    pub had_run: bool,
}

/// The newest list view of a pod, relative to the committed one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Latest {
    /// The same as the committed one.
    AsCommitted,
    /// Not the same, or not known to be.
    Listed(Arc<Snapshot>),
    /// The runtime no longer knows the pod, as that look found.
    Gone(Trigger),
}

/// Where the inspection of a pod stands. There is never more than one under way for a pod.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Inspection {
    /// None is wanted.
    Idle,
    /// Waits for its turn.
    Queued { since: Stamp },
    /// Asked, not answered. The answer counts for `snapshot`, whatever has been listed since.
    InFlight { ticket: u64, started: Stamp, snapshot: Arc<Snapshot> },
}

/// That a pod could not be inspected, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Trouble {
    /// Since its first failure.
    pub(crate) since: Stamp,
    pub(crate) failures: u64,
    pub(crate) last_error: ObserveError,
}

/// Whether a pod is inspected once more after it was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Recheck {
    No,
    /// Some time from now.
    Later,
    /// Now.
    Due,
}

/// What an inspection has found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    /// What was inspected, and since when.
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) started: Stamp,
    pub(crate) status: Arc<PodStatus>,
}

/// That ends are not believed which are often wrong at first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Doubt {
    /// From when on all of them are.
    pub(crate) until: Stamp,
    /// From when on each of them is.
    #[serde(default)]
    pub(crate) ends: BTreeMap<ContainerId, Stamp>,
    /// Recordings of earlier versions have here what is withheld.
    #[serde(default, skip_serializing)]
    pub(crate) status: Option<Arc<PodStatus>>,
}

/// Of recordings that do not say it: nothing was asked about then.
fn yes() -> bool {
    true
}

/// Everything about one pod.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pod: PodRef,
    committed: Option<Arc<Snapshot>>,
    /// What had been told of the things that `committed` shows in a state that tells nothing.
    #[serde(with = "crate::pairs")]
    told_before_unknown: BTreeMap<Subject, Told>,
    /// The last successful inspection, that of `committed`. Shared with the cache.
    pub(crate) status: Option<Arc<PodStatus>>,
    /// The inspection, being later than the list, found other states. Then a list that shows the committed view
    /// again does not confirm the status.
    status_is_ahead: bool,
    latest: Latest,
    /// The newest list view of all, and what it counts. Nearly always the next one is the same value.
    counted: Option<(Arc<RuntimePod>, Tally)>,
    /// When the newest list that counted for this pod was asked for.
    pub(crate) listed_at: Stamp,
    /// The first look at it that has not led to a good or bad end yet.
    pub(crate) looked_since: Option<Stamp>,
    /// The full list that named this pod last.
    pub(crate) named_by: u64,
    /// The newest list lacked something that we know, but was no proof that it is gone.
    pub(crate) parts_missing: bool,
    /// An inspection is wanted even if nothing changed, and since when.
    pub(crate) reinspect: Option<Stamp>,
    /// Whether an end that may yet turn out otherwise is looked at once more.
    pub(crate) recheck: Recheck,
    pub(crate) doubt: Option<Box<Doubt>>,
    /// What the last inspections found that are not committed yet, since more may be known in a moment: the last one, and
    /// before it those of which something would not be told without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<Found>,
    /// Containers of whose end not everything may be known yet, and from when on it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) incomplete_ends: BTreeMap<ContainerId, Stamp>,
    /// How containers ended whose end has not been told: the last word of an inspection, also of what has gone since.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) untold_ends: BTreeMap<ContainerId, End>,
    /// Whether the first list of all showed it: what had ended then will not be known any better.
    #[serde(default = "yes")]
    pub(crate) is_from_before: bool,
    /// Of what is gone, and nobody has said how it ended: until when to wait for that.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) awaited_ends: BTreeMap<ContainerId, Stamp>,
    /// Until when to wait for any of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) patience_ends: Option<Stamp>,
    pub(crate) inspection: Inspection,
    pub(crate) trouble: Option<Box<Trouble>>,
    /// When the last inspection that succeeded was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_success: Option<Stamp>,
    /// Whether the cache was told not to vouch for this pod by its global time.
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

    /// The look at it has ended: its inspection has, or there was none to make.
    pub(crate) fn end_look(&mut self, now: Stamp) -> Option<Effect> {
        let since = self.looked_since.take()?;
        Some(Effect::Publish(News::Measure(Measure::Look(since.until(now)))))
    }

    /// What a list view of this pod counts.
    pub(crate) fn tally(&mut self, pod: &Arc<RuntimePod>) -> Tally {
        match &self.counted {
            Some((counted, tally)) if Arc::ptr_eq(counted, pod) => *tally,
            _ => self.counted.insert((pod.clone(), Tally::of(pod))).1,
        }
    }

    /// Whether nothing is wanted or under way: the next list needs to be compared with the committed one only.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.latest, Latest::AsCommitted)
            && matches!(self.inspection, Inspection::Idle)
            && !self.wants_inspection()
            && !self.held
    }

    /// Whether nothing of it has to be asked for again.
    pub(crate) fn is_calm(&self) -> bool {
        self.trouble.is_none() && !self.parts_missing
    }

    /// Whether it must be inspected even if it did not change.
    pub(crate) fn wants_inspection(&self) -> bool {
        self.reinspect.is_some() || self.recheck == Recheck::Due
    }

    /// How far something has come in its life, as the committed view shows it.
    pub(crate) fn committed_step(&self, id: &str) -> Option<LifeStep> {
        step_in(self.committed()?, id)
    }

    /// Whether the end of a container has been told.
    pub(crate) fn has_told_end(&self, id: &ContainerId) -> bool {
        let mut committed = self.committed().into_iter().flat_map(|committed| entries(committed));
        let entry = committed.find(|entry| entry.key() == (false, id.as_str()));
        entry.is_some_and(|entry| known(entry, &self.told_before_unknown).told() == Told::Died)
    }

    /// What is withheld, from the oldest to the newest.
    pub(crate) fn withheld(&self) -> &[Found] {
        &self.withheld
    }

    /// Waits with what was found.
    pub(crate) fn withhold(&mut self, found: Found) {
        self.withheld = self.take_withheld_before(Some(&found.snapshot.pod));
        self.withheld.push(found);
    }

    /// Withholds nothing any more: what must be committed before `next` (`None`: the pod is gone), so that everything is told
    /// that an inspection has shown, however soon somebody looked again.
    pub(crate) fn take_withheld_before(&mut self, next: Option<&RuntimePod>) -> Vec<Found> {
        let withheld = std::mem::take(&mut self.withheld);
        withheld.into_iter().filter(|found| self.alone_tells_something(found, next)).collect()
    }

    /// The newest of what is withheld, and no longer.
    pub(crate) fn take_newest_withheld(&mut self) -> Option<Found> {
        self.withheld.pop()
    }

    /// Whether less would be told if `next` was committed without it.
    fn alone_tells_something(&self, found: &Found, next: Option<&RuntimePod>) -> bool {
        let known = self.known();
        let next: HashMap<EntryKey<'_>, Seen> =
            next.into_iter().flat_map(entries).map(|entry| (entry.key(), entry.seen)).collect();
        entries(&found.snapshot.pod).any(|entry| {
            let key = entry.key();
            diff::is_told_by(entry.seen, known.get(&key).copied(), next.get(&key).copied())
        })
    }

    /// How far something has come in its life, as the newest view shows it.
    pub(crate) fn newest_step(&self, id: &str) -> Option<LifeStep> {
        step_in(self.newest_view()?, id)
    }

    /// Whether something is in a view that is committed, or that may yet be.
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

    /// The committed list view, to be inspected again.
    pub(crate) fn committed_snapshot(&self) -> Option<Arc<Snapshot>> {
        self.committed.clone()
    }

    /// Whether a list filtered by UID finds all of this pod, as far as we know.
    pub(crate) fn is_selectable(&self) -> bool {
        let seen_last = self.newest_view().or_else(|| self.committed().map(Arc::as_ref));
        seen_last.is_some_and(|pod| pod.selectable)
    }

    /// Whether `pod` shows the same things in the same states as the committed view, and as its status.
    pub(crate) fn confirms_committed(&self, pod: &Arc<RuntimePod>) -> bool {
        !self.status_is_ahead
            && self
                .committed()
                .is_some_and(|committed| Arc::ptr_eq(committed, pod) || shows_the_same(committed, pod))
    }

    /// What it would tell to commit `new` (`None`: the pod is gone) over the committed view. In the order of the
    /// kubelet: containers, then sandboxes of the old view, then what is new in the new one.
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
            // What was withheld is older than what was listed since, which is not what is committed now.
            (Latest::AsCommitted, Some(committed)) if *committed != snapshot => {
                self.latest = Latest::Listed(committed.clone());
            }
            (Latest::Listed(_) | Latest::AsCommitted | Latest::Gone(_), _) => {}
        }
        // What it shows as ended, or no more, is told with it. Of others nothing has been told.
        let before = self.committed.take();
        let was_known = |id: &str| before.as_ref().is_some_and(|before| step_in(&before.pod, id).is_some());
        self.untold_ends.retain(|id, _| match step_in(&snapshot.pod, id.as_str()) {
            Some(step) => step < LifeStep::Stopped,
            None => !was_known(id.as_str()),
        });
        self.committed = Some(snapshot);
    }

    /// What has been told of everything that the committed view shows.
    fn known(&self) -> HashMap<EntryKey<'_>, Known> {
        let committed = self.committed().map(Arc::as_ref);
        let entries = committed.into_iter().flat_map(entries);
        entries.map(|entry| (entry.key(), known(entry, &self.told_before_unknown))).collect()
    }

    /// The addresses to keep with a new status: its own, or those known before, when none of its sandboxes is
    /// ready to have one.
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

    /// The newest view is the committed one, if it shows the same.
    pub(crate) fn settle_latest(&mut self) {
        if let Latest::Listed(snapshot) = &self.latest
            && self.confirms_committed(&snapshot.pod)
        {
            self.latest = Latest::AsCommitted;
        }
    }

    /// Everything that the committed or the newest view shows, by its id.
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

    /// The newest view of the pod, committed or not; nothing if it is gone or new.
    pub(crate) fn newest_view(&self) -> Option<&RuntimePod> {
        match &self.latest {
            Latest::Listed(snapshot) => Some(&snapshot.pod),
            Latest::AsCommitted => self.committed().map(Arc::as_ref),
            Latest::Gone(_) => None,
        }
    }

    /// What `listed` would be if everything that the view before it showed were still there. Returns nothing if
    /// nothing is missing.
    pub(crate) fn with_missing(&self, listed: &RuntimePod) -> Option<RuntimePod> {
        let before = self.newest_view()?;
        let mut whole = listed.clone();
        // What is missing may be what no filter finds.
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

/// Whether it is a sandbox, and its id: containers and sandboxes have ids of their own, so the same text may name one of
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

/// Whether a status shows the things of a view in the states of the view.
fn agrees(pod: &RuntimePod, status: &PodStatus) -> bool {
    pod.containers
        .iter()
        .all(|listed| status.container(&listed.id).is_some_and(|inspected| inspected.state == listed.state))
        && pod
            .sandboxes
            .iter()
            .all(|listed| status.sandbox(&listed.id).is_some_and(|inspected| inspected.state == listed.state))
}

/// Whether two sorted views show the same things in the same states. Cheap, since it decides for every pod of
/// every relist. It is stricter than the table of events: `created` and `unknown` tell the same, but a cached
/// status must not say one when the other is true.
fn shows_the_same(a: &RuntimePod, b: &RuntimePod) -> bool {
    a.containers.len() == b.containers.len()
        && a.sandboxes.len() == b.sandboxes.len()
        && a.containers.iter().zip(&b.containers).all(|(a, b)| a.state == b.state && a.id == b.id)
        && a.sandboxes.iter().zip(&b.sandboxes).all(|(a, b)| a.state == b.state && a.id == b.id)
}
