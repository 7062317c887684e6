//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns how many files this process may have open now.
pub(crate) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises this process's limit of open files to its maximum. Its children inherit that, unless they are given less.
pub(crate) fn allow_all_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // A lower limit is no reason not to start.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Sets the limit of open files for this process and its children, if a number is known.
pub(crate) fn allow_open_files(number: Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    if let Some(number) = number {
        let current = Some(number.min(limit.maximum.unwrap_or(u64::MAX)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
}
