//! Limits how many probe commands run at the same time. A command costs the node far more than a request over the
//! network: a burst of commands must neither take the CPU from whatever watches the runtime nor fill the process table.
//!
//! There are three limits because three things are scarce. *Beginning* a command certainly costs CPU time, so only a
//! few begin at once. A command that has begun may work or sleep, which is unknown: for a while it is *young*, and
//! somewhat more of these are allowed. One that takes longer mostly sleeps, and only counts towards the total. So
//! neither commands that sleep for a moment nor slow ones hold up others, and however many of them work, they cannot
//! take the whole machine. One pod gets only part of the places: if all of its commands hang, those of other pods still
//! run. Commands that have to wait run late, in the order of arrival, but are never skipped; the metrics show how late
//! they are.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::metrics::ProbeMetrics;

/// After this time, a command counts as begun.
const BEGINNING: Duration = Duration::from_millis(50);

/// After this additional time, it is assumed to sleep more than it works.
const YOUTH: Duration = Duration::from_millis(450);

/// How many commands may be young for each that may begin.
const YOUNG: usize = 8;

/// One pod gets at most one place in this many.
const PART_OF_A_POD: usize = 4;

/// Limits for how many probe commands run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeLimits {
    /// How many may begin at once.
    pub begin_at_once: usize,
    /// How many may run in total.
    pub at_once: usize,
}

impl Default for ProbeLimits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { begin_at_once: processors.div_ceil(2), at_once: 64.max(8 * processors) }
    }
}

/// Admits commands. Clones are the same gate.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    beginnings: Arc<Semaphore>,
    youths: Arc<Semaphore>,
    places: Arc<Semaphore>,
    places_of_a_pod: usize,
    metrics: ProbeMetrics,
}

/// The places of one pod. Clones are the same places.
#[derive(Clone, Debug)]
pub(super) struct PodPlaces(Arc<Semaphore>);

/// Permission to run a command for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Turn {
    of_pod: Option<OwnedSemaphorePermit>,
    beginning: Option<OwnedSemaphorePermit>,
    youth: Option<OwnedSemaphorePermit>,
    place: Option<OwnedSemaphorePermit>,
    metrics: ProbeMetrics,
}

impl Gate {
    pub(crate) fn new(limits: ProbeLimits, metrics: ProbeMetrics) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.max(1)));
        Self {
            beginnings: semaphore(limits.begin_at_once),
            youths: semaphore(limits.begin_at_once.saturating_mul(YOUNG)),
            places: semaphore(limits.at_once),
            places_of_a_pod: limits.at_once.div_ceil(PART_OF_A_POD),
            metrics,
        }
    }

    /// Creates the places of a pod.
    pub(super) fn for_a_pod(&self) -> PodPlaces {
        PodPlaces(Arc::new(Semaphore::new(self.places_of_a_pod.max(1))))
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self, pod: &PodPlaces) -> Turn {
        let _waits = self.metrics.command_waits();
        // The semaphores are never closed. The pod's place comes first: a command that waits for another one of its own
        // pod is in nobody's way.
        let of_pod = pod.0.clone().acquire_owned().await.ok();
        let beginning = self.beginnings.clone().acquire_owned().await.ok();
        let youth = self.youths.clone().acquire_owned().await.ok();
        // The overall place comes last, so that only running commands hold one; commands that wait before this hold up
        // no others, which could not begin without one either.
        let place = self.places.clone().acquire_owned().await.ok();
        self.metrics.command_begins();
        Turn { of_pod, beginning, youth, place, metrics: self.metrics.clone() }
    }
}

impl Turn {
    /// Runs a command to its end. Others may begin before that, if it takes long.
    pub(super) async fn run<T>(mut self, command: impl Future<Output = T>) -> T {
        let mut command = std::pin::pin!(command);
        if let Ok(answer) = tokio::time::timeout(BEGINNING, &mut command).await {
            return answer;
        }
        self.beginning = None;
        if let Ok(answer) = tokio::time::timeout(YOUTH, &mut command).await {
            return answer;
        }
        self.youth = None;
        command.await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        (self.place, self.of_pod) = (None, None);
        self.metrics.command_ended();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    /// Runs `commands` that take `each`; returns how many ran at once at most, and how long all of them took.
    async fn storm(limits: ProbeLimits, commands: usize, each: Duration) -> (usize, Duration) {
        let gate = Gate::new(limits, ProbeMetrics::default());
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..commands {
            let (gate, running, most) = (gate.clone(), running.clone(), most.clone());
            tasks.spawn(async move {
                let command = async {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(each).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                gate.turn(&gate.for_a_pod()).await.run(command).await;
            });
        }
        assert_eq!(tasks.join_all().await.len(), commands, "nobody is left out");
        (most.load(Ordering::SeqCst), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn short_commands_take_turns() {
        let limits = ProbeLimits { begin_at_once: 2, at_once: 8 };
        let (most, took) = storm(limits, 100, Duration::from_millis(20)).await;
        assert_eq!((most, took), (2, Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn commands_that_sleep_for_a_moment_do_not_hold_up_those_that_wait_to_begin() {
        let limits = ProbeLimits { begin_at_once: 1, at_once: 64 };
        let (most, took) = storm(limits, 100, Duration::from_millis(400)).await;
        assert!(took < Duration::from_secs(10), "as many as come in ten seconds: {took:?}");
        assert!(most <= YOUNG, "however many there are: {most}");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_commands_do_not_hold_up_those_that_wait_to_begin() {
        let limits = ProbeLimits { begin_at_once: 2, at_once: 8 };
        let (most, took) = storm(limits, 16, Duration::from_secs(10)).await;
        assert_eq!(most, 8, "but there is a limit to all");
        assert!(took < Duration::from_secs(23), "two rounds of eight, not eight of two: {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_takes_no_turn() {
        let gate = Gate::new(ProbeLimits { begin_at_once: 1, at_once: 1 }, ProbeMetrics::default());
        let turn = async || gate.turn(&gate.for_a_pod()).await;
        let held = turn().await;
        assert!(tokio::time::timeout(Duration::from_secs(1), turn()).await.is_err());
        drop(held);
        assert!(tokio::time::timeout(Duration::from_secs(1), turn()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn commands_of_one_pod_that_hang_leave_places_to_others() {
        let gate = Gate::new(ProbeLimits { begin_at_once: 2, at_once: 8 }, ProbeMetrics::default());
        let (one, other) = (gate.for_a_pod(), gate.for_a_pod());
        let mut hanging = JoinSet::new();
        for _ in 0..20 {
            let (gate, one) = (gate.clone(), one.clone());
            hanging.spawn(async move { gate.turn(&one).await.run(std::future::pending::<()>()).await });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let turn = tokio::time::timeout(Duration::from_secs(1), gate.turn(&other)).await;
        assert!(turn.is_ok(), "of another pod");
        assert!(tokio::time::timeout(Duration::from_secs(1), gate.turn(&one)).await.is_err(), "of the same");
    }
}
