//! How commands end. These numbers are part of the interface; `docs/exit-codes.md` lists them.

use std::process::ExitCode;

/// Why a command could not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The runtime cannot be reached, or is not one that we can talk to.
    Runtime,
    /// The machine did not let us do something that has nothing to do with the runtime.
    System,
    /// An image is not there, cannot be had, or is refused.
    Image,
}

impl From<Failure> for ExitCode {
    /// 2 is taken: it is what a wrong command line ends with.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::System => Self::from(1),
            Failure::Runtime => Self::from(3),
            Failure::Image => Self::from(4),
        }
    }
}
