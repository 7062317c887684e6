//! What can go wrong with a test runtime, with what a failing test needs to print.

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
        /// Which runtime.
        flavor: Flavor,
        /// What it lacks.
        missing: Vec<Missing>,
    },
    /// As many runtimes as there are private subnets run already.
    #[error("all {count} slots below {} are taken", .base.display())]
    NoFreeSlot {
        /// The folder of all slots.
        base: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// A file, folder, mount or lock.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
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
        /// What it said.
        stderr: String,
    },
    /// The daemon ended instead of getting ready.
    #[error("the daemon ended with {status} before it was ready; its log:\n{log}")]
    EndedEarly {
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// The daemon runs but did not come as far as it should.
    #[error("after {} s still not true: {condition}; the daemon's log:\n{log}", .limit.as_secs())]
    NotInTime {
        /// What was waited for.
        condition: &'static str,
        /// How long.
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
    /// A kubelet would meddle with another's things.
    #[error("{} is there: is there another kubelet on this machine? If not, remove it", .path.display())]
    AnotherKubelet {
        /// What every kubelet uses, whatever it is told.
        path: PathBuf,
    },
    /// Something of the runtime resists being taken down.
    #[error("left behind by the runtime in {}: {}", .dir.display(), .what.join(", "))]
    LeftBehind {
        /// The runtime's folder.
        dir: PathBuf,
        /// Processes and mounts.
        what: Vec<String>,
    },
}

impl Error {
    /// For `map_err` after a file operation.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
