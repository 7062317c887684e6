//! What the system reports about processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the folder of a process in `/proc`.
pub(crate) fn folder(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Whether a process is stopped: by Ctrl-Z, SIGSTOP or a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    std::fs::read_to_string(folder(pid).join("stat")).is_ok_and(|stat| says_stopped(&stat))
}

/// A thread that is blocked writing to a pipe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitingWriter {
    thread: PathBuf,
    /// How often it has begun to wait for anything: while this does not change, it is the same wait.
    waits: u64,
}

/// Returns the threads of a process that are blocked writing to a pipe; none if this user must not see them.
pub(crate) fn waiting_writers(pid: u32) -> BTreeSet<WaitingWriter> {
    let Ok(threads) = std::fs::read_dir(folder(pid).join("task")) else { return BTreeSet::new() };
    let waiting = |thread: PathBuf| {
        let told = |file: &str| std::fs::read_to_string(thread.join(file)).ok();
        told("wchan").filter(|place| is_writing(place))?;
        let waits = waits(&told("status")?)?;
        Some(WaitingWriter { thread, waits })
    };
    threads.filter_map(|thread| waiting(thread.ok()?.path())).collect()
}

fn waits(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

/// The function has had several names in kernels: `pipe_write`, `anon_pipe_write`, `fifo_pipe_write`.
fn is_writing(place: &str) -> bool {
    place.ends_with("pipe_write")
}

/// The state follows the process name, which may itself contain blanks and parentheses.
fn says_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_whatever_the_name() {
        assert!(says_stopped("12 (crictl) T 1 12"));
        assert!(says_stopped("12 (a) b) t 1"));
        assert!(!says_stopped("12 (T ) S 1"));
        assert!(!says_stopped(""));
    }

    #[test]
    fn who_waits_to_write_is_told_from_who_waits_to_read() {
        for place in ["anon_pipe_write", "pipe_write", "fifo_pipe_write"] {
            assert!(is_writing(place), "{place}");
        }
        for place in ["0", "", "ep_poll", "anon_pipe_read", "futex_do_wait"] {
            assert!(!is_writing(place), "{place}");
        }
    }

    #[test]
    fn waits_are_counted_without_what_a_thread_did_not_want() {
        let status = "Name:\tyes\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(waits(status), Some(12));
        assert_eq!(waits("nonvoluntary_ctxt_switches:\t7\n"), None);
    }
}
