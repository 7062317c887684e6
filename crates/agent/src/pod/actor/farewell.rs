//! The end of a pod: what runs is ended, what it used is given back, and finally nothing is left of it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pleg::Stamp;
use rubelet_model::{PodStatus, SandboxState};
use tokio::sync::mpsc;

use super::{Actor, Next, sleep_until};
use crate::pod::act::{CleanupError, Killer, Work, may_run, release};
use crate::pod::backoff::{Backoffs, Growth};
use crate::pod::lifecycle::{Ending, Lifecycle};
use crate::pod::spec;
use crate::runtime::{CallError, CallFailure, ImageStore, Runtime};

/// How long to wait before trying again to end a pod that would not end.
const KILL_RETRY: Duration = Duration::from_secs(2);

/// How long to wait before trying again to remove what is left of a pod.
const CLEARING: Growth = Growth { initial: KILL_RETRY, max: Duration::from_secs(60) };

/// How long after an unanswered call its result may still appear.
const LATE_COMERS: Duration = Duration::from_secs(5);

/// The progress of ending a pod.
pub(super) struct Farewell {
    /// Until when a pod that would not end is left alone.
    kill_held_until: Option<Stamp>,
    /// Whether the volumes and the control group of a pod that has ended were given back.
    is_released: bool,
    /// Whether something of the pod came up after all of it had ended.
    is_late: bool,
    /// Why the last attempt to remove what is left of the pod failed.
    not_cleared_for: Option<String>,
    clearings: Backoffs,
}

impl Default for Farewell {
    fn default() -> Self {
        Self {
            kill_held_until: None,
            is_released: false,
            is_late: false,
            not_cleared_for: None,
            clearings: Backoffs::new(CLEARING),
        }
    }
}

impl<R: Runtime + ImageStore> Actor<R> {
    pub(super) async fn terminate(&mut self, pod: &Arc<Pod>, ending: Ending) -> Next {
        let status = match self.fresh_status().await {
            Ok(status) => status,
            Err(next) => return next,
        };
        self.lacks_sandbox = !is_up(&status);
        if self.lacks_sandbox {
            self.publish_last(&status);
            self.transition(Lifecycle::stopped);
            self.probes.end();
            return Next::Again;
        }
        self.publish(&status);
        self.end_what_runs(pod, &status, ending).await
    }

    /// Ends what runs of the pod, unless that was tried just before.
    async fn end_what_runs(&mut self, pod: &Arc<Pod>, status: &PodStatus, ending: Ending) -> Next {
        let now = self.tools.clock.stamp();
        if let Some(until) = self.farewell.kill_held_until.filter(|until| now < *until) {
            return Next::Idle(Some(until));
        }
        let (mailbox, tools, journal) = (self.mailbox.clone(), self.tools.clone(), self.journal.clone());
        let hooks = self.memory.hooks.clone();
        let killer = Killer { tools: &tools, pod, journal: &journal, ips: &status.ips, hooks: &hooks };
        let mut killing = std::pin::pin!(killer.pod(status, Some(ending.left(now))));
        let killed = loop {
            tokio::select! {
                biased;
                () = mailbox.interrupted(Some(ending.grace)) => break None,
                killed = &mut killing => break Some(killed),
                () = self.probes.changed() => self.publish_verdicts(),
                () = journal.changed() => self.publish_again(),
            }
        };
        self.note_action();
        let is_away = |error: &CallError| error.failure == CallFailure::Unavailable;
        // The grace period starts with the first `preStop` hook. Hooks of instances that had ended before do not count.
        let to_end = status.containers.iter().filter(|container| may_run(container)).map(|one| &one.id);
        if hooks.any_has_run(to_end) || !matches!(&killed, Some(Err(error)) if is_away(error)) {
            self.transition(|lifecycle| lifecycle.told(now));
        }
        if let Some(Err(error)) = &killed {
            self.journal.warning(None, "FailedKillPod", format!("error killing pod: {error}"));
            tracing::warn!(pod = %spec::pod_ref(pod), %error, "cannot stop a pod, trying again");
        }
        // Whether it worked shows in the next status. If it did not, there is no hurry to try again.
        self.farewell.kill_held_until = killed.map(|_| self.acted.plus(KILL_RETRY));
        Next::Again
    }

    /// Gives back what the pod used, or removes all of it: nothing of the pod should run any more.
    pub(super) async fn clear(&mut self, pod: &Arc<Pod>, ending: Ending) -> Next {
        let status = match self.fresh_status().await {
            Ok(status) => status,
            Err(next) => return next,
        };
        if is_up(&status) {
            // The runtime did late what it was asked to do, and the late comer may again use what was given back.
            (self.farewell.is_late, self.farewell.is_released) = (true, false);
            return self.end_what_runs(pod, &status, ending).await;
        }
        if std::mem::take(&mut self.farewell.is_late) {
            self.publish_last(&status);
            self.probes.end();
        }
        if ending.forget { self.forget(pod, &status).await } else { self.release().await }
    }

    /// Gives back what the pod used; the rest of it stays to be inspected.
    async fn release(&mut self) -> Next {
        if self.farewell.is_released {
            return Next::Idle(None);
        }
        self.memory.lost_volumes();
        match release(&self.tools, &self.unbroken, &self.uid).await {
            Ok(()) => {
                self.farewell.is_released = true;
                Next::Idle(None)
            }
            Err(error) => self.not_cleared(&error),
        }
    }

    async fn forget(&mut self, pod: &Arc<Pod>, status: &PodStatus) -> Next {
        if let Some(until) = self.may_come_yet(status).await {
            sleep_until(&self.tools.clock, Some(until)).await;
            self.note_action();
            return Next::Again;
        }
        let work = Work {
            tools: &self.tools,
            pod,
            objects: &self.objects,
            status,
            memory: &mut self.memory,
            journal: &self.journal,
            unbroken: &self.unbroken,
            milestones: &mpsc::channel(1).0,
        };
        let forgotten = work.forget().await;
        self.note_action();
        match forgotten {
            Ok(()) => {
                // The next pod with this UID must not find a status of what is gone. An error will do as well: it is
                // not a status.
                let _ = self.cache.newer_than(&self.uid, self.acted).await;
                Next::Gone
            }
            Err(error) => self.not_cleared(&error),
        }
    }

    /// Reports that what is left of the pod cannot be removed, and tries again at growing intervals.
    fn not_cleared(&mut self, error: &CleanupError) -> Next {
        let why = error.to_string();
        if self.farewell.not_cleared_for.as_ref() != Some(&why) {
            tracing::warn!(pod = %spec::pod_ref(self.lifecycle.pod()), %error, "cannot clean up after a pod, trying \
                                                                                again");
        }
        let message = format!("error cleaning up after the pod: {why}");
        self.journal.warning(None, "FailedKillPod", message);
        self.farewell.not_cleared_for = Some(why);
        let now = self.tools.clock.stamp();
        self.farewell.clearings.failed(self.uid.as_str(), now);
        let wait = self.farewell.clearings.wait_since_failure(self.uid.as_str(), now);
        Next::Idle(Some(wait.map_or(now, |wait| wait.until)))
    }

    /// Until when something of the pod may still appear, if nothing of it is there: what an earlier agent requested
    /// just before it was killed, or an unanswered call of ours. Once the pod is forgotten, nobody would know whose it
    /// is.
    async fn may_come_yet(&self, status: &PodStatus) -> Option<Stamp> {
        let is_there = !status.sandboxes.is_empty() || !status.containers.is_empty();
        let was_anothers = self.had_folder && !self.tenure.has_begun();
        let asked = was_anothers.then_some(Stamp::ZERO).max(self.unbroken.settled().await);
        let until = asked?.plus(LATE_COMERS);
        (!is_there && self.tools.clock.stamp() < until).then_some(until)
    }
}

/// Whether anything of a pod might still be running.
pub(super) fn is_up(status: &PodStatus) -> bool {
    status.containers.iter().any(may_run)
        || status.sandboxes.iter().any(|sandbox| sandbox.state != SandboxState::NotReady)
}
