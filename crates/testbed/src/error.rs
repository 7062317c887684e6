//! Errors of test runtimes, with what a failing test needs to print.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::Flavor;
use crate::requirement::{self, Missing};

/// A runtime could not be started, steered or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This machine lacks what the runtime needs.
    #[error("{flavor} cannot run here: {}", requirement::list(.missing))]
    Missing {
        /// The runtime's flavour.
        flavor: Flavor,
        /// What the machine lacks.
        missing: Vec<Missing>,
    },
    /// Every private subnet is in use by another runtime.
    #[error("all {count} slots below {} are taken", .base.display())]
    NoFreeSlot {
        /// The folder of all slots.
        base: PathBuf,
        /// How many slots there are.
        count: usize,
    },
    /// An operation on a file, folder, mount or lock failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The path it was attempted on.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A helper program could not be started.
    #[error("cannot run `{command}`: {source}")]
    Spawn {
        /// The program and its arguments.
        command: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A helper program failed.
    #[error("`{command}` ended with {status}: {stderr}")]
    Command {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed on standard error.
        stderr: String,
    },
    /// The daemon ended before it was ready.
    #[error("the daemon ended with {status} before it was ready; its log:\n{log}")]
    EndedEarly {
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// The daemon runs but has not reached the expected state in time.
    #[error("after {} s still not true: {condition}; the daemon's log:\n{log}", .limit.as_secs())]
    NotInTime {
        /// The expected state.
        condition: &'static str,
        /// The time limit.
        limit: Duration,
        /// The end of its log.
        log: String,
    },
    /// The call needs a running daemon.
    #[error("the daemon does not run")]
    NotRunning,
    /// The call needs a stopped daemon.
    #[error("the daemon runs already, as process {pid}")]
    AlreadyRunning {
        /// Its process id.
        pid: u32,
    },
    /// There is another kubelet, and ours would interfere with it.
    #[error("{} is there: is there another kubelet on this machine? If not, remove it", .path.display())]
    AnotherKubelet {
        /// The path that every kubelet uses, whatever its configuration.
        path: PathBuf,
    },
    /// Something of the runtime could not be taken down.
    #[error("left behind by the runtime in {}: {}", .dir.display(), .what.join(", "))]
    LeftBehind {
        /// The runtime's folder.
        dir: PathBuf,
        /// The remaining processes and mounts.
        what: Vec<String>,
    },
}

impl Error {
    /// Wraps the error of a file operation, for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
