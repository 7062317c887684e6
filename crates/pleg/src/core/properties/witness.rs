//! What successful inspections have shown, and when it was reported.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rubelet_model::{ContainerState, PodStatus, RuntimePod, SandboxState};

use super::World;
use crate::clock::Stamp;
use crate::event::{EventKind, PodEvent};

/// When a made-up end is looked at again, and how long after that it is reported anyway.
const SECOND_LOOK: Duration = Duration::from_millis(500);
const BELIEVED_AFTER: Duration = Duration::from_secs(1);
/// When a kill without a reason is looked at again.
const RECHECK: Duration = Duration::from_secs(1);

fn is_made_up(code: i32) -> bool {
    matches!(code, 255 | -1)
}

#[derive(Default)]
pub(super) struct Witness {
    /// The facts that inspections have shown, by the id of the container or sandbox.
    pub(super) shown: BTreeSet<(String, EventKind)>,
    pub(super) told: BTreeMap<(String, EventKind), Stamp>,
    /// When the runtime found out how a container really ended.
    pub(super) known_better: BTreeMap<String, Stamp>,
    /// By pod and container: when an inspection first showed a made-up end.
    made_up: BTreeMap<String, BTreeMap<String, Stamp>>,
    /// When an inspection first showed a kill without a reason.
    kills: BTreeMap<String, Stamp>,
    /// By pod: when successful inspections began.
    good: BTreeMap<String, Vec<Stamp>>,
}

impl Witness {
    pub(super) fn inspects(&mut self, view: &RuntimePod, status: &PodStatus, begun: Stamp, answered: Stamp) {
        let uid = view.pod.uid.as_str();
        self.good.entry(uid.to_owned()).or_default().push(begun);
        for container in &view.containers {
            let fact = match container.state {
                ContainerState::Running => EventKind::ContainerStarted,
                ContainerState::Exited => EventKind::ContainerDied,
                ContainerState::Created | ContainerState::Unknown => continue,
            };
            self.shown.insert((container.id.as_str().to_owned(), fact));
        }
        for sandbox in &view.sandboxes {
            let fact = match sandbox.state {
                SandboxState::Ready => EventKind::ContainerStarted,
                SandboxState::NotReady => EventKind::ContainerDied,
                SandboxState::Unknown => continue,
            };
            self.shown.insert((sandbox.id.as_str().to_owned(), fact));
        }
        let made_up = self.made_up.entry(uid.to_owned()).or_default();
        for container in
            status.containers.iter().filter(|container| container.state == ContainerState::Exited)
        {
            let id = container.id.as_str().to_owned();
            if is_made_up(container.exit_code) {
                made_up.entry(id).or_insert(answered);
            } else if container.exit_code == 137 && !container.is_oom_killed() {
                self.kills.entry(id).or_insert(answered);
            }
        }
    }

    pub(super) fn hears(&mut self, event: &PodEvent, world: &World, now: Stamp) {
        let Some(subject) = &event.subject else { return };
        let id = subject.id().to_owned();
        if let Some(exit) = event.exit.as_ref().filter(|_| event.kind == EventKind::ContainerDied) {
            let is_there = world.pod_of(&id).is_some();
            if is_made_up(exit.code) && is_there {
                self.check_second_look(event.pod.uid.as_str(), &id, now);
            }
        }
        self.told.insert((id, event.kind), now);
    }

    /// When a made-up end must have been looked at again; `None` for those that follow another one in the same pod.
    fn made_up_until(&self, uid: &str, id: &str) -> Option<Stamp> {
        let of_pod = self.made_up.get(uid)?;
        let first = *of_pod.get(id)?;
        let is_first = of_pod.values().all(|other| *other >= first);
        is_first.then(|| first.plus(SECOND_LOOK))
    }

    /// Checks a made-up end that is being reported.
    fn check_second_look(&self, uid: &str, id: &str, now: Stamp) {
        let Some(until) = self.made_up_until(uid, id) else { return };
        let is_late = now >= until.plus(BELIEVED_AFTER);
        assert!(is_late || self.has_been_inspected(uid, until), "{id} was told without a second look");
    }

    /// Whether a successful inspection of a pod began at `since` or later.
    pub(super) fn has_been_inspected(&self, uid: &str, since: Stamp) -> bool {
        self.good.get(uid).is_some_and(|good| good.iter().any(|begun| *begun >= since))
    }

    /// The ends that get a second look, and from when on.
    pub(super) fn second_looks(&self) -> impl Iterator<Item = (&str, Stamp)> {
        let kills = self.kills.iter().map(|(id, shown)| (id.as_str(), shown.plus(RECHECK)));
        let made_up = self.made_up.iter().flat_map(|(uid, ends)| ends.keys().map(move |id| (uid, id)));
        let made_up = made_up.filter_map(|(uid, id)| Some((id.as_str(), self.made_up_until(uid, id)?)));
        kills.chain(made_up)
    }
}
