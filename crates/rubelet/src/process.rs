//! What the system tells of processes.

use std::path::Path;

/// Whether a process is stopped: by Ctrl-Z, SIGSTOP or a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| says_stopped(&stat))
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
}
