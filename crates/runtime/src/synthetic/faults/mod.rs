//! Faults on demand: delay, hang or fail any call about anyone, and spoil single entries of answers.
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
//! A call that opens the event stream is about the node and not about a pod; single events are spoiled by
//! [`corrupt`](FaultBuilder::corrupt) and [`omit`](FaultBuilder::omit), and many by
//! [`Events::tamper`](super::Events::tamper).
//!
//! Several faults may meet in one call: their delays add up, in the order they were programmed, and the
//! first error ends it. What is left to chance is decided by the seed, the call, and how many-th it is
//! of its kind, not by the order in which concurrent calls arrive.

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

/// The faults of a server. Cheap to clone; all clones program the same server.
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

    /// A fault of one operation.
    pub fn on(&self, op: Op) -> FaultBuilder {
        self.on_each(&[op])
    }

    /// A fault of several operations.
    pub fn on_each(&self, ops: &[Op]) -> FaultBuilder {
        FaultBuilder { faults: self.clone(), rule: Rule::new(ops) }
    }

    /// A fault of every operation.
    pub fn on_any(&self) -> FaultBuilder {
        self.on_each(Op::ALL)
    }

    /// Takes all faults away and lets go of the calls that hang.
    pub fn clear(&self) {
        let rules = std::mem::take(&mut self.rules.lock().active);
        for rule in rules {
            release(&rule.progress);
        }
    }

    /// Does to a call what is programmed for the moment before its work.
    pub(crate) async fn before(&self, op: Op, target: &Target) -> Result<(), Status> {
        self.pass(op, target, Moment::Before).await
    }

    /// Does to a call what is programmed for the moment after its work.
    pub(crate) async fn after(&self, op: Op, target: &Target) -> Result<(), Status> {
        self.pass(op, target, Moment::After).await
    }

    /// Whether entries in answers of this operation may be spoiled. Looked at once per answer, so that
    /// answers of thousands of entries cost nothing when no such fault is programmed.
    pub(crate) fn may_spoil(&self, op: Op) -> bool {
        self.rules.lock().active.iter().any(|rule| rule.spoils() && rule.has_op(op))
    }

    /// What is to be done to an entry of an answer.
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

/// A fault being described. The last word (`delay`, `hang`, `error`, …) programs it.
#[derive(Debug)]
#[must_use = "a fault is programmed by its last word: delay, hang, error, …"]
pub struct FaultBuilder {
    faults: Faults,
    rule: Rule,
}

impl FaultBuilder {
    /// Only calls about this pod: about its sandboxes and containers, or a list of its UID.
    pub fn pod(mut self, pod: &PodUid) -> Self {
        self.rule.about.pod = Some(pod.clone());
        self
    }

    /// Only calls about this sandbox or its containers.
    pub fn sandbox(mut self, sandbox: &SandboxId) -> Self {
        self.rule.about.sandbox = Some(sandbox.clone());
        self
    }

    /// Only calls about this container.
    pub fn container(mut self, container: &ContainerId) -> Self {
        self.rule.about.container = Some(container.clone());
        self
    }

    /// The first `n` calls that it could hit are spared.
    pub fn skip(mut self, n: u64) -> Self {
        self.rule.skip = n;
        self
    }

    /// Hits `n` times and then no more.
    pub fn times(mut self, n: u64) -> Self {
        self.rule.left = Some(n);
        self
    }

    /// Hits with this probability, by the seed.
    pub fn probability(mut self, probability: f64) -> Self {
        self.rule.probability = probability;
        self
    }

    /// Hits after the work is done and before the answer is sent, so that what was asked for happens
    /// although the caller may never hear of it.
    pub fn after_work(mut self) -> Self {
        self.rule.moment = Moment::After;
        self
    }

    /// The call takes this much longer.
    pub fn delay(self, delay: Duration) -> Fault {
        self.program(Action::Delay(delay, delay))
    }

    /// The call takes longer, by how much is random.
    pub fn delay_between(self, least: Duration, most: Duration) -> Fault {
        self.program(Action::Delay(least, most.max(least)))
    }

    /// The call hangs until [`Fault::release`], or for ever.
    pub fn hang(self) -> Fault {
        self.program(Action::Hang)
    }

    /// The call fails.
    pub fn error(self, code: Code, text: impl Into<String>) -> Fault {
        self.program(Action::Fail(code, text.into()))
    }

    /// Entries about the target are spoiled, in lists, statuses and events; the call itself goes well.
    pub fn corrupt(self, corruption: Corruption) -> Fault {
        self.program(Action::Spoil(Spoil::Corrupt(corruption)))
    }

    /// Entries about the target are missing in lists, and its events are not sent; the call itself goes well.
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

/// A programmed fault. Dropping this changes nothing: the fault stays.
#[derive(Clone)]
pub struct Fault {
    faults: Faults,
    number: u64,
    progress: watch::Sender<Progress>,
}

/// What became of a fault so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    hits: u64,
    waiting: usize,
    released: bool,
}

impl Fault {
    /// How often it has hit.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.progress.borrow().hits
    }

    /// How many calls hang on it now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.progress.borrow().waiting
    }

    /// Waits until it has hit this often.
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

    /// Lets go of the calls that hang on it, and takes it away. They go on as if nothing had been.
    pub fn release(&self) {
        self.remove();
        release(&self.progress);
    }

    /// Takes it away for calls to come. Those that hang go on hanging.
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

/// A call that hangs. It is counted out when it goes on, and also when its caller gives up.
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
