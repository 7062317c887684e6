//! A process, told from others that get its number later.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// Which process it is. A number alone may be another process by now.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pid: i32,
    /// When it was started, in the kernel's ticks since boot.
    started: u64,
}

impl Identity {
    /// Of a process that lives.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, started: start_time(pid)? })
    }

    /// A handle on the process, if it is still there.
    pub(crate) fn open(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Read after the handle was taken: if it fits, the handle is of the right one.
        (start_time(self.pid) == Some(self.started)).then_some(handle)
    }
}

/// The 22nd field of `/proc/<pid>/stat`; the second one may contain anything.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_another_process_has_is_not_opened() {
        let own = Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.open().is_some());
        let later = Identity { started: own.started + 1, ..own };
        assert!(later.open().is_none());
    }
}
