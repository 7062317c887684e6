//! Children of the shim: the helper, the container, and every orphan that is reparented to it.

use std::collections::HashMap;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

/// The children that have been reaped so far, with their exit codes.
///
/// The container may end before the helper has reported its pid, so exits are kept until the pid is known.
#[derive(Debug, Default)]
pub(super) struct Reaped {
    ended: HashMap<i32, i32>,
    /// The container's pid, once it is known: from then on only its exit is kept.
    only: Option<i32>,
}

impl Reaped {
    /// Reaps everything that has ended, and reports each.
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

    /// Keeps only this child's exit from now on.
    pub(super) fn watch(&mut self, pid: i32) {
        self.only = Some(pid);
        self.ended.retain(|ended, _| *ended == pid);
    }

    /// Returns the exit code of the watched child, if it has ended.
    pub(super) fn watched(&self) -> Option<i32> {
        self.ended.get(&self.only?).copied()
    }

    /// Whether any child but this one was killed.
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
