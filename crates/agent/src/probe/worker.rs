//! The task of one probe: it waits, asks, and reports the verdicts to its pod.

use std::sync::Arc;
use std::time::Duration;

use pleg::Stamp;
use rubelet_model::PodRef;
use tokio::sync::watch;

use super::ask::{Answer, AskError, Question};
use super::course::{Course, Kind, Verdict};
use super::gate::PodPlaces;
use super::pace::Pace;
use super::pod_probes::Prober;
use super::verdicts::Verdicts;
use crate::pod::Journal;
use crate::runtime::Runtime;

/// How often to try to ask before a round is given up.
const TRIES: usize = 3;

/// The task of one probe of one instance of a container.
pub(super) struct Worker<R> {
    pub(super) prober: Arc<Prober<R>>,
    pub(super) journal: Journal,
    pub(super) pod: PodRef,
    pub(super) places: PodPlaces,
    pub(super) kind: Kind,
    pub(super) question: Question,
    pub(super) pace: Pace,
    pub(super) course: Course,
    pub(super) verdicts: watch::Sender<Verdicts>,
    /// How long the container is left alone, whatever its startup probe says.
    pub(super) delay: Duration,
    /// Until when it does not count as a failure if the container has not started.
    pub(super) lenient_until: Stamp,
    /// Whether it waits for the startup probe.
    pub(super) follows_startup: bool,
}

impl<R: Runtime> Worker<R> {
    /// Runs until there is nothing more to find out about this instance. Whoever started it ends it together with the
    /// instance.
    pub(super) async fn run(mut self) {
        if self.course.is_over() {
            return;
        }
        let clock = self.prober.clock.clone();
        let mut due = clock.stamp().plus(self.delay);
        if self.follows_startup {
            self.started().await;
            due = due.max(clock.stamp());
        }
        loop {
            tokio::time::sleep_until(clock.instant(due)).await;
            let answer = self.round(due).await;
            self.course.hear(answer);
            let verdict = self.course.verdict();
            let (id, kind) = (&self.question.id, self.kind);
            self.verdicts.send_if_modified(|verdicts| verdicts.set(id, kind, verdict));
            if self.course.is_over() {
                return;
            }
            due = self.pace.next(due, clock.stamp());
        }
    }

    /// Waits until the startup probe has succeeded.
    async fn started(&self) {
        let id = &self.question.id;
        let mut verdicts = self.verdicts.subscribe();
        // This struct holds a sender, so the channel cannot be closed.
        let _ = verdicts.wait_for(|verdicts| verdicts.of(id).startup == Some(Verdict::Success)).await;
    }

    /// Asks once, retrying if the container could not be asked; `None` if that never worked.
    async fn round(&self, due: Stamp) -> Option<Verdict> {
        let Prober { asker, clock, metrics } = &*self.prober;
        let turn = asker.turn(&self.question, &self.places).await;
        let begun = clock.stamp();
        metrics.late(self.kind, due.until(begun));
        let answer = match turn {
            Some(turn) => turn.run(self.ask()).await,
            None => self.ask().await,
        };
        let verdict = answer.as_ref().ok().map(Answer::verdict);
        let took = begun.until(clock.stamp());
        metrics.answered(self.kind, &self.pod, &self.question.container.name, verdict, took);
        if self.kind == Kind::Startup && verdict == Some(Verdict::Failure) && due < self.lenient_until {
            return None;
        }
        self.tell(&answer);
        verdict
    }

    async fn ask(&self) -> Result<Answer, AskError> {
        let mut answer = self.prober.asker.ask(&self.question).await;
        for _ in 1..TRIES {
            if answer.is_ok() {
                break;
            }
            answer = self.prober.asker.ask(&self.question).await;
        }
        answer
    }

    /// Reports what users should know about an answer.
    fn tell(&self, answer: &Result<Answer, AskError>) {
        let kind = self.kind.as_str();
        let (reason, message) = match answer {
            Ok(Answer::Good) => return,
            Ok(Answer::Odd(what)) => ("ProbeWarning", format!("{kind} probe warning: {what}")),
            Ok(Answer::Bad(said)) => ("Unhealthy", format!("{kind} probe failed: {said}")),
            Err(error) => {
                let message = format!("{kind} probe errored and resulted in unknown state: {error}");
                ("Unhealthy", message)
            }
        };
        let container = self.question.container.name.as_str();
        tracing::debug!(pod = %self.pod, container, message, "a probe did not succeed");
        self.journal.warning(Some(container), reason, message);
    }
}
