//! The invariants P1–P7 and P10, over random histories of a small node.
//!
//! A history is a list of [`Op`]s: the world changes, time passes, calls are made, and their answers come in any
//! order, late, or with an error. `PROPTEST_CASES` raises the number of histories; a failure prints its seed.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use proptest::prelude::*;
use rubelet_model::{ContainerState, RuntimePod, SandboxState};

use super::harness::{Harness, announcement, container, pod, sandbox};
use super::*;
use crate::announce::{Announcement, LifeStep, StreamError};
use crate::diff::Seen;
use crate::event::{EventKind, PodEvent};

const PODS: [&str; 3] = ["A", "B", "C"];

#[derive(Clone, Debug)]
enum Op {
    Create {
        pod: usize,
        state: ContainerState,
    },
    Change {
        pod: usize,
        which: usize,
        state: ContainerState,
    },
    Sandbox {
        pod: usize,
        state: SandboxState,
    },
    Remove {
        pod: usize,
        which: usize,
    },
    RemovePod {
        pod: usize,
    },
    Pass {
        millis: u64,
    },
    AnswerList,
    FailList,
    /// The runtime restarts: the next answer comes over a new connection, and may lack a pod, or a container of it.
    Reconnect {
        forgets: Option<(usize, Option<usize>)>,
    },
    Nudge {
        pod: usize,
    },
    AnswerLook {
        pod: usize,
    },
    FailLook {
        pod: usize,
    },
    Inspect {
        which: usize,
        fails: bool,
    },
    Reinspect {
        pod: usize,
    },
    Interrupt,
    OpenStream,
    EndStream,
    /// The runtime announces something that happened, in any order, once, twice, or not at all, and may not say of
    /// which pod.
    Announce {
        which: usize,
        times: usize,
        names_pod: bool,
    },
}

fn state() -> impl Strategy<Value = ContainerState> {
    prop::sample::select(ContainerState::ALL.to_vec())
}

fn op() -> impl Strategy<Value = Op> {
    let pod = 0..PODS.len();
    prop_oneof![
        4 => (pod.clone(), state()).prop_map(|(pod, state)| Op::Create { pod, state }),
        6 => (pod.clone(), 0..4_usize, state()).prop_map(|(pod, which, state)| Op::Change { pod, which, state }),
        3 => (pod.clone(), prop::sample::select(vec![
                SandboxState::Ready, SandboxState::NotReady, SandboxState::Unknown,
            ])).prop_map(|(pod, state)| Op::Sandbox { pod, state }),
        3 => (pod.clone(), 0..4_usize).prop_map(|(pod, which)| Op::Remove { pod, which }),
        1 => pod.clone().prop_map(|pod| Op::RemovePod { pod }),
        6 => (1..2_500_u64).prop_map(|millis| Op::Pass { millis }),
        6 => Just(Op::AnswerList),
        1 => Just(Op::FailList),
        1 => prop::option::of((pod.clone(), prop::option::of(0..3_usize))).prop_map(|forgets| Op::Reconnect { forgets }),
        3 => pod.clone().prop_map(|pod| Op::Nudge { pod }),
        3 => pod.clone().prop_map(|pod| Op::AnswerLook { pod }),
        1 => pod.clone().prop_map(|pod| Op::FailLook { pod }),
        9 => (0..3_usize, prop::bool::weighted(0.3)).prop_map(|(which, fails)| Op::Inspect { which, fails }),
        1 => pod.prop_map(|pod| Op::Reinspect { pod }),
        1 => Just(Op::Interrupt),
        2 => Just(Op::OpenStream),
        1 => Just(Op::EndStream),
        9 => (0..6_usize, 0..3_usize, prop::bool::weighted(0.7))
            .prop_map(|(which, times, names_pod)| Op::Announce { which, times, names_pod }),
    ]
}

fn history() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 0..120)
}

/// What really is on the node, and what was when.
#[derive(Default)]
struct World {
    containers: BTreeMap<&'static str, BTreeMap<String, ContainerState>>,
    sandboxes: BTreeMap<&'static str, (String, SandboxState)>,
    made: usize,
    /// For every container: since when it was in which state, and when it was removed.
    past: BTreeMap<String, Past>,
    /// What the runtime has to announce.
    to_announce: Vec<Announcement>,
}

#[derive(Default)]
struct Past {
    states: Vec<(Stamp, ContainerState)>,
    removed: Option<Stamp>,
}

impl Past {
    fn was_after(&self, state: ContainerState, moment: Stamp) -> bool {
        self.states.iter().enumerate().any(|(index, (_, was))| {
            let until = self.states.get(index + 1).map(|(since, _)| *since).or(self.removed);
            *was == state && until.is_none_or(|until| until > moment)
        })
    }

    fn exists_since(&self, moment: Stamp) -> bool {
        self.removed.is_none() && self.states.first().is_some_and(|(since, _)| *since <= moment)
    }
}

impl World {
    fn view(&self, uid: &'static str) -> Option<RuntimePod> {
        let containers = self.containers.get(uid);
        let here = self.sandboxes.get(uid);
        if containers.is_none_or(BTreeMap::is_empty) && here.is_none() {
            return None;
        }
        let mut view = pod(uid, &[]);
        view.containers = containers.into_iter().flatten().map(|(id, state)| container(id, *state)).collect();
        view.sandboxes = here.into_iter().map(|(id, state)| sandbox(id, *state)).collect();
        view.sort();
        Some(view)
    }

    fn views(&self) -> Vec<RuntimePod> {
        PODS.into_iter().filter_map(|uid| self.view(uid)).collect()
    }

    fn happened(&mut self, uid: &'static str, id: &str, step: LifeStep) {
        self.to_announce.push(announcement(uid, id, step));
    }

    fn set(&mut self, uid: &'static str, id: String, state: ContainerState, at: Stamp) {
        let step = match Seen::from(state) {
            Seen::Running => LifeStep::Started,
            Seen::Exited => LifeStep::Stopped,
            Seen::Unknown => LifeStep::Created,
        };
        self.happened(uid, &id, step);
        self.past.entry(id.clone()).or_default().states.push((at, state));
        self.containers.entry(uid).or_default().insert(id, state);
    }

    fn nth(&self, uid: &str, which: usize) -> Option<String> {
        self.containers.get(uid)?.keys().nth(which).cloned()
    }

    fn remove(&mut self, uid: &'static str, id: &str, at: Stamp) {
        self.happened(uid, id, LifeStep::Deleted);
        if let Some(containers) = self.containers.get_mut(uid) {
            containers.remove(id);
        }
        if let Some(past) = self.past.get_mut(id) {
            past.removed = Some(at);
        }
    }
}

/// A history under way.
struct Run {
    pleg: Harness,
    world: World,
    forgets: Option<(&'static str, Option<usize>)>,
    moments: Vec<Stamp>,
    heard: Vec<PodEvent>,
}

impl Run {
    fn new() -> Self {
        Self {
            pleg: Harness::new(),
            world: World::default(),
            forgets: None,
            moments: Vec::new(),
            heard: Vec::new(),
        }
    }

    fn play(history: &[Op], skip: impl Fn(&Op) -> bool) -> Self {
        let mut run = Self::new();
        run.pleg.tick();
        for op in history {
            if skip(op) {
                continue;
            }
            run.apply(op);
            run.check_step(op);
        }
        run
    }

    fn apply(&mut self, op: &Op) {
        let at = self.pleg.now().stamp;
        self.moments.push(at);
        match *op {
            Op::Create { pod, state } => {
                self.world.made += 1;
                let id = format!("{}-c{}", PODS[pod], self.world.made);
                self.world.set(PODS[pod], id, state, at);
            }
            Op::Change { pod, which, state } => {
                if let Some(id) = self.world.nth(PODS[pod], which) {
                    self.world.set(PODS[pod], id, state, at);
                }
            }
            Op::Sandbox { pod, state } => {
                self.world.made += 1;
                let id = format!("{}-s{}", PODS[pod], self.world.made / 4);
                let sandbox = self.world.sandboxes.entry(PODS[pod]).or_insert((id, state));
                sandbox.1 = state;
                let id = sandbox.0.clone();
                let step = if state == SandboxState::Ready { LifeStep::Started } else { LifeStep::Stopped };
                self.world.happened(PODS[pod], &id, step);
            }
            Op::Remove { pod, which } => {
                if let Some(id) = self.world.nth(PODS[pod], which) {
                    self.world.remove(PODS[pod], &id, at);
                }
            }
            Op::RemovePod { pod } => {
                while let Some(id) = self.world.nth(PODS[pod], 0) {
                    self.world.remove(PODS[pod], &id, at);
                }
                if self.world.sandboxes.remove(PODS[pod]).is_some() {
                    self.world.made += 4;
                }
            }
            Op::Pass { millis } => {
                self.pleg.pass(Duration::from_millis(millis));
                self.pleg.tick();
            }
            Op::AnswerList => {
                if self.pleg.is_listing() {
                    // The very first list has nothing to be compared with, and is believed.
                    let forgets = self.forgets.take().filter(|_| self.pleg.has_listed());
                    let mut views = self.world.views();
                    match forgets {
                        None => {}
                        Some((uid, None)) => views.retain(|view| view.pod.uid.as_str() != uid),
                        Some((uid, Some(which))) => {
                            for view in views.iter_mut().filter(|view| view.pod.uid.as_str() == uid) {
                                view.containers.truncate(which);
                            }
                            views.retain(|view| !view.is_empty());
                        }
                    }
                    self.pleg.answer_list(views);
                }
            }
            Op::FailList => {
                if self.pleg.is_listing() {
                    self.pleg.fail_list();
                }
            }
            Op::Reconnect { forgets } => {
                self.pleg.epoch += 1;
                self.forgets = forgets.map(|(pod, which)| (PODS[pod], which));
            }
            Op::Nudge { pod } => self.pleg.step(Input::Nudge { pod: PODS[pod].into(), at }),
            Op::AnswerLook { pod } => {
                if self.pleg.is_looking_at(PODS[pod]) {
                    self.pleg.answer_look(PODS[pod], self.world.view(PODS[pod]));
                }
            }
            Op::FailLook { pod } => self.pleg.fail_look(PODS[pod]),
            Op::Inspect { which, fails } => self.inspect(which, fails),
            Op::Reinspect { pod } => self.pleg.step(Input::Reinspect { pod: PODS[pod].into(), at }),
            Op::OpenStream => self.pleg.step(Input::StreamOpened),
            Op::EndStream => self.pleg.step(Input::StreamEnded(StreamError::Ended)),
            Op::Announce { which, times, names_pod } => {
                if which < self.world.to_announce.len() {
                    let mut announcement = self.world.to_announce.remove(which);
                    announcement.pod = announcement.pod.filter(|_| names_pod);
                    for _ in 0..times {
                        let announcements = vec![announcement.clone()];
                        let at = self.pleg.now().stamp;
                        self.pleg.step(Input::Announced { announcements, at });
                    }
                }
            }
            Op::Interrupt => {
                self.pleg.step(Input::Interrupted);
                self.pleg.forget_calls();
                self.pleg.tick();
            }
        }
        self.heard.append(&mut self.pleg.told);
    }

    /// Answers an inspection with what is true now of the things that it asks for.
    fn inspect(&mut self, which: usize, fails: bool) {
        let Some(asked_for) = self.pleg.inspecting().get(which).cloned() else { return };
        let uid = PODS.into_iter().find(|pod| *pod == asked_for.pod.uid.as_str()).expect("one of ours");
        let mut now = self.world.view(uid).unwrap_or_else(|| pod(uid, &[]));
        now.containers.retain(|container| asked_for.containers.iter().any(|asked| asked.id == container.id));
        now.sandboxes.retain(|sandbox| asked_for.sandboxes.iter().any(|asked| asked.id == sandbox.id));
        self.pleg.answer_inspection(which, (!fails).then_some(&now));
    }

    /// Lets everything settle, with all calls answered.
    fn settle(&mut self) {
        for _ in 0..4 {
            self.pleg.start_list();
            self.apply(&Op::AnswerList);
            for _ in 0..8 {
                self.apply(&Op::Inspect { which: 0, fails: false });
            }
        }
    }

    fn check_step(&self, op: &Op) {
        self.check_freshness(op);
    }

    /// P5: what `newer_than(m)` returns was read after `m`: no state in it had passed by then, and nothing that
    /// was there all the time is missing.
    fn check_freshness(&self, op: &Op) {
        let reader = self.pleg.cache.reader();
        for uid in PODS {
            for &moment in self.moments.iter().rev().take(12) {
                let Some(Ok(status)) = reader.newer_than_now(&uid.into(), moment) else { continue };
                for container in &status.containers {
                    let past = &self.world.past[container.id.as_str()];
                    assert!(
                        past.was_after(container.state, moment),
                        "{op:?}: {} was {} before {moment:?}, not after",
                        container.id,
                        container.state
                    );
                }
                for id in self.world.containers.get(uid).into_iter().flat_map(BTreeMap::keys) {
                    assert!(
                        !self.world.past[id].exists_since(moment)
                            || status.containers.iter().any(|container| container.id.as_str() == id),
                        "{op:?}: {id} has been there since before {moment:?} and is missing"
                    );
                }
            }
        }
    }
}

/// What the events say is on the node.
fn fold<'a>(
    heard: impl IntoIterator<Item = &'a PodEvent>,
) -> Result<BTreeMap<(String, String), EventKind>, String> {
    let mut node: BTreeMap<(String, String), EventKind> = BTreeMap::new();
    let mut removed = BTreeSet::new();
    for event in heard {
        let Some(subject) = &event.subject else { continue };
        let key = (event.pod.uid.as_str().to_owned(), subject.id().to_owned());
        if removed.contains(&key) {
            return Err(format!("{:?} of {key:?} after Removed", event.kind));
        }
        let before = node.get(&key).copied();
        match (event.kind, before) {
            (EventKind::ContainerStarted, Some(EventKind::ContainerStarted))
            | (EventKind::ContainerDied, Some(EventKind::ContainerDied)) => {
                return Err(format!("{:?} of {key:?} twice", event.kind));
            }
            (EventKind::ContainerRemoved, before) => {
                if before != Some(EventKind::ContainerDied) {
                    return Err(format!("{key:?} was removed, but had not died: {before:?}"));
                }
                node.remove(&key);
                removed.insert(key);
            }
            (EventKind::ContainerStarted | EventKind::ContainerDied, _) => {
                node.insert(key, event.kind);
            }
            (EventKind::ContainerChanged | EventKind::PodSync, _) => {}
        }
    }
    Ok(node)
}

/// What the events should have said of this world; `None` for states that tell nothing.
fn expected(world: &World) -> BTreeMap<(String, String), Option<EventKind>> {
    let told = |seen: Seen| match seen {
        Seen::Running => Some(EventKind::ContainerStarted),
        Seen::Exited => Some(EventKind::ContainerDied),
        Seen::Unknown => None,
    };
    let mut node = BTreeMap::new();
    for view in world.views() {
        let uid = view.pod.uid.as_str();
        for container in &view.containers {
            node.insert((uid.to_owned(), container.id.as_str().to_owned()), told(container.state.into()));
        }
        for sandbox in &view.sandboxes {
            node.insert((uid.to_owned(), sandbox.id.as_str().to_owned()), told(sandbox.state.into()));
        }
    }
    node
}

fn delivered<'a>(heard: &'a [PodEvent], pods: &[&str]) -> Vec<(EventKind, String, &'a str)> {
    heard
        .iter()
        .filter(|event| event.kind.is_delivered() && pods.contains(&event.pod.uid.as_str()))
        .map(|event| {
            (event.kind, event.pod.uid.to_string(), event.subject.as_ref().map_or("", |subject| subject.id()))
        })
        .collect()
}

proptest! {
    /// P2, P3, P4, P5, P6, P10: facts are told once, in order, and add up to what is there; the same view again
    /// tells nothing. (P4, P6 and P10 are checked on every step, by the harness.)
    #[test]
    fn events_add_up_to_the_world(history in history()) {
        let mut run = Run::play(&history, |_| false);
        run.settle();
        let folded = fold(&run.heard).map_err(TestCaseError::fail)?;
        let expected = expected(&run.world);
        for (key, told) in &expected {
            if let Some(told) = told {
                prop_assert_eq!(folded.get(key), Some(told), "{:?}", key);
            }
        }
        for key in folded.keys() {
            prop_assert!(expected.contains_key(key), "{:?} is gone, but nobody was told", key);
        }
        for uid in PODS {
            prop_assert_eq!(run.pleg.core.committed(&uid.into()).cloned(), run.world.view(uid));
        }
        run.heard.clear();
        run.pleg.inspected.clear();
        run.settle();
        prop_assert!(run.heard.is_empty() && run.pleg.inspected.is_empty(), "nothing changed, nothing is told");
    }

    /// P1: looks change when things are told, never what is told in the end.
    #[test]
    fn hints_do_not_change_the_result(history in history()) {
        let mut with = Run::play(&history, |_| false);
        let mut without = Run::play(&history, |op| {
            matches!(
                op,
                Op::Nudge { .. } | Op::AnswerLook { .. } | Op::FailLook { .. } | Op::OpenStream | Op::EndStream | Op::Announce { .. }
            )
        });
        with.settle();
        without.settle();
        for uid in PODS {
            let uid = uid.into();
            prop_assert_eq!(with.pleg.core.committed(&uid), without.pleg.core.committed(&uid));
            prop_assert_eq!(with.pleg.cache.reader().get(&uid), without.pleg.cache.reader().get(&uid));
        }
    }

    /// P7: whether the inspections of one pod answer or hang for ever, the others hear the same. (Without announcements:
    /// when all pods are listed depends on what is known of any that is announced.)
    #[test]
    fn a_hung_pod_changes_nothing_for_the_others(history in history()) {
        let history: Vec<Op> = history
            .into_iter()
            .filter(|op| !matches!(op, Op::Inspect { .. } | Op::OpenStream | Op::Announce { .. }))
            .collect();
        let play = |hung: &[&str]| {
            let mut run = Run::play(&[], |_| false);
            run.pleg.hanging = hung.iter().map(|uid| PodUid::from(*uid)).collect();
            for op in &history {
                run.apply(op);
                run.pleg.answer_inspections();
                run.heard.append(&mut run.pleg.told);
            }
            for _ in 0..3 {
                run.pleg.start_list();
                run.apply(&Op::AnswerList);
                run.pleg.answer_inspections();
                run.heard.append(&mut run.pleg.told);
            }
            run
        };
        let (healthy, hung) = (play(&[]), play(&["C"]));
        prop_assert_eq!(delivered(&healthy.heard, &["A", "B"]), delivered(&hung.heard, &["A", "B"]));
    }
}

#[cfg(feature = "record")]
mod recorded;
