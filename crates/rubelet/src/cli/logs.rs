//! `rubelet logs`: what containers have written.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::exit::Failure;
use crate::local::{LocalArgs, Unreachable};
use crate::logs::{Line, Stream, instances, newest_pod_folder};
use crate::pods::{NotOne, PodName, Pods, container_names, pod_of};

/// How often to look for more.
const LOOK: Duration = Duration::from_millis(100);

/// The arguments of `rubelet logs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Logs are read from disk, so they can be read without agent and runtime, too. With -f it goes on \
with the next instance when a container is started again."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    /// The pod: `name` or `namespace/name`
    #[arg(value_name = "POD")]
    pod: PodName,
    /// The container [default: the first]
    #[arg(long, short)]
    container: Option<String>,
    /// Go on showing what is written
    #[arg(long, short)]
    follow: bool,
    /// The instance before the last restart
    #[arg(long, short, conflicts_with = "follow")]
    previous: bool,
    /// Only so many lines from the end
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
    /// Only what is younger: `90s`, `5m`, `2h`
    #[arg(long, value_name = "AGE")]
    since: Option<SignedDuration>,
    /// Show when each line was written
    #[arg(long)]
    timestamps: bool,
    /// Where the logs of pods are, if no agent says
    #[arg(long, value_name = "DIR", default_value = "/var/log/pods")]
    pod_logs_dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum LogsError {
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    #[error("{0}")]
    NotOne(#[from] NotOne),
    #[error("there are no logs of {pod} in {}", folder.display())]
    NoPod { pod: String, folder: PathBuf },
    #[error("the pod has no container {name}; it has {}", .there.join(", "))]
    NoContainer { name: String, there: Vec<String> },
    #[error("container {0} has written nothing yet")]
    Nothing(String),
    #[error("container {0} was never started again: there is no previous instance")]
    NoPrevious(String),
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

impl LogsError {
    fn failure(&self) -> Failure {
        match self {
            Self::Unreachable(error) => error.failure(),
            Self::Unreadable { .. } => Failure::System,
            Self::NotOne(_)
            | Self::NoPod { .. }
            | Self::NoContainer { .. }
            | Self::Nothing(_)
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

/// The folder of a pod's logs, and its containers, the default one first.
async fn find(args: &Args) -> Result<(PathBuf, Vec<String>), LogsError> {
    let Some(agent) = args.local.agent().await? else {
        return newest_pod_folder(&args.pod_logs_dir, &args.pod, &crate::run::node_name()).ok_or_else(|| {
            LogsError::NoPod { pod: args.pod.to_string(), folder: args.pod_logs_dir.clone() }
        });
    };
    let told = agent.pods().await.map_err(Unreachable::Agent)?;
    let pods = Pods::Told(told.clone());
    let rows = pods.rows();
    let row = args.pod.find(&rows, &agent.about.node_name)?;
    let folder = agent.about.pod_logs.join(format!("{}_{}_{}", row.namespace, row.name, row.uid));
    let names = pod_of(&told, row).map(|info| container_names(&info.pod)).unwrap_or_default();
    Ok((folder, names))
}

async fn logs(args: &Args) -> Result<(), LogsError> {
    let (folder, names) = find(args).await?;
    let name = match &args.container {
        Some(name) if names.contains(name) => name.clone(),
        Some(name) => return Err(LogsError::NoContainer { name: name.clone(), there: names }),
        None => names.first().cloned().unwrap_or_default(),
    };
    let folder = folder.join(&name);
    let numbers = instances(&folder);
    let number = match (args.previous, &numbers[..]) {
        (true, [.., previous, _]) => *previous,
        (true, _) => return Err(LogsError::NoPrevious(name)),
        (false, [.., newest]) => *newest,
        (false, []) if args.follow => 0,
        (false, []) => return Err(LogsError::Nothing(name)),
    };
    let since = args.since.and_then(|age| {
        let now = Timestamp::from_nanosecond(i128::from(pleg::clock::wall_clock().0)).ok()?;
        now.checked_sub(age).ok()
    });
    let mut shown = Shown { since, timestamps: args.timestamps };
    if !args.follow {
        return shown.once(&folder.join(format!("{number}.log")), args.tail);
    }
    shown.follow(&folder, number, args.tail).await
}

struct Shown {
    since: Option<Timestamp>,
    timestamps: bool,
}

impl Shown {
    fn once(&mut self, path: &Path, tail: Option<usize>) -> Result<(), LogsError> {
        let text = read(path)?;
        self.show(last_lines(&text, tail));
        Ok(())
    }

    async fn follow(
        &mut self,
        folder: &Path,
        mut number: u32,
        mut tail: Option<usize>,
    ) -> Result<(), LogsError> {
        let mut told = 0;
        loop {
            let path = folder.join(format!("{number}.log"));
            let next = folder.join(format!("{}.log", number + 1));
            // Asked before reading: what was written before the next one began is then all read.
            let has_next = next.exists();
            if path.exists() {
                let text = read(&path)?;
                let from = if text.len() < told { 0 } else { told };
                let whole = text[from..].rfind('\n').map_or(from, |end| from + end + 1);
                self.show(last_lines(&text[from..whole], tail.take()));
                told = whole;
            }
            if has_next {
                (number, told) = (number + 1, 0);
                continue;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn show(&self, text: &str) {
        for raw in text.lines() {
            let Some(line) = Line::read(raw) else { continue };
            let is_old = |since: &Timestamp| line.time.parse::<Timestamp>().is_ok_and(|time| time < *since);
            if self.since.as_ref().is_some_and(is_old) {
                continue;
            }
            let time = if self.timestamps { format!("{} ", line.time) } else { String::new() };
            let end = if line.is_partial { "" } else { "\n" };
            let written = match line.stream {
                Stream::Out => write!(io::stdout(), "{time}{}{end}", line.text),
                Stream::Err => write!(io::stderr(), "{time}{}{end}", line.text),
            };
            if written.is_err() {
                // Nobody reads any more.
                std::process::exit(0);
            }
        }
        let _ = io::stdout().flush();
    }
}

fn read(path: &Path) -> Result<String, LogsError> {
    let bytes =
        std::fs::read(path).map_err(|source| LogsError::Unreadable { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last few lines of a text, or all of it.
fn last_lines(text: &str, count: Option<usize>) -> &str {
    let Some(count) = count else { return text };
    let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end + 1).collect();
    let lines = ends.len();
    if lines <= count { text } else { &text[ends[lines - count - 1]..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_cut_at_line_ends() {
        let text = "a\nb\nc\n";
        for (count, wanted) in [(None, text), (Some(2), "b\nc\n"), (Some(9), text), (Some(0), "")] {
            assert_eq!(last_lines(text, count), wanted, "{count:?}");
        }
    }
}
