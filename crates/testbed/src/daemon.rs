//! A process that belongs to a test: started in its own process group, ended together with its owner.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::{Error, program, spawner, wait};

/// containerd waits for calls in progress when it is asked to stop.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(20);

const LOG_TAIL_LINES: usize = 60;

/// Returns the end of a daemon's log.
pub(crate) fn log_tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts a program by its path, with arguments. It searches `bin_dir` first for other programs.
    pub(crate) fn spawn(
        program: &Path,
        args: &[OsString],
        bin_dir: Option<&Path>,
        log: &Path,
    ) -> Result<Self, Error> {
        let output = || {
            let file = OpenOptions::new().create(true).append(true).open(log);
            file.map_err(Error::io("open", log))
        };
        // Through setpriv, because only the child itself can set its parent-death signal.
        let mut command = Command::new(program::find("setpriv").unwrap_or_else(|| "setpriv".into()));
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .env("PATH", program::search_path(bin_dir))
            // If the tests run under systemd, this daemon must not send notifications in their name.
            .env_remove("NOTIFY_SOCKET")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output()?)
            .stderr(output()?);
        let line = program::command_line(&command);
        let child = spawner::spawn(command).map_err(|source| Error::Spawn { command: line, source })?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal. The process is our child and has not been reaped, so its id cannot refer to another process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).map_err(|_| Error::NotRunning)
    }

    /// Asks it to end and waits until it has; `None` if it does not end in time.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        // This fails only if it has ended by itself, which the wait notices.
        let _ = self.signal(Signal::TERM);
        wait::until(STOP_LIMIT, || self.ended())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The whole group, in case it was running a helper. Both fail only if it has ended already.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
