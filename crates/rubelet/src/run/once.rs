//! `rubelet run --once`: runs pods to completion, prints their logs, reports problems, and removes the pods.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pleg::GoDuration;
use rubelet_agent::board::{PodView, Stage};
use rubelet_agent::manifest::{Issue, Problem, Severity};
use rubelet_agent::runtime::{ImageStore, Runtime};
use rubelet_agent::settings::LogReader;
use rubelet_agent::source::SourceId;
use rubelet_agent::sync_loop::{Agent, AgentHandle, Outlook, PodSelector, Readiness};

use super::report::{ProblemTeller, TroubleTeller};
use super::wire::{Ended, RunError};
use super::{Plan, Remarks};
use crate::clean::clean_lines;
use crate::logs::Follower;
use crate::summary::Summary;

/// Runs all pods to completion, or until `until` is ready.
pub(super) async fn run<R: Runtime + ImageStore>(
    agent: Agent<R>,
    handle: &AgentHandle,
    plan: &Plan,
    reader: LogReader,
    until: impl Future<Output = ()>,
) -> Result<Ended, RunError> {
    let remarks = plan.remarks.clone();
    let complain = move |error: &io::Error| {
        remarks.print(&format!("cannot print what containers write: {error}; the pods keep running"));
    };
    let mut logs = Follower::new(plan.pod_logs.clone(), reader, complain).map_err(RunError::LogThread)?;
    let finished = async {
        let mut ready = handle.ready();
        let mut changes = handle.board().changes();
        let mut outlook = handle.outlook();
        let mut problems = handle.problems();
        let mut time_is_up = std::pin::pin!(sleep_for(plan.timeout));
        // The senders belong to the agent, which runs concurrently, so these waits do not fail.
        tokio::select! {
            biased;
            _ = ready.wait_for(Readiness::is_ready) => {}
            // What else was wanted is unknown, so pods that other sources have started keep running, as if the agent
            // had been asked to end.
            _ = problems.wait_for(will_not_be_heard) => return Ok(Ended::Told),
            () = &mut time_is_up => return Ok(give_up(handle, plan).await),
        }
        let mut had_pods = false;
        loop {
            let all = handle.board().all();
            logs.follow(all.iter().map(|view| (&*view.pod, &view.status)));
            let now = *outlook.borrow_and_update();
            had_pods |= now.wanted > 0;
            match course(&all, now) {
                Course::GoesOn => {}
                Course::Empty if had_pods => {
                    // A failure to print has been reported already.
                    let _ = logs.finish().await;
                    plan.remarks.print("no pods are left: they were removed before all of them had ended");
                    return Ok(Ended::SomeFailed);
                }
                Course::Empty => return Err(RunError::NoPods),
                Course::Over(barred) => {
                    let shown = logs.finish().await;
                    barred.iter().for_each(|barred| plan.remarks.print(&clean_lines(&barred.to_string())));
                    let is_well = all.iter().all(|view| has_succeeded(view)) && !has_broken_manifests(handle);
                    take_down(handle, &plan.remarks).await;
                    return match shown {
                        Err(error) if is_well => Err(RunError::Unshown(error)),
                        _ => Ok(if is_well { Ended::AllSucceeded } else { Ended::SomeFailed }),
                    };
                }
            }
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                changed = outlook.changed() => changed,
                () = &mut time_is_up => {
                    let ended = give_up(handle, plan).await;
                    // A failure to print has been reported already.
                    let _ = logs.finish().await;
                    return Ok(ended);
                }
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
    // The last thing that became known may be what ended the run.
    tell_news(handle, plan, &mut tellers);
    ended
}

/// Whether a source is something that can never be listed. A source that can be read, now or later, is waited for.
fn will_not_be_heard(problems: &BTreeMap<SourceId, Vec<Problem>>) -> bool {
    let is_whole = |source: &SourceId, problem: &Problem| problem.place == source.place;
    problems.iter().any(|(source, all)| {
        all.iter().any(|problem| problem.issue == Issue::NotAFile && is_whole(source, problem))
    })
}

/// The progress of all pods.
#[derive(Debug, PartialEq)]
enum Course<'a> {
    GoesOn,
    /// There are no pods, and none are wanted.
    Empty,
    /// Every pod has ended, except for those that can never start.
    Over(Vec<Barred<'a>>),
}

/// A pod that waits for its name, and the pod that has ended and still holds that name: a name is free only once its
/// pod is gone.
#[derive(Debug, PartialEq)]
struct Barred<'a> {
    waits: &'a PodView,
    ended: &'a PodView,
}

impl fmt::Display for Barred<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [waits, ended] = [self.waits, self.ended].map(|view| &view.pod.metadata);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        write!(
            f,
            "{}/{} with UID {} did not run: its name is taken by the pod with UID {}, which has ended; rename one of \
             them",
            text(&waits.namespace),
            text(&waits.name),
            text(&waits.uid),
            text(&ended.uid),
        )?;
        // The events say where the other manifest comes from.
        self.waits.events.iter().try_for_each(|event| write!(f, "\n  {}: {}", event.reason, event.message))
    }
}

fn course(all: &[Arc<PodView>], now: Outlook) -> Course<'_> {
    if all.is_empty() && now.wanted == 0 {
        return Course::Empty;
    }
    // A pod that is no longer wanted goes away and frees its name. A pod that waits for room starts when others have
    // ended, and is not on the board until it is restarted.
    let is_settled = all.len() == now.wanted && now.waiting_for_room == 0 && now.beginning_anew == 0;
    let mut barred = Vec::new();
    for view in all {
        match view.stage {
            Stage::Terminated => {}
            Stage::Pending => match holder(all, view) {
                Some(ended) => barred.push(Barred { waits: view, ended }),
                None => return Course::GoesOn,
            },
            Stage::Syncing | Stage::Terminating => return Course::GoesOn,
        }
    }
    if is_settled { Course::Over(barred) } else { Course::GoesOn }
}

/// Returns the pod that has ended and still holds the name of `of`.
fn holder<'a>(all: &'a [Arc<PodView>], of: &PodView) -> Option<&'a PodView> {
    let is_namesake = |view: &PodView| {
        let [one, other] = [view, of].map(|view| &view.pod.metadata);
        one.namespace == other.namespace && one.name == other.name
    };
    all.iter().map(|view| &**view).find(|view| view.stage == Stage::Terminated && is_namesake(view))
}

/// Prints problems of manifests and pods as they become known.
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

/// Sleeps for this time; forever without a limit.
async fn sleep_for(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Names the pods that have not ended in time, and takes all of them down.
async fn give_up(handle: &AgentHandle, plan: &Plan) -> Ended {
    let within = plan.timeout.map(|time| format!(" within {}", GoDuration(time))).unwrap_or_default();
    let late = late(&handle.board().all(), &within);
    if late.is_empty() {
        plan.remarks.print(&format!("not all manifests were read and their pods started{within}"));
    }
    late.iter().for_each(|line| plan.remarks.print(&clean_lines(line)));
    take_down(handle, &plan.remarks).await;
    Ended::SomeFailed
}

/// Says which pods have not ended, and how they are.
fn late(all: &[Arc<PodView>], within: &str) -> Vec<String> {
    let late = all.iter().filter(|view| view.stage != Stage::Terminated);
    let described = late.map(|view| {
        let Summary { name, status, detail, .. } = Summary::of_view(view);
        let detail = detail.map(|detail| format!(", {detail}")).unwrap_or_default();
        format!("{name} has not ended{within}: {status}{detail}")
    });
    described.collect()
}

/// How long the removal of pods may take, on top of their grace periods.
const REMOVAL: Duration = Duration::from_secs(60);

/// Removes all pods, so that the same command can run them again.
async fn take_down(handle: &AgentHandle, remarks: &Remarks) {
    let all = handle.board().all();
    let graces = all.iter().filter_map(|view| view.pod.spec.as_ref()?.termination_grace_period_seconds);
    let grace = Duration::from_secs(graces.max().and_then(|grace| u64::try_from(grace).ok()).unwrap_or(0));
    handle.forget(PodSelector::All);
    let gone = async {
        let mut changes = handle.board().changes();
        while !handle.board().all().is_empty() && changes.changed().await.is_ok() {}
    };
    if tokio::time::timeout(grace + REMOVAL, gone).await.is_err() {
        let left: Vec<String> = handle.board().all().iter().map(|view| Summary::of_view(view).name).collect();
        let left = left.join(", ");
        remarks.print(&format!("{left} could not be removed yet; `rubelet stop --all` tries again"));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, PodStatus};

    use super::*;

    fn view(uid: &str, name: &str, stage: Stage) -> Arc<PodView> {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        let status = PodStatus::default();
        Arc::new(PodView { pod: Arc::new(pod), source: None, status, version: 1, stage, events: Vec::new() })
    }

    fn wanted(wanted: usize) -> Outlook {
        Outlook { wanted, ..Outlook::default() }
    }

    #[test]
    fn it_is_over_when_every_pod_has_ended_that_can() {
        use Stage::{Pending, Syncing, Terminated};
        let over = |all: &[Arc<PodView>], now| match course(all, now) {
            Course::GoesOn => None,
            Course::Empty => panic!("there are pods"),
            Course::Over(barred) => Some(barred.iter().map(ToString::to_string).collect::<Vec<_>>()),
        };
        let (ended, waits) = (view("1", "web", Terminated), view("2", "web", Pending));
        assert_eq!(over(std::slice::from_ref(&ended), wanted(1)), Some(vec![]));
        assert_eq!(over(std::slice::from_ref(&ended), wanted(2)), None, "one is still to come");
        let to_begin =
            [Outlook { waiting_for_room: 1, ..wanted(1) }, Outlook { beginning_anew: 1, ..wanted(1) }];
        for now in to_begin {
            assert_eq!(over(std::slice::from_ref(&ended), now), None, "{now:?}");
        }
        let both = [ended.clone(), waits.clone()];
        let barred = over(&both, wanted(2)).expect("it never starts");
        let text = "default/web with UID 2 did not run: its name is taken by the pod with UID 1, which has ended; \
                    rename one of them";
        assert_eq!(barred, [text]);
        assert_eq!(over(&both, wanted(1)), None, "the first one goes, and leaves its name");
        assert_eq!(over(&[view("1", "web", Syncing), waits.clone()], wanted(2)), None);
        assert_eq!(over(&[view("1", "db", Terminated), waits.clone()], wanted(2)), None);
        assert_eq!(over(&[ended, waits, view("3", "db", Syncing)], wanted(3)), None);
    }

    #[test]
    fn nothing_is_there_only_when_nothing_is_wanted_and_nothing_left() {
        assert_eq!(course(&[], wanted(0)), Course::Empty);
        assert_eq!(course(&[], wanted(1)), Course::GoesOn, "it comes");
        assert_eq!(course(&[view("1", "web", Stage::Terminated)], wanted(0)), Course::GoesOn, "it goes");
    }

    #[test]
    fn only_a_source_that_is_itself_no_file_is_not_waited_for() {
        let source = SourceId::new(rubelet_agent::source::SourceKind::File, "/pods");
        let says = |place: &str, issue| {
            will_not_be_heard(&[(source.clone(), vec![Problem::error(place, issue)])].into())
        };
        assert!(says("/pods", Issue::NotAFile));
        assert!(!says("/pods/pipe", Issue::NotAFile), "the others of the folder are read");
        assert!(!says("/pods", Issue::Unreadable("not now".to_owned())));
    }
}
