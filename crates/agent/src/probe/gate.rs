//! How many commands of probes run at the same time. A command costs the node far more than a question over the network:
//! a storm of them must neither take the processors from those who watch the runtime nor fill the process table.
//!
//! Three limits, because three things are scarce. To *begin* a command costs processor time for sure, so only a few begin
//! at once. One that has begun may work or sleep, nobody knows: it is *young* for a while, of which there may be some more.
//! One that takes longer mostly sleeps, and counts only among all that there may be. So neither commands that sleep for a
//! moment nor slow ones hold up those of others, and however many work, they cannot take all of the machine. One pod gets a
//! part of the places only: if all of its commands hang, those of other pods still run. A command that has to wait is late, in
//! the order of arrival, and never left out; how late shows in the metrics.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::metrics::ProbeMetrics;

/// After this long a command is taken to have begun.
const BEGINNING: Duration = Duration::from_millis(50);

/// And after this long more, to sleep more than it works.
const YOUTH: Duration = Duration::from_millis(450);

/// How many are young for each that begins.
const YOUNG: usize = 8;

/// One pod gets at most this part of all places.
const PART_OF_A_POD: usize = 4;

/// How many commands of probes run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeLimits {
    /// How many begin at once.
    pub begin_at_once: usize,
    /// How many there are in all.
    pub at_once: usize,
}

impl Default for ProbeLimits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { begin_at_once: processors.div_ceil(2), at_once: 64.max(8 * processors) }
    }
}

/// Lets commands through. Clones are the same gate.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    beginnings: Arc<Semaphore>,
    youths: Arc<Semaphore>,
    places: Arc<Semaphore>,
    places_of_a_pod: usize,
    metrics: ProbeMetrics,
}

/// The places of one pod. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct PodPlaces(Arc<Semaphore>);

/// Leave to run a command, for as long as this lives.
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

    /// The places of a pod.
    pub(super) fn for_a_pod(&self) -> PodPlaces {
        PodPlaces(Arc::new(Semaphore::new(self.places_of_a_pod.max(1))))
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self, pod: &PodPlaces) -> Turn {
        let _waits = self.metrics.command_waits();
        // Nobody closes them. That of its pod first: a command that waits for another of its own pod is in nobody's way.
        let of_pod = pod.0.clone().acquire_owned().await.ok();
        let beginning = self.beginnings.clone().acquire_owned().await.ok();
        let youth = self.youths.clone().acquire_owned().await.ok();
        // Last, so that only what runs has a place: those before it hold up nobody, as nobody could begin without one.
        let place = self.places.clone().acquire_owned().await.ok();
        self.metrics.command_begins();
        Turn { of_pod, beginning, youth, place, metrics: self.metrics.clone() }
    }
}

impl Turn {
    /// Runs a command to its end. Others may begin before that, if it takes its time.
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

    /// Runs `commands` that take `each`; gives how many ran at once at most, and how long all took.
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
