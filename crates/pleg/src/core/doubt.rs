//! Ends of containers that are often wrong or unknown at first.
//!
//! - *Made up*: some runtimes report exit code 255 or -1 for a container whose end they have not seen, and know better
//!   a moment later. Such an end is not reported before a *second look*, another inspection, has confirmed it.
//! - *Incomplete*: some runtimes report that a container was killed (137), and add a moment later, without another
//!   event, that the kernel killed it because memory ran out. Most killed containers were simply killed, and somebody
//!   may be waiting to restart them, so such an end is reported at once, and corrected if necessary.
//! - *Silent*: a container that is removed right after it ended may be missed by every look, and its end may be
//!   announced a moment after it was found to be gone. These *last words* are awaited for a moment, for a single
//!   container as for a whole pod.
//!
//! While a made-up end is doubted, or last words are awaited, what an inspection has found is *withheld*: neither
//! committed nor reported.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus, PodUid, RuntimePod};

use super::Core;
use crate::clock::{Now, Stamp};
use crate::core::Effect;
use crate::event::{End, Exit};
use crate::records::{Doubt, Recheck, Record};

/// How long a made-up end is not believed.
const BELIEVED_AFTER: Duration = Duration::from_millis(500);
/// How long none of a pod's made-up ends is believed at most, if they come one after the other.
const ALL_BELIEVED_AFTER: Duration = Duration::from_secs(2);
/// How long to wait for the next inspection after a doubt or a wait for last words is over. After that, what was found
/// is final: a pod that cannot be inspected any more has ended all the same.
const ANSWERED_BY: Duration = Duration::from_secs(1);
/// How long to wait for the last words of a container whose end no inspection has shown.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long to wait for last words at most, if containers go one after the other.
const PATIENCE: Duration = Duration::from_secs(1);
/// When to look again at an end that may be incomplete.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// The exit code of a process that was killed by SIGKILL.
const KILLED: i32 = 137;
/// The exit codes that runtimes report when they do not know the real one.
const MADE_UP: [i32; 2] = [255, -1];

/// The better of two reports of how something ended: the first, unless it is made up or incomplete and the other is
/// not.
pub(super) fn better_end(first: Option<End>, other: Option<End>) -> Option<End> {
    let is_made_up = |end: &End| MADE_UP.contains(&end.0.code);
    let is_incomplete = |end: &End| end.0.code == KILLED && !end.0.oom_killed;
    match (first, other) {
        (Some(first), Some(other)) => {
            let is_better =
                (is_made_up(&first) && !is_made_up(&other)) || (is_incomplete(&first) && other.0.oom_killed);
            Some(if is_better { other } else { first })
        }
        (first, other) => first.or(other),
    }
}

/// How a container ended, and when.
pub(super) fn end(container: &ContainerStatus) -> End {
    let exit = Exit {
        code: container.exit_code,
        reason: container.reason.clone(),
        oom_killed: container.is_oom_killed(),
    };
    (exit, Some(container.finished_at).filter(|at| at.is_set()))
}

impl Doubt {
    /// Whether an inspection that began at `started` is too early to be a second look at this end.
    fn doubts(&self, id: &ContainerId, started: Stamp) -> bool {
        started < self.until && self.ends.get(id).is_none_or(|until| started < *until)
    }

    /// From when on all ends that are doubted now are believed.
    fn is_over_at(&self) -> Stamp {
        self.ends.values().max().copied().unwrap_or(self.until)
    }
}

impl Record {
    /// The containers that have ended since the last status.
    fn new_ends<'a>(&'a self, status: &'a PodStatus) -> impl Iterator<Item = &'a ContainerStatus> {
        status.containers.iter().filter(|container| {
            let before = self.status.as_ref().and_then(|before| before.container(&container.id));
            container.state == ContainerState::Exited
                && before.is_none_or(|before| before.state != ContainerState::Exited)
        })
    }

    /// Whether ends may become better known than a status shows them. Those from before the first list will not.
    fn may_be_corrected(&self) -> bool {
        self.status.is_some() || !self.is_from_before
    }

    /// The containers that have ended since the last status, with an exit code that may be made up.
    fn made_up_ends<'a>(&'a self, status: &'a PodStatus) -> impl Iterator<Item = &'a ContainerId> {
        self.new_ends(status)
            .filter(|container| MADE_UP.contains(&container.exit_code))
            .map(|container| &container.id)
    }

    /// Whether an inspection that began at `started` shows an end that must not be reported yet.
    pub(super) fn is_doubtful(&self, status: &PodStatus, started: Stamp) -> bool {
        let is_doubted = |id| self.doubt.as_ref().is_none_or(|doubt| doubt.doubts(id, started));
        self.may_be_corrected() && self.made_up_ends(status).any(is_doubted)
    }

    /// The containers that have ended since the committed view, or since what is withheld, and whose end no inspection
    /// has shown, because they were gone when somebody looked or inspected. `new` is what is left of the pod, if
    /// anything is.
    fn silent_ends<'a>(&'a self, new: Option<&'a RuntimePod>) -> impl Iterator<Item = &'a ContainerId> {
        let is_listed = move |id: &ContainerId| {
            new.is_some_and(|new| new.containers.iter().any(|container| container.id == *id))
        };
        let withheld = self.withheld().iter().map(|found| &found.snapshot.pod);
        let known = self.committed().into_iter().chain(withheld).flat_map(|view| &view.containers);
        let gone = known.filter(move |container| !is_listed(&container.id));
        let listed = new.into_iter().flat_map(|new| &new.containers);
        let ended = listed.filter(|container| container.state == ContainerState::Exited);
        gone.chain(ended)
            .map(|container| &container.id)
            .filter(move |id| !self.has_told_end(id) && !self.untold_ends.contains_key(*id))
    }

    /// Stops waiting for last words, since the pod is as it was committed and so nothing has ended. Containers that end
    /// later are waited for from the start. If something is withheld, the wait continues, so that it does not start
    /// over.
    pub(super) fn forget_awaited(&mut self) {
        if self.withheld().is_empty() {
            self.awaited_ends.clear();
            self.patience_ends = None;
        }
    }

    /// Until when to wait for last words, if any are awaited.
    fn last_words_by(&self) -> Option<Stamp> {
        let last = self.awaited_ends.values().max().copied()?;
        Some(self.patience_ends.map_or(last, |patience| last.min(patience)))
    }

    /// From when on what is withheld is final, whatever becomes of the next inspection.
    fn is_last_word_at(&self) -> Option<Stamp> {
        let doubted = self.doubt.as_ref().map(|doubt| doubt.is_over_at());
        doubted.max(self.last_words_by()).map(|over| over.plus(ANSWERED_BY))
    }

    /// Remembers how containers ended until that has been reported, whatever becomes of this inspection. The latest
    /// inspection counts.
    pub(super) fn note_ends(&mut self, status: &PodStatus) {
        for container in &status.containers {
            match container.state {
                ContainerState::Exited if !self.has_told_end(&container.id) => {
                    self.untold_ends.insert(container.id.clone(), end(container));
                }
                // A container that is running has not ended, whatever was reported before.
                ContainerState::Running => {
                    self.untold_ends.remove(&container.id);
                }
                ContainerState::Exited | ContainerState::Created | ContainerState::Unknown => {}
            }
        }
    }

    /// Collects the ends that have yet to be reported, for recordings of earlier versions, which have them only in the
    /// statuses that show them.
    pub(crate) fn restore_ends(&mut self) {
        let later = std::mem::take(&mut self.untold_ends);
        let doubted = self.doubt.as_ref().and_then(|doubt| doubt.status.clone());
        let withheld: Vec<_> = self.withheld().iter().map(|found| found.status.clone()).collect();
        for status in [self.status.clone(), doubted].into_iter().flatten().chain(withheld) {
            self.note_ends(&status);
        }
        self.untold_ends.extend(later);
    }

    /// The containers whose incomplete or made-up end has been reported, and about which `status` says something new.
    pub(super) fn corrected_by(&self, status: &PodStatus) -> Vec<ContainerId> {
        let is_corrected = |id: &&ContainerId| {
            let before = self.status.as_ref().and_then(|before| before.container(id));
            status.container(id).is_some_and(|now| before != Some(now))
        };
        self.incomplete_ends.keys().filter(is_corrected).cloned().collect()
    }

    /// Keeps track of the ends that may turn out otherwise: adds those that `status` shows first, and drops those that
    /// it shows at their second look. An inspection that began too early is no second look. Returns when to look again
    /// at what was added.
    pub(super) fn note_incomplete_ends(
        &mut self,
        status: &PodStatus,
        started: Stamp,
        now: Stamp,
    ) -> Option<Stamp> {
        let is_incomplete = |container: &ContainerStatus| {
            container.state == ContainerState::Exited
                && container.exit_code == KILLED
                && !container.is_oom_killed()
        };
        let may_be_wrong =
            |container: &ContainerStatus| is_incomplete(container) || MADE_UP.contains(&container.exit_code);
        let still = |id: &ContainerId| status.container(id).is_some_and(may_be_wrong);
        self.incomplete_ends.retain(|id, due| started < *due && still(id));
        if !self.may_be_corrected() {
            return None;
        }
        let due = now.plus(RECHECK_AFTER);
        let added: Vec<ContainerId> = self
            .new_ends(status)
            .filter(|container| is_incomplete(container))
            .map(|container| container.id.clone())
            .collect();
        let is_any = !added.is_empty();
        self.incomplete_ends.extend(added.into_iter().map(|id| (id, due)));
        is_any.then_some(due)
    }

    /// Whether to inspect the pod once more, now that it has been committed. The time of a second look may have passed
    /// while an inspection was in progress that began too early to be one; nothing else would bring it up again.
    pub(super) fn next_recheck(&self, now: Stamp) -> Recheck {
        match self.incomplete_ends.values().min() {
            None => Recheck::No,
            Some(due) if *due <= now => Recheck::Due,
            Some(_) => Recheck::Later,
        }
    }
}

impl Core {
    /// Doubts the made-up ends that a status shows: they are not believed before the pod has been inspected once more.
    pub(super) fn doubt(&mut self, uid: &PodUid, status: &PodStatus, now: Now) {
        let Some(record) = self.records.get_mut(uid) else { return };
        let made_up: Vec<ContainerId> = record.made_up_ends(status).cloned().collect();
        let all_believed = now.stamp.plus(ALL_BELIEVED_AFTER);
        let doubt = record.doubt.get_or_insert_with(|| {
            Box::new(Doubt { until: all_believed, ends: BTreeMap::new(), status: None })
        });
        for id in made_up {
            doubt.ends.entry(id).or_insert_with(|| now.stamp.plus(BELIEVED_AFTER).min(doubt.until));
        }
        let until = doubt.is_over_at();
        // Even if the inspection that showed them was itself a second look at something else.
        record.recheck = Recheck::Later;
        self.agenda.inspect(uid.clone(), until);
        self.agenda.believe(uid.clone(), until.plus(ANSWERED_BY));
    }

    /// Commits what is withheld, if its time is up and no better information has arrived. A later inspection that knows
    /// better is reported as a correction.
    pub(super) fn believe(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        if record.is_last_word_at().is_none_or(|at| now.stamp < at) {
            return;
        }
        let Some(found) = record.take_newest_withheld() else { return };
        let believed: Vec<ContainerId> = record.made_up_ends(&found.status).cloned().collect();
        self.commit(uid, found, now, out);
        if believed.is_empty() {
            return;
        }
        let Some(record) = self.records.get_mut(uid) else { return };
        let due = now.stamp.plus(RECHECK_AFTER);
        record.incomplete_ends.extend(believed.into_iter().map(|id| (id, due)));
        record.recheck = record.next_recheck(now.stamp);
        self.agenda.inspect(uid.clone(), due);
    }

    /// Whether to wait before reporting ends that nobody has described, since how they ended may be announced at any
    /// moment. Each container has its own deadline, and there is one for all of them together.
    pub(super) fn waits_for_last_words(&mut self, uid: &PodUid, new: Option<&RuntimePod>, now: Now) -> bool {
        let is_open = self.announced.is_open();
        let Some(record) = self.records.get(uid) else { return false };
        let silent: Vec<ContainerId> = record.silent_ends(new).cloned().collect();
        let silent: Vec<ContainerId> =
            silent.into_iter().filter(|id| is_open && self.announced.exit(id).is_none()).collect();
        let Some(record) = self.records.get_mut(uid) else { return false };
        record.awaited_ends.retain(|id, _| silent.contains(id));
        if silent.is_empty() {
            // The next container that ends gets the full patience.
            record.patience_ends = None;
            return false;
        }
        for id in silent {
            record.awaited_ends.entry(id).or_insert_with(|| now.stamp.plus(LAST_WORDS));
        }
        record.patience_ends.get_or_insert_with(|| now.stamp.plus(PATIENCE));
        let Some(until) = record.last_words_by().filter(|until| now.stamp < *until) else { return false };
        record.recheck = Recheck::Later;
        self.agenda.inspect(uid.clone(), until);
        self.agenda.believe(uid.clone(), until.plus(ANSWERED_BY));
        true
    }

    /// Inspects a pod once more, if that is still wanted.
    pub(super) fn inspect_again(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        if let Some(record) = self.records.get_mut(uid)
            && record.recheck == Recheck::Later
        {
            record.recheck = Recheck::Due;
            self.reconcile(uid, now, out);
        }
    }
}
