//! How commands end. These numbers are part of the interface; `docs/exit-codes.md` lists them.

use std::process::ExitCode;

/// Why a command could not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The runtime cannot be reached, or is not one that we can talk to.
    Runtime,
    /// We were told something that makes no sense.
    Usage,
    /// The machine did not let us do something that has nothing to do with the runtime.
    System,
    /// An image is not there, cannot be had, or is refused.
    Image,
    /// Pods that were run to their end did not all end well.
    Pods,
    /// A recording is damaged, or is none.
    Recording,
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::System => Self::from(1),
            // What the reader of the command line ends with, too.
            Failure::Usage => Self::from(2),
            Failure::Runtime => Self::from(3),
            Failure::Image => Self::from(4),
            Failure::Pods => Self::from(5),
            Failure::Recording => Self::from(6),
        }
    }
}
