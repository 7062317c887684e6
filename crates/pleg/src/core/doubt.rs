//! Ends that are often wrong at first.
//!
//! Some runtimes say 255 or -1 of a container whose end they have not seen, and know better a moment later. Such an end
//! is not told before it has been looked at again. And some say of a container that the kernel killed for want of
//! memory that it was killed (137), and add why a moment later, without another event. Most killed containers were
//! simply killed, and somebody waits to start them again, so that end is told at once, and corrected if need be.
//!
//! And what is removed right after it ended may be missed by every look, with its end announced a moment after it was
//! found to be gone. So a moment is what is waited for, of a container or of a whole pod.

use std::sync::Arc;
use std::time::Duration;

use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus, PodUid, RuntimePod};

use super::Core;
use crate::clock::{Now, Stamp};
use crate::core::Effect;
use crate::records::{Doubt, Recheck, Record};

/// How long an end that may be wrong is not believed.
const BELIEVED_AFTER: Duration = Duration::from_millis(500);
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

/// What is left of a pod, as a list and an inspection of it show.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) pod: &'a RuntimePod,
    pub(super) status: &'a PodStatus,
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

    /// Whether it shows an end that is not to be told yet.
    pub(super) fn is_doubtful(&self, status: &PodStatus, now: Stamp) -> bool {
        self.doubt.as_ref().is_none_or(|doubt| now < doubt.until)
            && self.may_be_corrected()
            && self.new_ends(status).any(|container| MADE_UP.contains(&container.exit_code))
    }

    /// The containers that have ended since the committed view, and of whose end no inspection has told: they were gone
    /// when somebody looked, or when somebody inspected them. `new` is what is left of the pod, if anything is.
    fn silent_ends<'a>(&'a self, new: Option<Left<'a>>) -> impl Iterator<Item = &'a ContainerId> {
        let committed = || self.committed().into_iter().flat_map(|committed| &committed.containers);
        let had_ended = move |id: &ContainerId| {
            committed().any(|container| container.id == *id && container.state == ContainerState::Exited)
        };
        let is_listed = move |id: &ContainerId| {
            new.is_some_and(|new| new.pod.containers.iter().any(|container| container.id == *id))
        };
        let gone = committed()
            .filter(|container| container.state != ContainerState::Exited)
            .filter(move |container| !is_listed(&container.id));
        let ended = new
            .into_iter()
            .flat_map(|new| &new.pod.containers)
            .filter(move |container| container.state == ContainerState::Exited && !had_ended(&container.id));
        let statuses = move || {
            let before = self.doubt.iter().map(|doubt| &*doubt.status).chain(self.status.as_deref());
            before.chain(new.map(|new| new.status))
        };
        let is_known = move |id: &ContainerId| {
            let mut known = statuses().filter_map(|status| status.container(id));
            known.any(|container| container.state == ContainerState::Exited)
        };
        gone.chain(ended).map(|container| &container.id).filter(move |id| !is_known(id))
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
        let still = |id: &ContainerId| status.container(id).is_some_and(is_incomplete);
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
}

impl Core {
    /// Keeps a status that is not believed, and has the pod inspected once more.
    pub(super) fn doubt(&mut self, uid: &PodUid, status: PodStatus, now: Now) {
        let Some(record) = self.records.get_mut(uid) else { return };
        let status = Arc::new(status);
        match &mut record.doubt {
            Some(doubt) => doubt.status = status,
            None => {
                let until = now.stamp.plus(BELIEVED_AFTER);
                record.doubt = Some(Box::new(Doubt { until, status }));
                record.recheck = Recheck::Later;
                self.agenda.inspect(uid.clone(), until);
            }
        }
    }

    /// Whether to wait before telling of ends of which nobody has said what they were like: that may be announced any
    /// moment. Each has its own moment; together they do not wait for ever.
    pub(super) fn waits_for_last_words(&mut self, uid: &PodUid, new: Option<Left<'_>>, now: Now) -> bool {
        let is_open = self.announced.is_open();
        let Some(record) = self.records.get(uid) else { return false };
        let silent: Vec<ContainerId> = record.silent_ends(new).cloned().collect();
        let silent: Vec<ContainerId> =
            silent.into_iter().filter(|id| is_open && self.announced.exit(id).is_none()).collect();
        let Some(record) = self.records.get_mut(uid) else { return false };
        record.awaited_ends.retain(|id, _| silent.contains(id));
        if silent.is_empty() {
            return false;
        }
        let mut added = None;
        for id in silent {
            let until = record.awaited_ends.entry(id).or_insert_with(|| now.stamp.plus(LAST_WORDS));
            added = added.max(Some(*until));
        }
        let patience = *record.patience_ends.get_or_insert_with(|| now.stamp.plus(PATIENCE));
        let until = added.map_or(patience, |until| until.min(patience));
        if until <= now.stamp {
            return false;
        }
        record.recheck = Recheck::Later;
        self.agenda.inspect(uid.clone(), until);
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
