//! The visible progress of a run: a table on a terminal, else one line per change of a pod.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rubelet_agent::board::{Board, PodView};
use rubelet_agent::manifest::Problem;
use rubelet_agent::runtime::{ImageStore, Runtime};
use rubelet_agent::source::SourceId;
use rubelet_agent::sync_loop::{Agent, AgentHandle};

use super::table;
use super::wire::Ended;
use super::{Plan, Remarks};
use crate::clean::clean;
use crate::printer::{Printer, Stopped};
use crate::summary::{Mood, Summary, short_time};

const WELL: Style = AnsiColor::Green.on_default();
const BUSY: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const FAINT: Style = Style::new().dimmed();

/// Prints what is run, with which runtime, and where to see it. `urls` must be free of credentials.
pub(super) fn introduce(plan: &Plan, urls: Vec<String>, runtime: &str, address: Option<SocketAddr>) {
    let paths = plan.paths.iter().map(|path| path.display().to_string());
    let all: Vec<String> = paths.chain(urls).collect();
    plan.remarks.print(&clean(&format!("running pods from {} on {runtime}", all.join(", "))));
    if let Some(address) = address {
        let folder = plan.place.option();
        plan.remarks.print(&format!(
            "{FAINT}see them with `rubelet ps{folder}` or at http://{address}/pods; Ctrl-C stops the agent, not the \
             pods{FAINT:#}"
        ));
    }
}

/// Prints what keeps running, and how to stop it.
pub(super) fn say_goodbye(plan: &Plan, agent: &AgentHandle) {
    let running = agent.board().all().iter().filter(|view| goes_on(&view.status)).count();
    let knows = agent.ready().borrow().is_ready();
    if running == 0 {
        let pods =
            if knows { "no pods are running" } else { "it had not yet found out whether pods are running" };
        plan.remarks.print(&format!("agent stopped; {pods}"));
        return;
    }
    let folder = plan.place.option();
    let pods =
        if running == 1 { "1 pod keeps running".to_owned() } else { format!("{running} pods keep running") };
    let least = if knows { "" } else { "at least " };
    plan.remarks.print(&format!(
        "agent stopped; {least}{pods}. Run the same command to take them over, or `rubelet stop --all{folder}` to \
         end them"
    ));
}

/// Whether any container of a pod runs. A pod that waits (for an image, a restart, or a pod of the same name) needs an
/// agent to continue.
fn goes_on(status: &PodStatus) -> bool {
    let statuses = [&status.init_container_statuses, &status.container_statuses];
    let runs =
        |container: &ContainerStatus| container.state.as_ref().is_some_and(|state| state.running.is_some());
    statuses.into_iter().flatten().flatten().any(runs)
}

/// Runs the agent and shows its progress, until `until` is ready.
pub(super) async fn run<R: Runtime + ImageStore>(
    agent: Agent<R>,
    handle: &AgentHandle,
    remarks: &Remarks,
    until: impl Future<Output = ()>,
) -> Ended {
    let printer = Printer::start();
    let screen = remarks.screen();
    let showing = async {
        match screen {
            Some(screen) => {
                table::show(screen, handle, "Ctrl-C stops the agent, not the pods".to_owned()).await;
            }
            None => tell(handle, &printer, remarks).await,
        }
        // A failure to show the progress is no reason for the agent to end.
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        () = agent.run(until) => {}
        never = showing => match never {},
    }
    match screen {
        Some(screen) => screen.end(),
        None => printer.flush_what_it_can().await,
    }
    Ended::Told
}

/// Prints one line per change for as long as somebody reads them. While nobody does, the changes of a pod merge into
/// its last one. Problems are printed all the same, since they are not part of the output.
async fn tell(handle: &AgentHandle, printer: &Printer, remarks: &Remarks) {
    let board = handle.board().clone();
    let mut problems = handle.problems();
    let (mut told, mut teller) = (Told::default(), ProblemTeller::default());
    let mut changes = board.changes();
    changes.mark_changed();
    let mut lines = VecDeque::new();
    loop {
        tokio::select! {
            Ok(()) = problems.changed() => {
                let all = problems.borrow_and_update().clone();
                for line in teller.news(&all) {
                    remarks.print(&line);
                }
            }
            room = printer.room(), if !lines.is_empty() => match (room, lines.pop_front()) {
                (Ok(room), Some(line)) => room.print(line),
                // A reader that is gone must not affect the pods.
                (Err(Stopped), _) | (_, None) => lines.clear(),
            },
            changed = changes.changed(), if lines.is_empty() => match changed {
                Ok(()) => lines.extend(told.news(&board)),
                Err(_) => return,
            },
        }
    }
}

/// What was printed last.
#[derive(Default)]
struct Told {
    pods: BTreeMap<String, (Arc<PodView>, Summary)>,
    widths: Widths,
}

impl Told {
    /// Returns lines for what has not been printed yet.
    fn news(&mut self, board: &Board) -> Vec<String> {
        let (mut now, mut lines) = (BTreeMap::new(), Vec::new());
        for view in board.all() {
            let uid = view.pod.metadata.uid.clone().unwrap_or_default();
            let told = match self.pods.remove(&uid) {
                // Usually only one pod has changed; unchanged ones are skipped cheaply.
                Some((known, told)) if Arc::ptr_eq(&known, &view) => told,
                before => {
                    let summary = Summary::of_view(&view);
                    if before.is_none_or(|(_, told)| told != summary) {
                        self.widths.fit(&summary);
                        lines.push(pod_line(&summary, self.widths));
                    }
                    summary
                }
            };
            now.insert(uid, (view, told));
        }
        let gone = self.pods.values().map(|(_, summary)| line(&summary.name, FAINT, "gone", "", self.widths));
        lines.extend(gone);
        self.pods = now;
        lines
    }
}

/// The widths of the columns. They only grow: a long word shifts the rest of its line, and all later lines align with
/// it.
#[derive(Clone, Copy)]
struct Widths {
    pod: usize,
    status: usize,
}

impl Default for Widths {
    fn default() -> Self {
        Self { pod: 28, status: 18 }
    }
}

impl Widths {
    fn fit(&mut self, summary: &Summary) {
        self.pod = self.pod.max(summary.name.chars().count());
        self.status = self.status.max(summary.status.chars().count());
    }
}

/// The problems of manifests that have been printed.
#[derive(Default)]
pub(super) struct ProblemTeller(BTreeMap<SourceId, Vec<Problem>>);

impl ProblemTeller {
    /// Returns lines for the problems that have not been printed yet.
    pub(super) fn news(&mut self, all: &BTreeMap<SourceId, Vec<Problem>>) -> Vec<String> {
        let mut lines = Vec::new();
        for (source, problems) in all {
            let told: BTreeSet<&Problem> = self.0.get(source).into_iter().flatten().collect();
            let new = problems.iter().filter(|problem| !told.contains(problem));
            lines.extend(new.map(|problem| format!("{BAD}{problem}{BAD:#}")));
            if problems.is_empty() && !told.is_empty() {
                lines.push(format!("{source}: all problems fixed"));
            }
        }
        self.0.clone_from(all);
        lines
    }
}

/// The troubles of pods that have been printed.
#[derive(Default)]
pub(super) struct TroubleTeller {
    /// The status and what is wrong, by pod UID.
    told: BTreeMap<String, (String, Option<String>)>,
    widths: Widths,
}

impl TroubleTeller {
    /// Returns a line for each pod whose trouble has changed.
    pub(super) fn news(&mut self, all: &[Arc<PodView>]) -> Vec<String> {
        let mut lines = Vec::new();
        for view in all {
            let summary = Summary::of_view(view);
            let uid = view.pod.metadata.uid.clone().unwrap_or_default();
            match summary.mood {
                Mood::Bad => {
                    let trouble = (summary.status.clone(), summary.detail.clone());
                    if self.told.get(&uid) != Some(&trouble) {
                        self.widths.fit(&summary);
                        lines.push(pod_line(&summary, self.widths));
                    }
                    self.told.insert(uid, trouble);
                }
                // A retry that fails in the same way as before is not reported again.
                Mood::Busy => {}
                Mood::Well => drop(self.told.remove(&uid)),
            }
        }
        lines
    }
}

fn pod_line(summary: &Summary, widths: Widths) -> String {
    let style = match summary.mood {
        Mood::Well => WELL,
        Mood::Busy => BUSY,
        Mood::Bad => BAD,
    };
    let mut details = vec![format!("{}/{} ready", summary.ready, summary.containers)];
    if summary.restarts > 0 {
        let plural = if summary.restarts == 1 { "" } else { "s" };
        details.push(format!("{} restart{plural}", summary.restarts));
    }
    details.extend(summary.detail.clone());
    line(&summary.name, style, &summary.status, &details.join(", "), widths)
}

fn line(pod: &str, style: Style, status: &str, details: &str, widths: Widths) -> String {
    let Widths { pod: of_pod, status: of_status } = widths;
    let time = short_time(pleg::clock::wall_clock());
    let [pod, status, details] = [pod, status, details].map(clean);
    format!("{FAINT}{time}{FAINT:#}  {pod:<of_pod$}  {style}{status:<of_status$}{style:#}  {details}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_cannot_upset_the_terminal() {
        let rude = "a\u{1b}[2J\nb";
        let summary = Summary {
            name: rude.to_owned(),
            status: rude.to_owned(),
            ready: 0,
            containers: 1,
            restarts: 0,
            detail: Some(rude.to_owned()),
            mood: Mood::Bad,
        };
        let line = pod_line(&summary, Widths::default());
        assert_eq!(line.matches("a\u{fffd}[2J b").count(), 3, "{line:?}");
    }

    #[test]
    fn a_trouble_is_told_when_it_is_another_and_not_for_each_attempt() {
        use k8s_openapi::api::core::v1::Pod;
        use rubelet_agent::board::Stage;
        use rubelet_agent::event::{PodEvent, Severity};
        use rubelet_model::UnixNanos;
        let mut teller = TroubleTeller::default();
        let mut told = |phase: &str, severity, message: &str| {
            let event = PodEvent {
                severity,
                reason: "FailedMount".into(),
                message: message.to_owned(),
                container: None,
                count: 1,
                first_seen: UnixNanos(1),
                last_seen: UnixNanos(1),
            };
            let view = PodView {
                pod: Arc::new(Pod::default()),
                source: None,
                status: PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() },
                version: 1,
                stage: Stage::Syncing,
                events: vec![event],
            };
            teller.news(&[Arc::new(view)]).concat().contains(&format!("FailedMount: {message}"))
        };
        let (good, bad) = (Severity::Normal, Severity::Warning);
        assert!(told("Pending", bad, "no volume a"));
        assert!(!told("Pending", bad, "no volume a"), "it was told");
        assert!(told("Pending", bad, "no volume b"));
        assert!(!told("Pending", good, "trying") && !told("Pending", bad, "no volume b"), "as before");
        assert!(!told("Running", bad, "no volume b"));
        assert!(told("Pending", bad, "no volume b"), "it was well in between");
    }

    #[test]
    fn what_waits_does_not_go_on() {
        use k8s_openapi::api::core::v1::{ContainerState, ContainerStateRunning, ContainerStateWaiting};
        let container = |runs: bool| {
            let mut state = ContainerState::default();
            if runs {
                state.running = Some(ContainerStateRunning::default());
            } else {
                state.waiting = Some(ContainerStateWaiting::default());
            }
            ContainerStatus { state: Some(state), ..ContainerStatus::default() }
        };
        let of = |init: &[bool], main: &[bool]| {
            let all = |runs: &[bool]| Some(runs.iter().map(|runs| container(*runs)).collect());
            let (init_container_statuses, container_statuses) = (all(init), all(main));
            goes_on(&PodStatus { init_container_statuses, container_statuses, ..PodStatus::default() })
        };
        assert!(!goes_on(&PodStatus::default()), "it waits for another");
        assert!(!of(&[false], &[false]));
        assert!(of(&[true], &[false]) && of(&[], &[false, true]));
    }

    #[test]
    fn after_a_long_word_all_lines_are_as_wide_as_it() {
        let mut widths = Widths::default();
        let mut where_details_begin = |status: &str| {
            let summary = Summary {
                name: "web".to_owned(),
                status: status.to_owned(),
                ready: 0,
                containers: 1,
                restarts: 0,
                detail: None,
                mood: Mood::of(status),
            };
            widths.fit(&summary);
            let line = anstream::adapter::strip_str(&pod_line(&summary, widths)).to_string();
            line.find("0/1 ready").expect("how many are ready")
        };
        let [usual, long, after] =
            ["Running", "RestartingAllContainers", "Running"].map(&mut where_details_begin);
        assert_eq!((long, after), (usual + "RestartingAllContainers".len() - 18, long));
    }
}
