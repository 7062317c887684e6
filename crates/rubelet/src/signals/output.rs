//! Printing from the background.
//!
//! A terminal may be set to stop whoever prints to it from the background (`stty tostop`). A process that is stopped reads
//! nothing, and a runtime may stand still with those who do not read its events. So the threads that print do so in any case.

use nix::sys::signal::{SigSet, Signal};

/// From now on this thread may print to a terminal in whose background the process is. It does nothing for other threads,
/// nor for processes that they start.
pub(crate) fn never_stops_this_thread() {
    let mut stopping = SigSet::empty();
    stopping.add(Signal::SIGTTOU);
    // Who cannot be spared is stopped as anybody else.
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
