//! Printing from the background.
//!
//! A terminal can be set to stop processes that print to it from the background (`stty tostop`). A stopped process
//! reads nothing, and a runtime may block on a client that does not read its events. So the threads that print ignore
//! this setting.

use nix::sys::signal::{SigSet, Signal};

/// Lets this thread print to a terminal even while its process is in the background. Other threads, and processes that
/// they start, are not affected.
pub(crate) fn never_stops_this_thread() {
    let mut stopping = SigSet::empty();
    stopping.add(Signal::SIGTTOU);
    // If this fails, printing stops the process as it would any other.
    let _ = stopping.thread_block();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_prints_is_spared() {
        let is_blocked = || SigSet::thread_get_mask().expect("a mask").contains(Signal::SIGTTOU);
        let printer = std::thread::spawn(move || {
            never_stops_this_thread();
            is_blocked()
        });
        assert!(printer.join().expect("it ends"));
        assert!(!is_blocked());
    }
}
