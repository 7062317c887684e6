//! The signals that a process handles.

pub(crate) mod output;
pub(crate) mod standstill;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C, SIGTERM, or the end of the terminal. A command calls it only once: a signal between two calls
/// would be lost.
pub(crate) async fn told_to_end() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers, these signals end the process anyway.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = hung_up() => {}
    }
}

/// Waits for the end of the terminal, unless the process was started to ignore that (`nohup`).
async fn hung_up() {
    let hangup = SignalKind::hangup();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if is_ignored(&status, hangup.as_raw_value()) {
        return std::future::pending().await;
    }
    match signal(hangup) {
        Ok(mut hangup) => {
            hangup.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Whether a process with this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (number - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_told_by_the_system() {
        let status = |mask: &str| format!("Name:\trubelet\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        let hangup = SignalKind::hangup().as_raw_value();
        assert!(is_ignored(&status("0000000000001001"), hangup));
        assert!(!is_ignored(&status("0000000000001000"), hangup));
        assert!(is_ignored(&status("0000000000001000"), SignalKind::pipe().as_raw_value()));
        assert!(!is_ignored("", hangup) && !is_ignored(&status("x"), hangup));
    }
}
