//! One programmed fault: which calls it hits, when, and what it does.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use tonic::{Code, Status};

use super::super::corrupt::Corruption;
use super::super::op::Op;
use super::super::seed::Seed;
use super::super::target::Target;
use super::Progress;

/// The moment in a call at which a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Before,
    After,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Delay(Duration, Duration),
    Hang,
    Fail(Code, String),
    Spoil(Spoil),
}

/// What happens to one entry of an answer, while the call itself succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoil {
    Corrupt(Corruption),
    Omit,
}

/// What a fault does to a call.
pub(super) enum Step {
    Delay(Duration),
    Hang(watch::Sender<Progress>),
    Fail(Status),
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) number: u64,
    ops: Vec<Op>,
    /// The target; a field that is `None` matches anything.
    pub(super) about: Target,
    pub(super) skip: u64,
    /// The number of hits left; `None` for no limit.
    pub(super) left: Option<u64>,
    pub(super) probability: f64,
    pub(super) moment: Moment,
    pub(super) action: Action,
    pub(super) progress: watch::Sender<Progress>,
    /// How many times each call for each target was checked: it names the next random decision.
    seen: HashMap<(Op, Target), u64>,
}

impl Rule {
    pub(super) fn new(ops: &[Op]) -> Self {
        Self {
            number: 0,
            ops: ops.to_vec(),
            about: Target::NODE,
            skip: 0,
            left: None,
            probability: 1.0,
            moment: Moment::Before,
            action: Action::Hang,
            progress: watch::Sender::new(Progress::default()),
            seen: HashMap::new(),
        }
    }

    pub(super) fn has_op(&self, op: Op) -> bool {
        self.ops.contains(&op)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.left == Some(0)
    }

    /// Returns what it does to this call, if anything.
    pub(super) fn step(&mut self, seed: Seed, op: Op, target: &Target, moment: Moment) -> Option<Step> {
        if self.moment != moment || self.spoils() {
            return None;
        }
        let nth = self.hit(seed, op, target)?;
        Some(match &self.action {
            Action::Delay(least, most) if least == most => Step::Delay(*least),
            Action::Delay(least, most) => {
                let mut rng = seed.rng("delay", &self.name_of(op, target), nth);
                Step::Delay(*least + (*most - *least).mul_f64(rng.f64()))
            }
            Action::Hang => Step::Hang(self.progress.clone()),
            Action::Fail(code, text) => Step::Fail(Status::new(*code, text.clone())),
            Action::Spoil(_) => return None,
        })
    }

    /// Returns whether it affects entries of answers rather than calls.
    pub(super) fn spoils(&self) -> bool {
        matches!(self.action, Action::Spoil(_))
    }

    /// Returns what it does to an entry of an answer, if anything.
    pub(super) fn spoil(&mut self, seed: Seed, op: Op, target: &Target) -> Option<Spoil> {
        let Action::Spoil(spoil) = self.action else { return None };
        self.hit(seed, op, target).map(|_| spoil)
    }

    /// If it hits, returns the number of this check, counted from 1 for each call and target.
    fn hit(&mut self, seed: Seed, op: Op, target: &Target) -> Option<u64> {
        if self.is_used_up() || !self.has_op(op) || !self.is_about(target) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let nth = self.seen.entry((op, target.clone())).or_default();
        *nth += 1;
        let nth = *nth;
        if !seed.happens(self.probability, "fault", &self.name_of(op, target), nth) {
            return None;
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        self.progress.send_modify(|progress| progress.hits += 1);
        Some(nth)
    }

    fn is_about(&self, target: &Target) -> bool {
        fn agrees<T: PartialEq>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        agrees(self.about.pod.as_ref(), target.pod.as_ref())
            && agrees(self.about.sandbox.as_ref(), target.sandbox.as_ref())
            && agrees(self.about.container.as_ref(), target.container.as_ref())
    }

    fn name_of(&self, op: Op, target: &Target) -> String {
        format!("{} {op} {target}", self.number)
    }
}
