//! What the system tells of processes.

use std::path::{Path, PathBuf};

/// Where the system tells of a process.
pub(crate) fn folder(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Whether a process is stopped: by Ctrl-Z, SIGSTOP or a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    std::fs::read_to_string(folder(pid).join("stat")).is_ok_and(|stat| says_stopped(&stat))
}

/// Whether a thread of a process waits until a pipe or a terminal takes what it writes. Who may not see it sees none.
pub(crate) fn waits_to_write(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(folder(pid).join("task")) else { return false };
    let waits_for = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("wchan")).ok();
    threads.filter_map(|thread| waits_for(thread.ok()?)).any(|place| is_writing(&place))
}

/// Pipes have had several names in the kernel: `pipe_write`, `anon_pipe_write`, `fifo_pipe_write`.
fn is_writing(place: &str) -> bool {
    place.ends_with("pipe_write") || place == "n_tty_write"
}

/// The state stands behind the name, which may itself hold blanks and parentheses.
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
        for place in ["anon_pipe_write", "pipe_write", "n_tty_write"] {
            assert!(is_writing(place), "{place}");
        }
        for place in ["0", "", "ep_poll", "anon_pipe_read", "futex_do_wait"] {
            assert!(!is_writing(place), "{place}");
        }
    }
}
