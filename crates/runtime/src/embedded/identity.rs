//! The identity of a process, which tells it apart from later ones with the same pid.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// Identifies a process. A pid alone may belong to another process by now.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pid: i32,
    /// Its start time, in the kernel's ticks since boot.
    started: u64,
}

impl Identity {
    /// Returns the identity of a live process.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, started: start_time(pid)? })
    }

    /// Opens a handle to the process, if it still exists.
    pub(crate) fn open(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Read after opening the handle: if the start time matches, the handle refers to the right process.
        (start_time(self.pid) == Some(self.started)).then_some(handle)
    }
}

/// Reads the 22nd field of `/proc/<pid>/stat`; the second field may contain anything.
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
