//! `rubelet logs`: prints what containers have written.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rubelet_agent::board::ContainerNames;

use super::one_pod::OnePod;
use crate::exit::Failure;
use crate::local::{AgentClient, LocalArgs, Unreachable, again_if_ended};
use crate::log::remark;
use crate::logs::{
    LogFile, PodLogs, Printer, Streams, Style, Tail, Told, instances, is_between_instances, is_over,
    newest_pod_logs,
};
use crate::pods::{NotOne, Pods};
use crate::summary::{Mood, Summary, now};

/// How often to check for more output.
const LOOK: Duration = Duration::from_millis(100);

/// The number of checks without new output after which the agent is asked whether there will be any.
const ASK_AFTER: u32 = 10;

/// The arguments of `rubelet logs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Logs are read from disk, so neither an agent nor a runtime is needed. With -f, output continues with the next \
instance when a container restarts, and ends when the agent says that it will not restart."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    pod: OnePod,
    /// The container [default: the one in the annotation `kubectl.kubernetes.io/default-container`, else the first]
    #[arg(long, short)]
    container: Option<String>,
    /// Keep printing new output
    #[arg(long, short)]
    follow: bool,
    /// Show the previous instance of the container
    #[arg(long, short, conflicts_with = "follow")]
    previous: bool,
    /// Number of lines to show from the end; -1 for all
    #[arg(long, value_name = "LINES", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    tail: Option<i64>,
    /// Only lines newer than this: `90s`, `5m`, `2h`; `0s` for all
    #[arg(long, value_name = "AGE", value_parser = crate::span::parse)]
    since: Option<Duration>,
    /// Show the time of each line
    #[arg(long)]
    timestamps: bool,
    /// Folder with pod logs, if no agent is running [default: that of the last agent, else /var/log/pods]
    #[arg(long, value_name = "DIR")]
    pod_logs_dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum LogsError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(transparent)]
    NotOne(#[from] NotOne),
    #[error("there are no logs of {pod} in {}", folder.display())]
    NoPod { pod: String, folder: PathBuf },
    #[error("the pod has no container {name}; it has {}", .there.join(", "))]
    NoContainer { name: String, there: Vec<String> },
    #[error("choose a container with -c: {}", .0.join(", "))]
    WhichContainer(Vec<String>),
    #[error("container {container} has no output yet{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Nothing { container: String, why: Option<String> },
    #[error("container {0} has no previous instance")]
    NoPrevious(String),
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Unprintable(io::Error),
}

impl LogsError {
    fn failure(&self) -> Failure {
        match self {
            Self::Unreachable(error) => error.failure(),
            Self::Unreadable { .. } | Self::Unprintable(_) => Failure::System,
            Self::NotOne(_)
            | Self::NoPod { .. }
            | Self::NoContainer { .. }
            | Self::WhichContainer(_)
            | Self::Nothing { .. }
            | Self::NoPrevious(_) => Failure::Usage,
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        match logs(args).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => super::fail(error.failure(), &error),
        }
    })
}

/// What was found of a pod.
struct Found {
    /// The agent, if one is running.
    agent: Option<AgentClient>,
    /// The UID of the pod; empty without an agent to ask.
    uid: String,
    /// The folder with its logs.
    folder: PathBuf,
    /// Its containers, the default one first.
    names: Vec<String>,
    /// Containers that have ended and wait for a restart: their newest log is that of the previous instance.
    between: Vec<String>,
    /// What is wrong with the pod, if anything is.
    trouble: Option<String>,
}

async fn find(args: &Args) -> Result<Found, LogsError> {
    let pod = args.pod.name();
    let Some(agent) = args.local.agent().await? else {
        let (last_logs, last_node) = match args.local.last_agent()? {
            Some(last) => (Some(last.pod_logs), last.node_name),
            None => (None, crate::run::node_name()),
        };
        let logs = args.pod_logs_dir.clone().or(last_logs).unwrap_or_else(|| PathBuf::from("/var/log/pods"));
        let found = newest_pod_logs(&logs, &pod, &last_node).map_err(|error| match error {
            NotOne::None { .. } => LogsError::NoPod { pod: pod.to_string(), folder: logs },
            NotOne::Many { .. } => error.into(),
        });
        let PodLogs { uid, folder, containers: with_logs } = found?;
        let known = args.local.containers(&uid).all;
        if known.is_empty() && with_logs.len() > 1 && args.container.is_none() {
            return Err(LogsError::WhichContainer(with_logs));
        }
        let others = with_logs.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>();
        let names = known.into_iter().chain(others).collect();
        return Ok(Found {
            agent: None,
            uid: String::new(),
            folder,
            names,
            between: Vec::new(),
            trouble: None,
        });
    };
    let pods = Pods::told_by(&agent).await.map_err(Unreachable::Agent)?;
    let rows = pods.rows();
    let row = pod.find(&rows, &agent.about.node_name)?;
    let folder = agent.about.pod_logs.join(format!("{}_{}_{}", row.namespace, row.name, row.uid));
    let info = pods.info(row);
    let names = info.map(|info| ContainerNames::of(&info.pod).all).unwrap_or_default();
    let is_between = |name: &&String| info.is_some_and(|info| is_between_instances(&info.pod, name));
    let between = names.iter().filter(is_between).cloned().collect();
    let uid = row.uid.clone();
    let summary = info.map(Summary::of_info).filter(|summary| summary.mood != Mood::Well);
    let trouble = summary.map(|summary| match summary.detail {
        Some(detail) => format!("{}, {detail}", summary.status),
        None => summary.status,
    });
    Ok(Found { agent: Some(agent), uid, folder, names, between, trouble })
}

async fn logs(args: &Args) -> Result<(), LogsError> {
    let has_ended = |error: &LogsError| matches!(error, LogsError::Unreachable(error) if error.has_ended());
    let Found { agent, uid, folder, names, between, trouble } =
        again_if_ended(async || find(args).await, has_ended).await?;
    let name = match &args.container {
        Some(name) if names.contains(name) => name.clone(),
        Some(name) => return Err(LogsError::NoContainer { name: name.clone(), there: names }),
        None => {
            if let [first, _, ..] = &names[..] {
                remark(format_args!("Defaulted container {first:?} out of: {}", names.join(", ")));
            }
            names.first().cloned().unwrap_or_default()
        }
    };
    let folder = folder.join(&name);
    let numbers = instances(&folder);
    let number = match (args.previous, &numbers[..]) {
        (true, [.., newest]) if between.contains(&name) => *newest,
        (true, [.., previous, _]) => *previous,
        (true, _) => return Err(LogsError::NoPrevious(name)),
        (false, [.., newest]) => *newest,
        (false, []) if args.follow => 0,
        (false, []) => return Err(LogsError::Nothing { container: name, why: trouble }),
    };
    // A zero age means no limit, as in kubectl.
    let since = args.since.filter(|age| !age.is_zero()).and_then(|age| now().checked_sub(age).ok());
    let style = Style { since, timestamps: args.timestamps, ..Style::default() };
    let shown = Shown { printer: Printer::new(style), agent, uid, container: name };
    let tail = args.tail.and_then(|lines| usize::try_from(lines).ok());
    if args.follow {
        shown.follow(&folder, number, tail).await
    } else {
        shown.once(&folder.join(format!("{number}.log")), tail)
    }
}

/// Prints a log, and knows when there will be no more of it.
struct Shown {
    printer: Printer,
    /// `None` if no agent was running at the start; then none is asked later either.
    agent: Option<AgentClient>,
    uid: String,
    container: String,
}

impl Shown {
    fn once(mut self, path: &Path, tail: Option<usize>) -> Result<(), LogsError> {
        let unreadable = |source| LogsError::Unreadable { path: path.to_owned(), source };
        let mut log = LogFile::open(path, tail).map_err(unreadable)?;
        let mut screen = Screen::default();
        log.read(&mut |line| screen.show(&mut self.printer, line)).map_err(unreadable)?;
        log.finish(&mut |line| screen.show(&mut self.printer, line));
        screen.finish(&mut self.printer);
        screen.result()
    }

    /// Follows the log until the container writes no more.
    async fn follow(mut self, folder: &Path, from: u32, tail: Option<usize>) -> Result<(), LogsError> {
        let unreadable = |source| LogsError::Unreadable { path: folder.to_owned(), source };
        let mut tail = Tail::new(folder.to_owned(), from, tail);
        let mut screen = Screen::default();
        let mut has_begun = false;
        let mut quiet = 0_u32;
        loop {
            let printer = &mut self.printer;
            let has_more = tail.read(&mut |told| screen.take(printer, told)).map_err(unreadable)?;
            screen.catch_up(printer);
            if screen.is_gone() {
                return screen.result();
            }
            quiet = if has_more { 0 } else { quiet + 1 };
            has_begun |= folder.exists();
            if quiet % ASK_AFTER == ASK_AFTER - 1 && self.is_over(has_begun && !folder.exists()).await {
                let printer = &mut self.printer;
                tail.read_to_end(&mut |told| screen.take(printer, told)).map_err(unreadable)?;
                screen.finish(printer);
                return screen.result();
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether the container writes no more. An agent that does not answer may be back soon. If there never was one,
    /// the log is complete once the logs of the pod are gone.
    async fn is_over(&self, are_logs_gone: bool) -> bool {
        let Some(agent) = &self.agent else { return are_logs_gone };
        match agent.pod(&self.uid).await {
            Ok(Some(info)) => is_over(&info.pod, &info.stage, &self.container),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// Standard output and standard error, for as long as somebody reads them.
#[derive(Default)]
struct Screen {
    failure: Option<io::Error>,
}

impl Screen {
    fn show(&mut self, printer: &mut Printer, line: &[u8]) {
        self.write(|streams| printer.show(line, streams));
    }

    fn take(&mut self, printer: &mut Printer, told: Told<'_>) {
        match told {
            Told::Line(line) => self.show(printer, line),
            Told::EndOfInstance => self.write(|streams| printer.end_lines(streams)),
        }
    }

    fn catch_up(&mut self, printer: &mut Printer) {
        self.write(|streams| printer.catch_up(streams));
    }

    fn finish(&mut self, printer: &mut Printer) {
        self.write(|streams| printer.finish(streams));
    }

    fn write(&mut self, what: impl FnOnce(&mut Streams<'_>) -> io::Result<()>) {
        if self.is_gone() {
            return;
        }
        let (mut out, mut err) = (io::stdout(), io::stderr());
        let written = what(&mut Streams { out: &mut out, err: &mut err }).and_then(|()| io::stdout().flush());
        self.failure = written.err();
    }

    fn is_gone(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns whether everything could be printed. A reader that is gone is not a failure.
    fn result(self) -> Result<(), LogsError> {
        match self.failure {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(LogsError::Unprintable(error)),
            _ => Ok(()),
        }
    }
}
