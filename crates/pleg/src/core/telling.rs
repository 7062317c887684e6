//! How changes become events.

use std::sync::Arc;

use rubelet_model::{ContainerState, PodRef, PodStatus, UnixNanos};

use super::{Core, Effect};
use crate::clock::{Now, Stamp};
use crate::event::{EventKind, Exit, PodEvent, Subject, Trigger};
use crate::records::Change;

/// What the events of one change have in common.
pub(super) struct Telling<'a> {
    pub(super) pod: &'a PodRef,
    pub(super) trigger: Trigger,
    /// When the list that showed it was asked for.
    pub(super) asked: Stamp,
    pub(super) status: Option<&'a Arc<PodStatus>>,
    /// The status before: the last word on what is gone from the new one.
    pub(super) before: &'a Option<Arc<PodStatus>>,
}

impl Telling<'_> {
    fn statuses(&self) -> impl Iterator<Item = &PodStatus> {
        self.status.into_iter().chain(self.before).map(Arc::as_ref)
    }

    fn exit(&self, subject: &Subject) -> Option<Exit> {
        let Subject::Container { id, .. } = subject else { return None };
        let container = self
            .statuses()
            .filter_map(|status| status.container(id))
            .find(|container| container.state == ContainerState::Exited)?;
        Some(Exit {
            code: container.exit_code,
            reason: container.reason.clone(),
            oom_killed: container.is_oom_killed(),
        })
    }

    fn happened_at(&self, kind: EventKind, subject: &Subject) -> Option<UnixNanos> {
        let at = match (kind, subject) {
            (EventKind::ContainerStarted, Subject::Container { id, .. }) => {
                self.statuses().find_map(|status| status.container(id))?.started_at
            }
            (EventKind::ContainerDied, Subject::Container { id, .. }) => {
                self.statuses().find_map(|status| status.container(id))?.finished_at
            }
            (EventKind::ContainerStarted, Subject::Sandbox { id, .. }) => {
                self.statuses().find_map(|status| status.sandbox(id))?.created_at
            }
            (EventKind::ContainerDied, Subject::Sandbox { .. })
            | (EventKind::ContainerRemoved | EventKind::PodSync | EventKind::ContainerChanged, _) => {
                return None;
            }
        };
        at.is_set().then_some(at)
    }
}

impl Core {
    /// Tells what changed, and that somebody's wish was fulfilled if that is all there is to tell.
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
        for (Change { subject, kinds, .. }, announced) in changes.into_iter().zip(announced) {
            let (announced_exit, announced_end) = announced.unzip();
            for &kind in kinds {
                // Numbers count what is heard: a gap in them would look like a loss.
                let seq = if kind.is_delivered() { self.next_seq() } else { self.last_seq };
                delivered += usize::from(kind.is_delivered());
                let is_end = kind == EventKind::ContainerDied;
                // What was announced is the only word on the end of what was gone when somebody looked.
                let exit = telling.exit(&subject).or_else(|| announced_exit.clone()).filter(|_| is_end);
                let ended_at = announced_end.flatten().filter(|_| is_end);
                let event = PodEvent {
                    seq,
                    kind,
                    pod: telling.pod.clone(),
                    exit,
                    happened_at: telling.happened_at(kind, &subject).or(ended_at),
                    subject: Some(subject.clone()),
                    seen_at: now.wall,
                    trigger: telling.trigger,
                    merged: 1,
                };
                out.push(Effect::Tell(event));
            }
        }
        if asked_for && delivered == 0 {
            let event = PodEvent {
                seq: self.next_seq(),
                kind: EventKind::PodSync,
                pod: telling.pod.clone(),
                subject: None,
                exit: None,
                happened_at: None,
                seen_at: now.wall,
                trigger: telling.trigger,
                merged: 1,
            };
            out.push(Effect::Tell(event));
        }
    }

    fn announced_exit(&self, subject: &Subject) -> Option<(Exit, Option<UnixNanos>)> {
        match subject {
            Subject::Container { id, .. } => self.announced.exit(id),
            Subject::Sandbox { .. } => None,
        }
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }
}
