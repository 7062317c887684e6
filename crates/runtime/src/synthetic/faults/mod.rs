//! Faults on demand: delay, hang or fail any call for any target, and corrupt single entries of answers.
//!
//! A fault is programmed in one line and stays until it is used up, [removed](Fault::remove),
//! [released](Fault::release) or [cleared](Faults::clear):
//!
//! ```
//! # use std::time::Duration;
//! # use rubelet_runtime::synthetic::{Faults, Op, PodUid};
//! # use tonic::Code;
//! # fn example(faults: &Faults, pod: &PodUid) {
//! let stuck = faults.on(Op::ContainerStatus).pod(pod).hang();
//! faults.on(Op::ListContainers).times(3).error(Code::Unavailable, "connection lost");
//! faults.on_any().probability(0.1).delay(Duration::from_millis(50));
//! # }
//! ```
//!
//! The call that opens the event stream is about the node rather than a pod. Single events are corrupted with
//! [`corrupt`](FaultBuilder::corrupt) or left out with [`omit`](FaultBuilder::omit), and many of them with
//! [`Events::tamper`](super::Events::tamper).
//!
//! Several faults may apply to one call: their delays add up, in the order in which they were programmed, and the first
//! error ends the call. Random decisions depend on the seed, the call, and how many calls of its kind came before, but
//! not on the order in which concurrent calls arrive.

mod rule;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rubelet_model::{ContainerId, PodUid, SandboxId};
use tokio::sync::watch;
use tonic::{Code, Status};

use super::corrupt::Corruption;
use super::op::Op;
use super::seed::Seed;
use super::target::Target;
pub(crate) use rule::Spoil;
use rule::{Action, Moment, Rule, Step};

/// The faults of a server. It is cheap to clone; all clones refer to the same server.
#[derive(Clone)]
pub struct Faults {
    rules: Arc<Mutex<Rules>>,
    seed: Seed,
}

#[derive(Default)]
struct Rules {
    made: u64,
    active: Vec<Rule>,
}

impl Faults {
    pub(crate) fn new(seed: Seed) -> Self {
        Self { rules: Arc::default(), seed }
    }

    /// Begins a fault of one operation.
    pub fn on(&self, op: Op) -> FaultBuilder {
        self.on_each(&[op])
    }

    /// Begins a fault of several operations.
    pub fn on_each(&self, ops: &[Op]) -> FaultBuilder {
        FaultBuilder { faults: self.clone(), rule: Rule::new(ops) }
    }

    /// Begins a fault of every operation.
    pub fn on_any(&self) -> FaultBuilder {
        self.on_each(Op::ALL)
    }

    /// Removes all faults and releases the calls that hang.
    pub fn clear(&self) {
        let rules = std::mem::take(&mut self.rules.lock().active);
        for rule in rules {
            release(&rule.progress);
        }
    }

    /// Applies the faults that are programmed for the moment before a call's work.
    pub(crate) async fn before(&self, op: Op, target: &Target) -> Result<(), Status> {
        self.pass(op, target, Moment::Before).await
    }

    /// Applies the faults that are programmed for the moment after a call's work.
    pub(crate) async fn after(&self, op: Op, target: &Target) -> Result<(), Status> {
        self.pass(op, target, Moment::After).await
    }

    /// Returns whether entries in answers of this operation may be corrupted. This is checked once per answer, so that
    /// answers with thousands of entries cost nothing extra when there is no such fault.
    pub(crate) fn may_spoil(&self, op: Op) -> bool {
        self.rules.lock().active.iter().any(|rule| rule.spoils() && rule.has_op(op))
    }

    /// Returns what is to happen to an entry of an answer.
    pub(crate) fn spoil(&self, op: Op, target: &Target) -> Option<Spoil> {
        let mut rules = self.rules.lock();
        let spoil = rules.active.iter_mut().find_map(|rule| rule.spoil(self.seed, op, target));
        rules.active.retain(|rule| !rule.is_used_up());
        spoil
    }

    async fn pass(&self, op: Op, target: &Target, moment: Moment) -> Result<(), Status> {
        for step in self.steps(op, target, moment) {
            match step {
                Step::Delay(delay) => tokio::time::sleep(delay).await,
                Step::Hang(progress) => Waiting::on(progress).await,
                Step::Fail(status) => return Err(status),
            }
        }
        Ok(())
    }

    fn steps(&self, op: Op, target: &Target, moment: Moment) -> Vec<Step> {
        let mut rules = self.rules.lock();
        let mut steps = Vec::new();
        for rule in &mut rules.active {
            if let Some(step) = rule.step(self.seed, op, target, moment) {
                let last = matches!(step, Step::Fail(_));
                steps.push(step);
                if last {
                    break;
                }
            }
        }
        rules.active.retain(|rule| !rule.is_used_up());
        steps
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rules.lock().active).finish()
    }
}

/// A fault under construction. The final method (`delay`, `hang`, `error`, …) programs it.
#[derive(Debug)]
#[must_use = "a fault is programmed by its last word: delay, hang, error, …"]
pub struct FaultBuilder {
    faults: Faults,
    rule: Rule,
}

impl FaultBuilder {
    /// Restricts the fault to calls about this pod: about its sandboxes and containers, or a list of its UID.
    pub fn pod(mut self, pod: &PodUid) -> Self {
        self.rule.about.pod = Some(pod.clone());
        self
    }

    /// Restricts the fault to calls about this sandbox or its containers.
    pub fn sandbox(mut self, sandbox: &SandboxId) -> Self {
        self.rule.about.sandbox = Some(sandbox.clone());
        self
    }

    /// Restricts the fault to calls about this container.
    pub fn container(mut self, container: &ContainerId) -> Self {
        self.rule.about.container = Some(container.clone());
        self
    }

    /// Spares the first `n` calls that match.
    pub fn skip(mut self, n: u64) -> Self {
        self.rule.skip = n;
        self
    }

    /// Limits the fault to `n` hits.
    pub fn times(mut self, n: u64) -> Self {
        self.rule.left = Some(n);
        self
    }

    /// Makes the fault hit with this probability. The seed decides.
    pub fn probability(mut self, probability: f64) -> Self {
        self.rule.probability = probability;
        self
    }

    /// Makes the fault hit after the work is done and before the answer is sent: what was requested happens, although
    /// the caller may never learn of it.
    pub fn after_work(mut self) -> Self {
        self.rule.moment = Moment::After;
        self
    }

    /// Makes the call take this much longer.
    pub fn delay(self, delay: Duration) -> Fault {
        self.program(Action::Delay(delay, delay))
    }

    /// Makes the call take longer, by a random time.
    pub fn delay_between(self, least: Duration, most: Duration) -> Fault {
        self.program(Action::Delay(least, most.max(least)))
    }

    /// Makes the call hang until [`Fault::release`], or forever.
    pub fn hang(self) -> Fault {
        self.program(Action::Hang)
    }

    /// Makes the call fail.
    pub fn error(self, code: Code, text: impl Into<String>) -> Fault {
        self.program(Action::Fail(code, text.into()))
    }

    /// Corrupts entries about the target in lists, statuses and events; the call itself succeeds.
    pub fn corrupt(self, corruption: Corruption) -> Fault {
        self.program(Action::Spoil(Spoil::Corrupt(corruption)))
    }

    /// Omits entries about the target from lists, and its events; the call itself succeeds.
    pub fn omit(self) -> Fault {
        self.program(Action::Spoil(Spoil::Omit))
    }

    fn program(mut self, action: Action) -> Fault {
        self.rule.action = action;
        let progress = self.rule.progress.clone();
        let mut rules = self.faults.rules.lock();
        rules.made += 1;
        self.rule.number = rules.made;
        let number = rules.made;
        rules.active.push(self.rule);
        drop(rules);
        Fault { faults: self.faults, number, progress }
    }
}

/// A programmed fault. Dropping this has no effect: the fault stays.
#[derive(Clone)]
pub struct Fault {
    faults: Faults,
    number: u64,
    progress: watch::Sender<Progress>,
}

/// What the fault has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    hits: u64,
    waiting: usize,
    released: bool,
}

impl Fault {
    /// How many times it has hit.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.progress.borrow().hits
    }

    /// How many calls hang on it now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.progress.borrow().waiting
    }

    /// Waits until it has hit this many times.
    pub async fn until_hits(&self, hits: u64) {
        self.until(|progress| progress.hits >= hits).await;
    }

    /// Waits until this many calls hang on it at once.
    pub async fn until_waiting(&self, calls: usize) {
        self.until(|progress| progress.waiting >= calls).await;
    }

    async fn until(&self, condition: impl FnMut(&Progress) -> bool) {
        self.progress.subscribe().wait_for(condition).await.expect("the sender is in self");
    }

    /// Releases the calls that hang on it, and removes it. The calls continue as if nothing had happened.
    pub fn release(&self) {
        self.remove();
        release(&self.progress);
    }

    /// Removes it for future calls. Calls that hang on it keep hanging.
    pub fn remove(&self) {
        self.faults.rules.lock().active.retain(|rule| rule.number != self.number);
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {} {:?}", self.number, *self.progress.borrow())
    }
}

fn release(progress: &watch::Sender<Progress>) {
    progress.send_modify(|progress| progress.released = true);
}

/// A call that hangs. It stops being counted when it continues, and also when its caller gives up.
struct Waiting(watch::Sender<Progress>);

impl Waiting {
    async fn on(progress: watch::Sender<Progress>) {
        progress.send_modify(|progress| progress.waiting += 1);
        let waiting = Self(progress);
        let mut progress = waiting.0.subscribe();
        progress.wait_for(|progress| progress.released).await.expect("the sender is in `waiting`");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|progress| progress.waiting -= 1);
    }
}
