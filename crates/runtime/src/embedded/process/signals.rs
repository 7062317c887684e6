//! Signals as a program expects them: none blocked, none ignored.

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Undoes what our own processes have set up for themselves, or were started with, before a container's program starts.
///
/// Both the mask and ignored signals are inherited through `execve`: without this, a container would not receive
/// SIGTERM because its shim reads that from a descriptor, would not notice broken pipes because Rust programs do not,
/// and would ignore SIGHUP because we were started with `nohup`.
#[expect(unsafe_code, reason = "changing a signal's disposition has no safe wrapper")]
pub(crate) fn reset_signals() -> nix::Result<()> {
    let fixed = [Signal::SIGKILL, Signal::SIGSTOP];
    for ours in Signal::iterator().filter(|signal| !fixed.contains(signal)) {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { signal(ours, SigHandler::SigDfl) }?;
    }
    SigSet::empty().thread_set_mask()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    #[expect(
        unsafe_code,
        reason = "what a process does between fork and exec cannot be checked by the compiler"
    )]
    fn nothing_that_was_ignored_before_stays_ignored() {
        let mut grep = Command::new("grep");
        grep.args(["-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
        // SAFETY: only system calls between fork and exec.
        unsafe {
            grep.pre_exec(|| {
                for ignored in [Signal::SIGHUP, Signal::SIGPIPE, Signal::SIGINT] {
                    signal(ignored, SigHandler::SigIgn)?;
                }
                SigSet::all().thread_block()?;
                Ok(reset_signals()?)
            });
        }
        let said = String::from_utf8(grep.output().expect("grep").stdout).expect("text");
        let classic = |line: &str| {
            let mask = line.split_whitespace().nth(1).expect("a mask");
            u64::from_str_radix(mask, 16).expect("a number") & 0x7fff_ffff
        };
        assert_eq!(said.lines().map(classic).collect::<Vec<_>>(), [0, 0], "{said}");
    }
}
