//! The record of every call, with which a test checks the caller.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Code;

use super::op::Op;
use super::target::Target;

/// How many calls the log keeps. The counters include all of them.
const LOG_LENGTH: usize = 65_536;

/// A finished call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number, from 0 without gaps, in order of arrival.
    pub number: u64,
    /// The operation.
    pub op: Op,
    /// What it was about.
    pub target: Target,
    /// When it arrived.
    pub arrived: Instant,
    /// How long it took until the answer was ready or the caller gave up.
    pub took: Duration,
    /// How it was answered; `None` if the caller gave up first.
    pub answer: Option<Code>,
}

/// A call that has not finished.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The operation.
    pub op: Op,
    /// What it is about.
    pub target: Target,
    /// How long it has been waiting.
    pub age: Duration,
}

/// Counters of one operation, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Calls that arrived.
    pub total: u64,
    /// Calls that are in progress.
    pub in_flight: usize,
    /// The highest number of calls in progress at once.
    pub max_in_flight: usize,
    /// The duration of the longest finished call.
    pub longest: Duration,
    /// Answers that were errors.
    pub errors: u64,
    /// Calls whose caller gave up before the answer.
    pub abandoned: u64,
}

impl Count {
    fn arrive(&mut self) {
        self.total += 1;
        self.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
    }

    fn leave(&mut self, took: Duration, answer: Option<Code>) {
        self.in_flight -= 1;
        self.longest = self.longest.max(took);
        match answer {
            None => self.abandoned += 1,
            Some(Code::Ok) => {}
            Some(_) => self.errors += 1,
        }
    }
}

/// The log of a server's calls. It is cheap to clone; all clones refer to the same log.
#[derive(Clone)]
pub struct Calls {
    state: Arc<Mutex<State>>,
    /// Incremented by every arrival and end of a call, for those who wait for one.
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// All operations except the event stream, which stays open.
    all: Count,
    by_op: BTreeMap<Op, Count>,
    pending: BTreeMap<u64, (Op, Target, Instant)>,
    log: VecDeque<Call>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), version: watch::Sender::new(0) }
    }

    /// Returns the counters of one operation.
    #[must_use]
    pub fn of(&self, op: Op) -> Count {
        self.state.lock().by_op.get(&op).copied().unwrap_or_default()
    }

    /// Returns the counters of all operations together, except the event stream, which stays open.
    #[must_use]
    pub fn all(&self) -> Count {
        self.state.lock().all
    }

    /// Returns the calls in progress, oldest first, including event streams.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        let now = Instant::now();
        let state = self.state.lock();
        let pending = state.pending.values();
        pending
            .map(|(op, target, since)| Pending { op: *op, target: target.clone(), age: now - *since })
            .collect()
    }

    /// Returns the finished calls in the order in which they ended; at most the last 65,536.
    #[must_use]
    pub fn log(&self) -> Vec<Call> {
        self.state.lock().log.iter().cloned().collect()
    }

    /// Counts how often an operation was called for a target, answered or not.
    #[must_use]
    pub fn count(&self, op: Op, target: impl Fn(&Target) -> bool) -> usize {
        let state = self.state.lock();
        let over = state.log.iter().filter(|call| call.op == op && target(&call.target)).count();
        over + state.pending.values().filter(|(other, whom, _)| *other == op && target(whom)).count()
    }

    /// Forgets finished calls. Calls in progress stay.
    pub fn reset(&self) {
        let mut state = self.state.lock();
        let State { all, by_op, log, .. } = &mut *state;
        for count in by_op.values_mut().chain([all]) {
            *count = Count { in_flight: count.in_flight, max_in_flight: count.in_flight, ..Count::default() };
        }
        log.clear();
    }

    /// Returns the number of calls that could have changed something, finished or not.
    #[must_use]
    pub fn mutating(&self) -> u64 {
        let state = self.state.lock();
        state.by_op.iter().filter(|(op, _)| op.is_mutating()).map(|(_, count)| count.total).sum()
    }

    /// Fails the test if any call could have changed something.
    ///
    /// # Panics
    /// If so, naming the operations.
    #[track_caller]
    pub fn assert_read_only(&self) {
        let state = self.state.lock();
        let changing: Vec<_> =
            state.by_op.iter().filter(|(op, count)| op.is_mutating() && count.total > 0).collect();
        assert!(changing.is_empty(), "calls that change the runtime: {changing:?}");
    }

    /// Waits until a condition on the calls holds. It is evaluated whenever a call arrives or ends.
    pub async fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        let mut version = self.version.subscribe();
        loop {
            version.borrow_and_update();
            if condition(self) {
                return;
            }
            version.changed().await.expect("the sender is in self");
        }
    }

    pub(crate) fn arrive(&self, op: Op, target: Target) -> InFlight {
        let arrived = Instant::now();
        let number = {
            let mut state = self.state.lock();
            let number = state.next;
            state.next += 1;
            state.by_op.entry(op).or_default().arrive();
            if op != Op::GetContainerEvents {
                state.all.arrive();
            }
            state.pending.insert(number, (op, target, arrived));
            number
        };
        self.version.send_modify(|version| *version += 1);
        InFlight { calls: self.clone(), number, answer: None }
    }

    fn leave(&self, number: u64, answer: Option<Code>) {
        {
            let mut state = self.state.lock();
            let Some((op, target, arrived)) = state.pending.remove(&number) else { return };
            let took = arrived.elapsed();
            state.by_op.entry(op).or_default().leave(took, answer);
            if op != Op::GetContainerEvents {
                state.all.leave(took, answer);
            }
            if state.log.len() == LOG_LENGTH {
                state.log.pop_front();
            }
            state.log.push_back(Call { number, op, target, arrived, took, answer });
        }
        self.version.send_modify(|version| *version += 1);
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_map().entries(&state.by_op).finish()
    }
}

/// A call while it is being answered. Dropping this removes it from the counters, also when the caller went away.
#[derive(Debug)]
pub(crate) struct InFlight {
    calls: Calls,
    number: u64,
    answer: Option<Code>,
}

impl InFlight {
    pub(crate) fn answered(&mut self, code: Code) {
        self.answer = Some(code);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.calls.leave(self.number, self.answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn counters_follow_calls_in_and_out() {
        let calls = Calls::new();
        let first = calls.arrive(Op::ContainerStatus, Target::NODE);
        let mut second = calls.arrive(Op::ContainerStatus, Target::NODE);
        second.answered(Code::Ok);
        drop(second);
        drop(first);
        let mut third = calls.arrive(Op::ListContainers, Target::NODE);
        third.answered(Code::Internal);
        calls.until(|calls| calls.of(Op::ListContainers).in_flight == 1).await;
        drop(third);
        let status = calls.of(Op::ContainerStatus);
        assert_eq!((status.total, status.in_flight, status.max_in_flight, status.abandoned), (2, 0, 2, 1));
        assert_eq!((calls.all().total, calls.all().max_in_flight, calls.all().errors), (3, 2, 1));
        assert_eq!(calls.log().len(), 3);
        calls.assert_read_only();
        calls.reset();
        assert_eq!(calls.all(), Count::default());
    }
}
