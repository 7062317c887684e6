//! Ends that are often wrong at first.
//!
//! Some runtimes say 255 or -1 of a container whose end they have not seen, and know better a moment later. Such an end
//! is not told before it has been looked at again. And some say of a container that the kernel killed for want of
//! memory that it was killed (137), and add why a moment later, without another event. Most killed containers were
//! simply killed, and somebody waits to start them again, so that end is told at once, and corrected if need be.
//!
//! And what is removed right after it ended may be missed by every look, with its end announced a moment after it was
//! found to be gone. So a moment is what is waited for, of a container or of a whole pod.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus, PodUid, RuntimePod};

use super::Core;
use crate::clock::{Now, Stamp};
use crate::core::Effect;
use crate::event::{End, Exit};
use crate::records::{Doubt, Recheck, Record};

/// How long an end that may be wrong is not believed.
const BELIEVED_AFTER: Duration = Duration::from_millis(500);
/// How long none of them is, at most, if they come one after the other.
const ALL_BELIEVED_AFTER: Duration = Duration::from_secs(2);
/// How long to wait for the next inspection after that, or after the wait for word of an end. Then what was found is the last
/// word: a pod that cannot be inspected any more has ended all the same.
const ANSWERED_BY: Duration = Duration::from_secs(1);
/// How long to wait for word of an end that was not seen.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long to wait for the words of one after the other, at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// When an end that may be incomplete is looked at again.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// Killed by a signal that cannot be caught.
const KILLED: i32 = 137;
/// What runtimes say for want of anything better.
const MADE_UP: [i32; 2] = [255, -1];

/// How something ended, of two words on it: the first one, unless it was made up, or not the whole truth, and the other one is
/// better.
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
    /// Whether an inspection that began then came too soon to be a second look at this end.
    fn doubts(&self, id: &ContainerId, started: Stamp) -> bool {
        started < self.until && self.ends.get(id).is_none_or(|until| started < *until)
    }

    /// From when on all the ends that are known are believed.
    fn is_over_at(&self) -> Stamp {
        self.ends.values().max().copied().unwrap_or(self.until)
    }
}

impl Record {
    /// The containers that have ended since the status before.
    fn new_ends<'a>(&'a self, status: &'a PodStatus) -> impl Iterator<Item = &'a ContainerStatus> {
        status.containers.iter().filter(|container| {
            let before = self.status.as_ref().and_then(|before| before.container(&container.id));
            container.state == ContainerState::Exited
                && before.is_none_or(|before| before.state != ContainerState::Exited)
        })
    }

    /// Whether ends may yet be known better than a status shows them: not those from before anybody looked.
    fn may_be_corrected(&self) -> bool {
        self.status.is_some() || !self.is_from_before
    }

    /// The containers that have ended since, as it seems, in a way that is often made up.
    fn made_up_ends<'a>(&'a self, status: &'a PodStatus) -> impl Iterator<Item = &'a ContainerId> {
        self.new_ends(status)
            .filter(|container| MADE_UP.contains(&container.exit_code))
            .map(|container| &container.id)
    }

    /// Whether an inspection that began then shows an end that is not to be told yet.
    pub(super) fn is_doubtful(&self, status: &PodStatus, started: Stamp) -> bool {
        let is_doubted = |id| self.doubt.as_ref().is_none_or(|doubt| doubt.doubts(id, started));
        self.may_be_corrected() && self.made_up_ends(status).any(is_doubted)
    }

    /// The containers that have ended since the committed view, or since what is withheld, and of whose end no inspection has
    /// told: they were gone when somebody looked, or when somebody inspected them. `new` is what is left of the pod, if anything is.
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

    /// It is as it was committed, so nobody has ended: who does later is waited for anew. Unless something else is withheld that
    /// has waited for long enough.
    pub(super) fn forget_awaited(&mut self) {
        if self.withheld().is_empty() {
            self.awaited_ends.clear();
            self.patience_ends = None;
        }
    }

    /// Until when to wait for word of ends, if anybody waits.
    fn last_words_by(&self) -> Option<Stamp> {
        let last = self.awaited_ends.values().max().copied()?;
        Some(self.patience_ends.map_or(last, |patience| last.min(patience)))
    }

    /// From when on what is withheld is the last word, whatever becomes of the next inspection.
    fn is_last_word_at(&self) -> Option<Stamp> {
        let doubted = self.doubt.as_ref().map(|doubt| doubt.is_over_at());
        doubted.max(self.last_words_by()).map(|over| over.plus(ANSWERED_BY))
    }

    /// Keeps how containers ended until that is told, whatever becomes of this inspection. The newest word counts.
    pub(super) fn note_ends(&mut self, status: &PodStatus) {
        for container in &status.containers {
            match container.state {
                ContainerState::Exited if !self.has_told_end(&container.id) => {
                    self.untold_ends.insert(container.id.clone(), end(container));
                }
                // What runs has not ended, whoever said so.
                ContainerState::Running => {
                    self.untold_ends.remove(&container.id);
                }
                ContainerState::Exited | ContainerState::Created | ContainerState::Unknown => {}
            }
        }
    }

    /// Recordings of earlier versions do not have the ends that are yet to be told but in the statuses that show them.
    pub(crate) fn restore_ends(&mut self) {
        let later = std::mem::take(&mut self.untold_ends);
        let doubted = self.doubt.as_ref().and_then(|doubt| doubt.status.clone());
        let withheld: Vec<_> = self.withheld().iter().map(|found| found.status.clone()).collect();
        for status in [self.status.clone(), doubted].into_iter().flatten().chain(withheld) {
            self.note_ends(&status);
        }
        self.untold_ends.extend(later);
    }

    /// The containers of whose end, which may not have been the whole truth and has been told, it tells more.
    pub(super) fn corrected_by(&self, status: &PodStatus) -> Vec<ContainerId> {
        let is_corrected = |id: &&ContainerId| {
            let before = self.status.as_ref().and_then(|before| before.container(id));
            status.container(id).is_some_and(|now| before != Some(now))
        };
        self.incomplete_ends.keys().filter(is_corrected).cloned().collect()
    }

    /// Keeps account of the ends that may not be the whole truth: those that `status` adds, and those of before that
    /// have yet to be looked at again. An inspection of something else in the pod does not count, if it came too soon.
    /// Gives when to look again for what was added.
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

    /// Whether to inspect it once more, now that it was committed. The moment of a second look may have passed while an
    /// inspection was under way that had begun too soon to be one: then nothing else will remind us.
    pub(super) fn next_recheck(&self, now: Stamp) -> Recheck {
        match self.incomplete_ends.values().min() {
            None => Recheck::No,
            Some(due) if *due <= now => Recheck::Due,
            Some(_) => Recheck::Later,
        }
    }
}

impl Core {
    /// Does not believe the ends that a status shows before the pod has been inspected once more.
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
        // Also if the inspection that has shown them was one more, of something else.
        record.recheck = Recheck::Later;
        self.agenda.inspect(uid.clone(), until);
        self.agenda.believe(uid.clone(), until.plus(ANSWERED_BY));
    }

    /// Nobody has said better of what is withheld, and nobody may for long. If somebody does later, it is told as a
    /// correction.
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

    /// Whether to wait before telling of ends of which nobody has said what they were like: that may be announced any
    /// moment. Each has its own moment; together they do not wait for ever.
    pub(super) fn waits_for_last_words(&mut self, uid: &PodUid, new: Option<&RuntimePod>, now: Now) -> bool {
        let is_open = self.announced.is_open();
        let Some(record) = self.records.get(uid) else { return false };
        let silent: Vec<ContainerId> = record.silent_ends(new).cloned().collect();
        let silent: Vec<ContainerId> =
            silent.into_iter().filter(|id| is_open && self.announced.exit(id).is_none()).collect();
        let Some(record) = self.records.get_mut(uid) else { return false };
        record.awaited_ends.retain(|id, _| silent.contains(id));
        if silent.is_empty() {
            // Whoever ends next is waited for anew.
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

    /// It is time to inspect a pod once more.
    pub(super) fn inspect_again(&mut self, uid: &PodUid, now: Now, out: &mut Vec<Effect>) {
        if let Some(record) = self.records.get_mut(uid)
            && record.recheck == Recheck::Later
        {
            record.recheck = Recheck::Due;
            self.reconcile(uid, now, out);
        }
    }
}
