//! `rubelet run --once`: runs pods to their end, shows their logs, and takes them down.

use std::path::Path;

use rubelet_agent::board::{PodView, Stage};
use rubelet_agent::runtime::{ImageStore, Runtime};
use rubelet_agent::sync_loop::{Agent, AgentHandle, PodSelector, Readiness};

use super::wire::{Ended, RunError};
use crate::logs::Follower;

/// Runs all pods to their end, or until it should end before that.
pub(super) async fn run<R: Runtime + ImageStore>(
    agent: Agent<R>,
    handle: &AgentHandle,
    pod_logs: &Path,
    until: impl Future<Output = ()>,
) -> Result<Ended, RunError> {
    let mut logs = Follower::new(pod_logs.to_owned()).map_err(RunError::LogThread)?;
    let finished = async {
        let mut ready = handle.ready();
        let mut changes = handle.board().changes();
        let mut outlook = handle.outlook();
        // The sender lives in the agent, which runs beside this.
        let _ = ready.wait_for(Readiness::is_ready).await;
        loop {
            let all = handle.board().all();
            logs.follow(all.iter().map(|view| &*view.pod));
            let now = *outlook.borrow_and_update();
            // A pod that waits for room gets it when others have ended, and is not on the board before it begins anew.
            let all_are_here = all.len() >= now.wanted && now.waiting_for_room == 0;
            if all_are_here && !all.is_empty() && all.iter().all(|view| view.stage == Stage::Terminated) {
                logs.finish().await;
                let ended = if all.iter().all(|view| has_succeeded(view)) {
                    Ended::AllSucceeded
                } else {
                    Ended::SomeFailed
                };
                take_down(handle).await;
                return ended;
            }
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                changed = outlook.changed() => changed,
            };
            if changed.is_err() {
                return Ended::Told;
            }
        }
    };
    Ok(tokio::select! {
        biased;
        () = agent.run(until) => Ended::Told,
        ended = finished => ended,
    })
}

fn has_succeeded(view: &PodView) -> bool {
    view.status.phase.as_deref() == Some("Succeeded")
}

/// What ran once leaves nothing behind, so that it can run again.
async fn take_down(handle: &AgentHandle) {
    handle.forget(PodSelector::All);
    let mut changes = handle.board().changes();
    while !handle.board().all().is_empty() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}
