//! The invariants P1–P7, P9 and P10, over random histories of a small node.
//!
//! A history is a list of [`Op`]s: the world changes, time passes, calls are made, and their answers come in any order,
//! late, or with an error. `PROPTEST_CASES` sets the number of histories; a failure prints its seed.

mod op;
#[cfg(feature = "record")]
mod recorded;
mod witness;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use rubelet_model::{ContainerState, PodStatus, RuntimePod, SandboxState};

use super::harness::{Harness, pod};
use super::*;
use crate::announce::{LifeStep, StreamError};
use crate::diff::Seen;
use crate::event::{EventKind, PodEvent};
use op::{Op, any_history, history};
use witness::Witness;
use world::World;

const PODS: [&str; 3] = ["A", "B", "C"];

/// A history in progress.
struct Run {
    pleg: Harness,
    world: World,
    forgets: Option<(&'static str, Option<usize>)>,
    moments: Vec<Stamp>,
    heard: Vec<PodEvent>,
    /// Whether things take the steps of their life only once, and never backwards.
    is_orderly: bool,
    witness: Witness,
    /// What the inspections in progress would have found when they began.
    read_early: BTreeMap<u64, PodStatus>,
}

impl Run {
    fn new() -> Self {
        Self {
            pleg: Harness::new(),
            world: World::default(),
            forgets: None,
            moments: Vec::new(),
            heard: Vec::new(),
            is_orderly: false,
            witness: Witness::default(),
            read_early: BTreeMap::new(),
        }
    }

    /// Plays a history in which nothing existed before the first list, and everything behaves as in a real runtime.
    fn play_orderly(history: &[Op]) -> Self {
        let mut run = Self::new();
        run.is_orderly = true;
        run.pleg.tick();
        run.apply(&Op::AnswerList);
        for op in history {
            run.apply(op);
            run.check_step(op);
        }
        run
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
            Op::Create { pod, state, code } => {
                self.world.made += 1;
                let id = format!("{}-c{}", PODS[pod], self.world.made);
                self.set(PODS[pod], id, state, code, at);
            }
            Op::Change { pod, which, state, code } => {
                if let Some(id) = self.world.nth(PODS[pod], which) {
                    self.set(PODS[pod], id, state, code, at);
                }
            }
            Op::KnowBetter { pod, which } => {
                let Some(id) = self.world.nth(PODS[pod], which) else { return };
                let better = match self.pleg.exits.get(&id) {
                    Some((255 | -1, _)) => (0, "Completed"),
                    Some((137, "Error")) => (137, "OOMKilled"),
                    Some(_) | None => return,
                };
                self.pleg.exits.insert(id.clone(), better);
                self.witness.known_better.insert(id, at);
            }
            Op::Sandbox { pod, state } => {
                self.world.made += 1;
                let id = format!("{}-s{}", PODS[pod], self.world.made / 4);
                let sandbox = self.world.sandboxes.entry(PODS[pod]).or_insert((id, state));
                if self.is_orderly && (sandbox.1 != SandboxState::Ready || state == SandboxState::Unknown) {
                    return;
                }
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
                    // The very first list cannot be compared with anything and is believed.
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
            Op::Inspect { which, fails, is_quick } => self.inspect(which, fails, is_quick),
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
        self.read_early();
        self.hear();
    }

    fn hear(&mut self) {
        let now = self.pleg.now().stamp;
        if self.is_orderly {
            for event in &self.pleg.told {
                self.witness.hears(event, &self.world, now);
            }
        }
        self.heard.append(&mut self.pleg.told);
    }

    fn set(&mut self, uid: &'static str, id: String, state: ContainerState, code: i32, at: Stamp) {
        let before = self.world.containers.get(uid).and_then(|containers| containers.get(&id)).copied();
        let order = [ContainerState::Created, ContainerState::Running, ContainerState::Exited];
        let step = |state: ContainerState| order.iter().position(|other| *other == state);
        if self.is_orderly
            && (step(state).is_none() || before.is_some_and(|before| step(before) >= step(state)))
        {
            return;
        }
        if state == ContainerState::Exited {
            // A container runs once, whatever states it passes through: of two different ends without a look between
            // them, whoever looks first would report one, and nobody looks at an unchanged view again.
            self.pleg.exits.entry(id.clone()).or_insert((code, "Error"));
        }
        self.world.set(uid, id, state, at);
    }

    /// What is true now of the things that an inspection asks about.
    fn read(&self, asked_for: &RuntimePod) -> PodStatus {
        let uid = PODS.into_iter().find(|pod| *pod == asked_for.pod.uid.as_str()).expect("one of ours");
        let mut now = self.world.view(uid).unwrap_or_else(|| pod(uid, &[]));
        now.containers.retain(|container| asked_for.containers.iter().any(|asked| asked.id == container.id));
        now.sandboxes.retain(|sandbox| asked_for.sandboxes.iter().any(|asked| asked.id == sandbox.id));
        self.pleg.status_of(&now)
    }

    /// Keeps what the inspections find that have just begun.
    fn read_early(&mut self) {
        for (which, asked_for) in self.pleg.inspecting().into_iter().enumerate() {
            let (ticket, _) = self.pleg.inspection(which);
            if !self.read_early.contains_key(&ticket) {
                self.read_early.insert(ticket, self.read(&asked_for));
            }
        }
    }

    fn inspect(&mut self, which: usize, fails: bool, is_quick: bool) {
        let Some(asked_for) = self.pleg.inspecting().get(which).cloned() else { return };
        let (ticket, begun) = self.pleg.inspection(which);
        let early = self.read_early.get(&ticket).filter(|_| !is_quick).cloned();
        let status = early.unwrap_or_else(|| self.read(&asked_for));
        if !fails {
            let answered = self.pleg.now().stamp;
            self.witness.inspects(&asked_for, &status, begun, answered);
        }
        self.pleg.answer_inspection_by(which, (!fails).then_some(status));
    }

    /// Lets everything settle, with all calls answered.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.pleg.start_list();
            self.apply(&Op::AnswerList);
            for _ in 0..8 {
                self.apply(&Op::Inspect { which: 0, fails: false, is_quick: true });
            }
        }
    }

    /// Lets time pass while lists and looks are answered but inspections are not: they fail if `fails`, and get no
    /// answer otherwise.
    fn stall(&mut self, time: Duration, fails: bool) {
        let until = self.pleg.now().stamp.plus(time);
        while self.pleg.now().stamp < until {
            self.apply(&Op::Pass { millis: 100 });
            self.apply(&Op::AnswerList);
            for pod in 0..PODS.len() {
                self.apply(&Op::AnswerLook { pod });
            }
            while fails && !self.pleg.inspecting().is_empty() {
                self.apply(&Op::Inspect { which: 0, fails: true, is_quick: true });
            }
        }
    }

    fn check_step(&self, op: &Op) {
        self.check_freshness(op);
    }

    /// P5: what `newer_than(m)` returns was read after `m`: it has no state that was over by then, and nothing is
    /// missing that existed all the time.
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

/// What is on the node according to the events.
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

/// What the events should have reported of this world; `None` for states that are not reported.
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
    /// P2, P3, P4, P5, P6, P10: facts are reported once, in order, and add up to what is there; the same view again
    /// yields no events. (The harness checks P4, P6 and P10 at every step.)
    #[test]
    fn events_add_up_to_the_world(history in any_history()) {
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

    /// P1: hints change when something is reported, never what has been reported in the end.
    #[test]
    fn hints_do_not_change_the_result(history in any_history()) {
        // Whether the runtime is seen to know better depends on when somebody looks.
        let history: Vec<Op> = history.into_iter().filter(|op| !matches!(op, Op::KnowBetter { .. })).collect();
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

    /// P9: everything that a successful inspection has shown is reported soon, whatever is looked at meanwhile, and
    /// whatever becomes of later inspections.
    #[test]
    fn what_a_good_inspection_has_shown_is_told_soon(history in any_history(), fails in any::<bool>()) {
        let mut run = Run::play_orderly(&history);
        run.stall(Duration::from_secs(5), fails);
        for fact in &run.witness.shown {
            prop_assert!(run.witness.told.contains_key(fact), "{:?} was shown and not told", fact);
        }
    }

    /// Every end that may be incomplete or made up has its second look, and what the runtime has found out by then is
    /// in the cache. (That a made-up end is not reported before is checked at every step.)
    #[test]
    fn what_is_known_better_by_the_second_look_is_found_out(history in any_history()) {
        let mut run = Run::play_orderly(&history);
        run.settle();
        for (id, due) in run.witness.second_looks() {
            let Some(pod) = run.world.pod_of(id) else { continue };
            let status = run.pleg.cached(pod).expect("it can be inspected");
            let container = status.containers.iter().find(|container| container.id.as_str() == id);
            let found = container.map(|container| (container.exit_code, &*container.reason));
            let is_settled = matches!(found, Some((0, _) | (_, "OOMKilled")));
            let is_known_better = run.witness.known_better.get(id).is_some_and(|at| *at < due);
            prop_assert!(is_settled || run.witness.has_been_inspected(pod, due), "nobody has looked at {id} again");
            prop_assert!(is_settled || !is_known_better, "{id}: {found:?}");
        }
    }

    /// P7: whether the inspections of one pod are answered or hang for ever, subscribers receive the same events of the
    /// other pods. (Without announcements, since those of any pod may change when all pods are listed.)
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
                run.hear();
            }
            for _ in 0..3 {
                run.pleg.start_list();
                run.apply(&Op::AnswerList);
                run.pleg.answer_inspections();
                run.hear();
            }
            run
        };
        let (healthy, hung) = (play(&[]), play(&["C"]));
        prop_assert_eq!(delivered(&healthy.heard, &["A", "B"]), delivered(&hung.heard, &["A", "B"]));
    }
}
