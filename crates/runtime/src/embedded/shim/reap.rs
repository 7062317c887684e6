//! Children of the shim: the helper, the container, and every orphan that falls to it.

use std::collections::HashMap;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

/// What has been reaped so far and not yet asked for.
///
/// The container may end before the helper has told its pid, so ends are kept until the pid is known.
#[derive(Debug, Default)]
pub(super) struct Reaped {
    ended: HashMap<i32, i32>,
    /// Once the container's pid is known, only that one is of interest.
    only: Option<i32>,
}

impl Reaped {
    /// Reaps everything that has ended, and tells of each.
    pub(super) fn collect(&mut self, mut tell: impl FnMut(i32, i32)) {
        loop {
            let (pid, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid.as_raw(), code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid.as_raw(), 128 + signal as i32),
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => continue,
            };
            self.note(pid, code);
            tell(pid, code);
        }
    }

    /// From now on only this child's end is kept.
    pub(super) fn watch(&mut self, pid: i32) {
        self.only = Some(pid);
        self.ended.retain(|ended, _| *ended == pid);
    }

    /// How the watched child ended, if it has.
    pub(super) fn watched(&self) -> Option<i32> {
        self.ended.get(&self.only?).copied()
    }

    /// Whether somebody but this child was killed.
    pub(super) fn has_killed(&self, but: Option<i32>) -> bool {
        const KILLED: i32 = 128 + Signal::SIGKILL as i32;
        self.ended.iter().any(|(pid, code)| *code == KILLED && Some(*pid) != but)
    }

    /// Waits for the watched child.
    pub(super) fn wait(&mut self) {
        while let (Some(pid), None) = (self.only, self.watched()) {
            match waitpid(nix::unistd::Pid::from_raw(pid), None) {
                Ok(WaitStatus::Exited(_, code)) => self.note(pid, code),
                Ok(WaitStatus::Signaled(_, signal, _)) => self.note(pid, 128 + signal as i32),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn note(&mut self, pid: i32, code: i32) {
        if self.only.is_none_or(|only| only == pid) {
            self.ended.insert(pid, code);
        }
    }
}
