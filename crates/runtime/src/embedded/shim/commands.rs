//! Commands in the container: processes that the shim starts beside the container's own, one for each connection that
//! asks for one.
//!
//! If the connection closes, or its peer signals that it will send no more, the caller has lost interest or died, and
//! the command is ended: nothing outlives the call it was started for.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags};

use super::join::{self, Host, Streams};
use super::protocol::Outcome;
use crate::embedded::error::{Error, Result};

/// The running commands.
#[derive(Default)]
pub(super) struct Commands(Vec<Running>);

struct Running {
    pid: i32,
    asker: UnixStream,
    /// Why the command could not be run, written by the process that was to become it.
    complaint: std::fs::File,
    doomed: bool,
}

impl Commands {
    /// Starts a command. `files` came with the request: the arguments, and where the output goes.
    pub(super) fn begin(&mut self, mut asker: UnixStream, files: Vec<OwnedFd>, host: &Host<'_>) {
        match start(files, host) {
            Ok((pid, complaint)) => self.0.push(Running { pid, asker, complaint, doomed: false }),
            Err(error) => {
                let _ = asker.write_all(Outcome::Failed(error.to_string()).line().as_bytes());
            }
        }
    }

    pub(super) fn to_watch(&self) -> impl Iterator<Item = PollFd<'_>> {
        // A command whose caller is gone needs no watching: its end is reported by a signal.
        let heard = self.0.iter().filter(|command| !command.doomed);
        heard.map(|command| PollFd::new(&command.asker, PollFlags::IN))
    }

    /// Ends the commands whose callers no longer wait for them.
    pub(super) fn drop_abandoned(&mut self) {
        for command in self.0.iter_mut().filter(|command| !command.doomed) {
            let said = command.asker.read(&mut [0; 64]);
            let waits = said.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
            if !waits {
                command.end();
            }
        }
    }

    /// Handles the end of a child of the shim; if it was a command, its caller gets the exit code.
    pub(super) fn ended(&mut self, pid: i32, code: i32) {
        if let Some(index) = self.0.iter().position(|command| command.pid == pid) {
            self.0.swap_remove(index).tell(code);
        }
    }

    /// Ends all commands: the container is gone, and everything that ran in it.
    pub(super) fn end_all(&mut self) {
        for mut command in self.0.drain(..) {
            command.end();
            let code = loop {
                match waitpid(Pid::from_raw(command.pid), None) {
                    Ok(WaitStatus::Exited(_, code)) => break code,
                    Ok(WaitStatus::Signaled(_, signal, _)) => break 128 + signal as i32,
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(_) => break 255,
                }
            };
            command.tell(code);
        }
    }
}

impl Running {
    fn end(&mut self) {
        self.doomed = true;
        // It leads a session of its own, so its process group ends with it. Not reaped yet, so the pid is still valid.
        let _ = kill(Pid::from_raw(-self.pid), Signal::SIGKILL);
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }

    fn tell(mut self, code: i32) {
        let mut message = String::new();
        let _ = self.complaint.read_to_string(&mut message);
        let outcome = if message.is_empty() { Outcome::Exited(code) } else { Outcome::Failed(message) };
        let _ = self.asker.write_all(outcome.line().as_bytes());
    }
}

fn start(files: Vec<OwnedFd>, host: &Host<'_>) -> Result<(i32, std::fs::File)> {
    let [words, stdout, stderr]: [OwnedFd; 3] = files
        .try_into()
        .map_err(|_| Error::invalid("exec", "needs three descriptors: the command, stdout, stderr"))?;
    let (complaint, end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::io("make a pipe", errno))?;
    let pid = join::spawn(host, words, &Streams { stdout, stderr }, end)?;
    Ok((pid, complaint.into()))
}
