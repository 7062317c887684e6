//! The exit codes of commands. They are part of the interface; `docs/exit-codes.md` lists them.

use std::process::ExitCode;

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The runtime cannot be reached, or does not speak CRI.
    Runtime,
    /// The command line or configuration is wrong.
    Usage,
    /// An operation of the system failed that has nothing to do with the runtime.
    System,
    /// An image does not exist, cannot be obtained, or is refused.
    Image,
    /// Not all pods that were run to completion succeeded.
    Pods,
    /// A recording is damaged, or is not a recording.
    Recording,
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::System => Self::from(1),
            // The code that the command line parser uses as well.
            Failure::Usage => Self::from(2),
            Failure::Runtime => Self::from(3),
            Failure::Image => Self::from(4),
            Failure::Pods => Self::from(5),
            Failure::Recording => Self::from(6),
        }
    }
}
