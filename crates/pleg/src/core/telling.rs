//! How changes become events.

use std::collections::BTreeMap;
use std::sync::Arc;

use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodRef, PodStatus, UnixNanos};

use super::doubt::{better_end, end};
use super::{Core, Effect, News};
use crate::clock::{Now, Stamp};
use crate::event::{End, EventKind, PodEvent, Subject, Trigger};
use crate::records::Change;

/// What the events of one change have in common.
pub(super) struct Telling<'a> {
    pub(super) pod: &'a PodRef,
    pub(super) trigger: Trigger,
    /// When the list that showed the change was requested.
    pub(super) asked: Stamp,
    pub(super) status: Option<&'a Arc<PodStatus>>,
    /// The containers whose end has been reported, and is now better known.
    pub(super) corrected: &'a [ContainerId],
    /// How containers ended, as inspections have shown it.
    pub(super) ends: &'a BTreeMap<ContainerId, End>,
}

impl Telling<'_> {
    fn end(&self, subject: &Subject) -> Option<End> {
        match subject {
            Subject::Container { id, .. } => self.ends.get(id).cloned(),
            Subject::Sandbox { .. } => None,
        }
    }

    fn started_at(&self, subject: &Subject) -> Option<UnixNanos> {
        let at = match subject {
            Subject::Container { id, .. } => self.status?.container(id)?.started_at,
            Subject::Sandbox { id, .. } => self.status?.sandbox(id)?.created_at,
        };
        at.is_set().then_some(at)
    }

    /// The corrections of ends that have been reported.
    fn corrections(&self) -> impl Iterator<Item = (Subject, Option<End>)> {
        let containers = self.corrected.iter().filter_map(|id| self.status?.container(id));
        containers.map(|container| {
            let ContainerStatus { id, name, attempt, .. } = container;
            let subject = Subject::Container { id: id.clone(), name: name.clone(), attempt: *attempt };
            let has_ended = container.state == ContainerState::Exited;
            (subject, has_ended.then(|| end(container)))
        })
    }
}

impl Core {
    /// Reports what has changed and which ends are better known. If there is nothing else to report, and somebody asked
    /// for a reinspection, reports that it was made.
    pub(super) fn tell(
        &mut self,
        telling: &Telling<'_>,
        changes: Vec<Change>,
        asked_for: bool,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let announced: Vec<_> = changes.iter().map(|change| self.announced_exit(&change.subject)).collect();
        self.account_for(telling, &changes, now);
        let mut delivered = 0;
        // Corrections come before changes, since nothing may follow a removal.
        let named = (!self.corrections_are_bare).then(|| telling.corrections());
        for (subject, known) in named.into_iter().flatten() {
            delivered += 1;
            let (exit, ended_at) = known.unzip();
            let (subject, happened_at) = (Some(subject), ended_at.flatten());
            let event = self.event(EventKind::PodSync, telling.pod, telling.trigger, now);
            out.push(Effect::Publish(News::Tell(PodEvent { subject, exit, happened_at, ..event })));
        }
        for (Change { subject, kinds, .. }, announced) in changes.into_iter().zip(announced) {
            // An announcement may be the only report of an end, or the only one that is not made up.
            let (exit, ended_at) = better_end(telling.end(&subject), announced).unzip();
            for &kind in kinds {
                delivered += usize::from(kind.is_delivered());
                let (exit, happened_at) = match kind {
                    EventKind::ContainerStarted => (None, telling.started_at(&subject)),
                    EventKind::ContainerDied => (exit.clone(), ended_at.flatten()),
                    EventKind::ContainerRemoved | EventKind::PodSync | EventKind::ContainerChanged => {
                        (None, None)
                    }
                };
                let event = self.event(kind, telling.pod, telling.trigger, now);
                let subject = Some(subject.clone());
                out.push(Effect::Publish(News::Tell(PodEvent { subject, exit, happened_at, ..event })));
            }
        }
        let is_corrected = self.corrections_are_bare && !telling.corrected.is_empty();
        if is_corrected || (asked_for && delivered == 0) {
            let event = self.event(EventKind::PodSync, telling.pod, telling.trigger, now);
            out.push(Effect::Publish(News::Tell(event)));
        }
    }

    fn announced_exit(&self, subject: &Subject) -> Option<End> {
        match subject {
            Subject::Container { id, .. } => self.announced.exit(id),
            Subject::Sandbox { .. } => None,
        }
    }

    /// Creates the next event of a pod, without a subject. Only delivered events are numbered: a gap would look like a
    /// loss.
    pub(super) fn event(&mut self, kind: EventKind, pod: &PodRef, trigger: Trigger, now: Now) -> PodEvent {
        self.last_seq += u64::from(kind.is_delivered());
        PodEvent {
            seq: self.last_seq,
            kind,
            pod: pod.clone(),
            subject: None,
            exit: None,
            happened_at: None,
            seen_at: now.wall,
            trigger,
            merged: 1,
        }
    }
}
