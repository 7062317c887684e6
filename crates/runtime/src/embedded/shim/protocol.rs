//! The lines between the runtime and the shim, as values.

use crate::embedded::state::Exit;

/// A report from the shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The container's first program is running.
    Started {
        /// The process id on the host.
        pid: i32,
        /// Wall clock time in nanoseconds.
        at: i64,
    },
    /// It ended, or could not be started; the details are on disk, and also here, in case the disk is full.
    Ended(Option<Exit>),
}

/// Longer reports might not fit into a socket's buffer, and the shim does not wait for a peer that does not read.
const MAX_REPORT: usize = 4096;

impl Report {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Started { pid, at } => format!("started {pid} {at}\n"),
            Self::Ended(exit) => {
                let told = exit.as_ref().and_then(|exit| serde_json::to_string(exit).ok());
                let told = told.filter(|told| told.len() <= MAX_REPORT).unwrap_or_default();
                format!("exited {told}\n")
            }
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "started" => {
                let (pid, at) = rest.split_once(' ')?;
                Some(Self::Started { pid: pid.parse().ok()?, at: at.trim_end().parse().ok()? })
            }
            // Shims of older versions send only this word, or `failed`.
            "exited" | "failed" => Some(Self::Ended(serde_json::from_str(rest).ok())),
            _ => None,
        }
    }

    /// Returns how the container ended, if the report says so.
    pub(crate) fn into_end(self) -> Option<Exit> {
        match self {
            Self::Ended(exit) => exit,
            Self::Started { .. } => None,
        }
    }
}

/// A command to the shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Send a signal to the container's first process.
    Signal(i32),
    /// Kill the whole container at once.
    Kill,
    /// The log file has been moved away: create a new one.
    Reopen,
    /// Run a command, whose arguments and streams come along as descriptors. Answered by an [`Outcome`].
    Exec,
}

impl Command {
    pub(crate) fn line(self) -> String {
        match self {
            Self::Signal(number) => format!("signal {number}\n"),
            Self::Kill => "kill\n".to_owned(),
            Self::Reopen => "reopen\n".to_owned(),
            Self::Exec => "exec\n".to_owned(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        match words.next()? {
            "signal" => {
                Some(Self::Signal(words.next()?.parse().ok().filter(|number| (1..=64).contains(number))?))
            }
            "kill" => Some(Self::Kill),
            "reopen" => Some(Self::Reopen),
            "exec" => Some(Self::Exec),
            _ => None,
        }
    }
}

/// The outcome of a command, from the shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ended with this code.
    Exited(i32),
    /// It could not be run.
    Failed(String),
}

impl Outcome {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Exited(code) => format!("command-exited {code}\n"),
            Self::Failed(message) => format!("command-failed {}\n", message.replace('\n', "; ")),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("command-exited", code) => code.parse().ok().map(Self::Exited),
            // The second is the answer of a shim that does not know commands.
            ("command-failed" | "error", message) => Some(Self::Failed(message.to_owned())),
            _ => None,
        }
    }
}

/// A report from the helper that builds a container, to the shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The container exists and waits; this is its first process.
    Created(i32),
    /// The program has replaced the helper's code: it is running.
    Started,
    /// The container could not be built or started.
    Failed(String),
}

impl Progress {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Created(pid) => format!("created {pid}\n"),
            Self::Started => "started\n".to_owned(),
            Self::Failed(message) => format!("failed {}\n", message.replace('\n', "; ")),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "created" => rest.parse().ok().map(Self::Created),
            "started" => Some(Self::Started),
            "failed" => Some(Self::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_reads_back() {
        let failed = |length| Report::Ended(Some(Exit::start_failed("a\nb".repeat(length), 3)));
        for report in [Report::Started { pid: 7, at: 9 }, Report::Ended(None), failed(1)] {
            assert_eq!(Report::parse(report.line().trim_end()), Some(report));
        }
        assert_eq!(Report::parse(failed(5_000).line().trim_end()), Some(Report::Ended(None)), "too long");
        for old in ["failed", "exited"] {
            assert_eq!(Report::parse(old), Some(Report::Ended(None)));
        }
        for command in [Command::Signal(15), Command::Kill, Command::Reopen, Command::Exec] {
            assert_eq!(Command::parse(command.line().trim_end()), Some(command));
        }
        for outcome in [Outcome::Exited(137), Outcome::Failed("no such file".into())] {
            assert_eq!(Outcome::parse(outcome.line().trim_end()), Some(outcome));
        }
        for progress in [Progress::Created(3), Progress::Started, Progress::Failed("no such file".into())] {
            assert_eq!(Progress::parse(progress.line().trim_end()), Some(progress));
        }
    }

    #[test]
    fn nonsense_is_nothing() {
        for line in ["", "signal", "signal x", "signal 0", "signal 65", "signal -9", "kill-all", "started 1"]
        {
            assert_eq!(Command::parse(line), None, "{line}");
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
