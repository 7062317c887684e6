//! How many files a process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many this process may have open now.
pub(crate) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Lets this process have as many files open as it ever may. What it starts gets the same, unless it is told less.
pub(crate) fn allow_all_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Not to have more is no reason not to begin.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Lets this process, and what it starts, have this many files open, if a number is known.
pub(crate) fn allow_open_files(number: Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    if let Some(number) = number {
        let current = Some(number.min(limit.maximum.unwrap_or(u64::MAX)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
}
