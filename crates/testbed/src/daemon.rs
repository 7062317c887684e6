//! The process of one containerd: started in a process group of its own, ended with its owner.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::requirement::Tools;
use crate::{Error, config, program, spawner, wait};

/// containerd waits for calls in flight when it is asked to stop.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    pub(crate) fn spawn(tools: &Tools, dir: &Path) -> Result<Self, Error> {
        let log_path = dir.join(config::LOG);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log_path)
            .map_err(Error::io("open", &log_path))?;
        let errors = log.try_clone().map_err(Error::io("open", &log_path))?;
        // Through setpriv, because a parent-death signal can be set only by the child itself.
        let mut command = Command::new(&tools.setpriv);
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&tools.containerd)
            .arg("--config")
            .arg(dir.join(config::CONFIG))
            .env("PATH", program::search_path(Some(&tools.bin_dir)))
            // A test run under systemd must not let this daemon speak for it.
            .env_remove("NOTIFY_SOCKET")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
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

    /// The process is our child and not waited for yet, so its id cannot mean another process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).map_err(|_| Error::NotRunning)
    }

    /// Asks it to end and waits until it has; `None` if it does not in time.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        // Fails only if it has ended by itself, which the wait sees.
        let _ = self.signal(Signal::TERM);
        wait::until(STOP_LIMIT, || self.ended())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The group, for a helper it may have been running; both fail only if it has ended already.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
