//! Pods that need a network while the runtime has none for them.

use std::time::Duration;

use super::{Outcome, Work};
use crate::pod::spec;
use crate::runtime::{ImageStore, Runtime};

/// A network comes back by itself, so it is checked often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Whether the pod still waits for the network that was missing the last time. A pod that never failed because of
    /// it is simply tried.
    pub(super) async fn waits_for_network(&mut self, outcome: &mut Outcome) -> bool {
        self.memory.lacks_network && self.lacks_network(outcome).await
    }

    /// Whether the runtime has no network for the pod now. If so, that is reported, and the pod is retried soon.
    pub(super) async fn lacks_network(&mut self, outcome: &mut Outcome) -> bool {
        if spec::uses_host_network(self.pod) {
            return false;
        }
        // A runtime that does not answer is a different problem, reported where it occurs.
        let problem = self.tools.runtime.network_problem().await.unwrap_or_default();
        self.memory.lacks_network = problem.is_some();
        let Some(problem) = problem else { return false };
        let message = format!("network is not ready: container runtime network not ready: {problem}");
        self.journal.warning(None, "NetworkNotReady", message);
        outcome.hold(self.now().plus(self.tools.settings.retry.min(LOOK_AGAIN)));
        true
    }
}
