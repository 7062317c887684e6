//! The states of a container and of a sandbox, with their guards.

use serde::{Deserialize, Serialize};

/// The state of a container. It only ever moves downwards in this list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContainerState {
    /// Described on disk, but without a process.
    Created,
    /// A shim has been asked to start it; whether that worked is not yet known.
    Starting,
    /// Its first process is running.
    Running {
        /// Process id on the host.
        pid: i32,
        /// Wall clock time in nanoseconds.
        started_at: i64,
    },
    /// Nothing of it is running any more.
    Exited(Exit),
}

/// How a container ended. Written by the shim, or by the runtime if the shim could not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// 0–255; 128 + signal if it was killed by a signal.
    pub(crate) code: i32,
    /// The cause, which the code alone does not tell.
    pub(crate) cause: Cause,
    /// Whether the kernel killed one of its processes because memory ran out.
    pub(crate) oom: bool,
    /// Wall clock time in nanoseconds; 0 if it never started.
    pub(crate) started_at: i64,
    /// Wall clock time in nanoseconds.
    pub(crate) finished_at: i64,
}

/// Why a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    /// Its first process ended.
    Ended,
    /// It could not be started; the text says why.
    StartFailed(String),
    /// The shim is gone and has recorded nothing: what happened is unknown.
    Lost,
}

/// The exit code of a container that could not be started, as in other runtimes.
pub(crate) const START_FAILED: i32 = 128;
/// The exit code of a container whose end nobody observed.
pub(crate) const LOST: i32 = 255;

impl Exit {
    /// Returns the exit of a container whose shim vanished.
    pub(crate) fn lost(started_at: i64, now: i64) -> Self {
        Self { code: LOST, cause: Cause::Lost, oom: false, started_at, finished_at: now }
    }

    /// Returns the exit of a container that never ran.
    pub(crate) fn start_failed(message: impl Into<String>, now: i64) -> Self {
        Self {
            code: START_FAILED,
            cause: Cause::StartFailed(message.into()),
            oom: false,
            started_at: 0,
            finished_at: now,
        }
    }

    /// Returns the CRI's `reason`.
    pub(crate) fn reason(&self) -> &'static str {
        match &self.cause {
            Cause::StartFailed(_) => "StartError",
            Cause::Lost => "Unknown",
            // Whatever its exit code is: other runtimes do the same, and an init container that has lost one of its
            // processes has failed.
            Cause::Ended if self.oom => "OOMKilled",
            Cause::Ended if self.code == 0 => "Completed",
            Cause::Ended => "Error",
        }
    }

    /// Returns the CRI's `message`.
    pub(crate) fn message(&self) -> String {
        match &self.cause {
            Cause::StartFailed(message) => message.clone(),
            Cause::Lost => {
                "the container's supervisor exited without reporting how the container ended".to_owned()
            }
            Cause::Ended => String::new(),
        }
    }
}

impl ContainerState {
    /// Whether it can be started: only once, from `Created`.
    pub(crate) fn can_start(&self) -> bool {
        matches!(self, Self::Created)
    }

    /// Whether exec and resource updates are possible, which need a process.
    pub(crate) fn can_exec(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    /// Whether its log can be reopened, which requires a shim that writes it.
    pub(crate) fn can_reopen_log(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    /// Whether its limits can be changed: before the start and while it is running.
    pub(crate) fn can_update(&self) -> bool {
        matches!(self, Self::Created | Self::Running { .. })
    }

    /// Whether there is nothing to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self, Self::Created | Self::Exited(_))
    }

    /// Returns its name for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Starting => "starting",
            Self::Running { .. } => "running",
            Self::Exited(_) => "exited",
        }
    }
}

/// Whether a sandbox can hold new containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SandboxState {
    /// Namespaces and network are up.
    Ready,
    /// Stopped, or the process that held its namespace died.
    NotReady,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited() -> ContainerState {
        ContainerState::Exited(Exit::lost(0, 1))
    }

    #[test]
    fn the_guards_as_a_truth_table() {
        let running = ContainerState::Running { pid: 1, started_at: 1 };
        // state, start, exec, reopen, update, stopped
        let table = [
            (ContainerState::Created, true, false, false, true, true),
            (ContainerState::Starting, false, false, false, false, false),
            (running, false, true, true, true, false),
            (exited(), false, false, false, false, true),
        ];
        for (state, start, exec, reopen, update, stopped) in table {
            assert_eq!(state.can_start(), start, "{state:?}");
            assert_eq!(state.can_exec(), exec, "{state:?}");
            assert_eq!(state.can_reopen_log(), reopen, "{state:?}");
            assert_eq!(state.can_update(), update, "{state:?}");
            assert_eq!(state.is_stopped(), stopped, "{state:?}");
        }
    }

    #[test]
    fn reasons_follow_code_and_cause() {
        let ended = |code, oom| Exit { code, cause: Cause::Ended, oom, started_at: 1, finished_at: 2 };
        assert_eq!(ended(0, false).reason(), "Completed");
        assert_eq!(ended(0, true).reason(), "OOMKilled");
        assert_eq!(ended(1, false).reason(), "Error");
        assert_eq!(ended(137, true).reason(), "OOMKilled");
        assert_eq!(Exit::lost(1, 2).reason(), "Unknown");
        assert_eq!(Exit::start_failed("no such file", 2).reason(), "StartError");
        assert_eq!(Exit::start_failed("no such file", 2).code, 128);
    }
}
