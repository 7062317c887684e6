//! `rubelet run --once`: runs pods to their end, shows their logs, says what is wrong, and takes them down.

use std::convert::Infallible;

use rubelet_agent::board::{PodView, Stage};
use rubelet_agent::manifest::Severity;
use rubelet_agent::runtime::{ImageStore, Runtime};
use rubelet_agent::sync_loop::{Agent, AgentHandle, PodSelector, Readiness};

use super::Plan;
use super::report::{ProblemTeller, TroubleTeller};
use super::wire::{Ended, RunError};
use crate::logs::Follower;

/// Runs all pods to their end, or until it should end before that.
pub(super) async fn run<R: Runtime + ImageStore>(
    agent: Agent<R>,
    handle: &AgentHandle,
    plan: &Plan,
    until: impl Future<Output = ()>,
) -> Result<Ended, RunError> {
    let mut logs = Follower::new(plan.pod_logs.clone()).map_err(RunError::LogThread)?;
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
            if all.is_empty() && now.wanted == 0 {
                return Err(RunError::NoPods);
            }
            if all_are_here && !all.is_empty() && all.iter().all(|view| view.stage == Stage::Terminated) {
                logs.finish().await;
                let is_well = all.iter().all(|view| has_succeeded(view)) && !has_broken_manifests(handle);
                take_down(handle).await;
                return Ok(if is_well { Ended::AllSucceeded } else { Ended::SomeFailed });
            }
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                changed = outlook.changed() => changed,
            };
            if changed.is_err() {
                return Ok(Ended::Told);
            }
        }
    };
    let mut tellers = (ProblemTeller::default(), TroubleTeller::default());
    let ended = tokio::select! {
        biased;
        () = agent.run(until) => Ok(Ended::Told),
        ended = finished => ended,
        never = tell(handle, plan, &mut tellers) => match never {},
    };
    // What became known last may have been the end of it.
    tell_news(handle, plan, &mut tellers);
    ended
}

/// Says what is wrong with manifests and pods, when it becomes known.
async fn tell(handle: &AgentHandle, plan: &Plan, tellers: &mut (ProblemTeller, TroubleTeller)) -> Infallible {
    let (mut problems, mut changes) = (handle.problems(), handle.board().changes());
    loop {
        problems.mark_unchanged();
        changes.mark_unchanged();
        tell_news(handle, plan, tellers);
        let changed = tokio::select! {
            changed = problems.changed() => changed,
            changed = changes.changed() => changed,
        };
        if changed.is_err() {
            return std::future::pending().await;
        }
    }
}

fn tell_news(
    handle: &AgentHandle,
    plan: &Plan,
    (of_manifests, of_pods): &mut (ProblemTeller, TroubleTeller),
) {
    let problems = handle.problems().borrow().clone();
    for line in of_manifests.news(&problems).into_iter().chain(of_pods.news(&handle.board().all())) {
        plan.remarks.print(&line);
    }
}

fn has_broken_manifests(handle: &AgentHandle) -> bool {
    handle.problems().borrow().values().flatten().any(|problem| problem.severity == Severity::Error)
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
