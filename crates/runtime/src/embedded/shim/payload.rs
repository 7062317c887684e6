//! The last code that runs before a container's own program, inside the container.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use libcontainer::oci_spec::runtime::Spec;
use libcontainer::workload::{Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use parking_lot::Mutex;

use super::settings::Payload;
use crate::embedded::error::Result;
use crate::embedded::process::{self, Rights};
use crate::embedded::seccomp::Filter;

/// Starts the program, and reports a failure through a pipe that closes by itself on success.
#[derive(Clone)]
pub(super) struct Launch {
    payload: Payload,
    filter: Option<Filter>,
    verdict: Arc<Mutex<Option<OwnedFd>>>,
}

impl Launch {
    /// Creates it for the container whose folder this process works in.
    pub(super) fn new(payload: Payload, verdict: Option<OwnedFd>) -> Result<Self> {
        let filter = match payload {
            Payload::Program(confinement) => confinement.filter()?,
            Payload::Pause => None,
        };
        Ok(Self { payload, filter, verdict: Arc::new(Mutex::new(verdict)) })
    }

    fn run_program(&self, spec: &Spec, rights: Rights) -> Result<Infallible, ExecutorError> {
        let args = spec.process().as_ref().and_then(|process| process.args().as_ref());
        let args: Vec<CString> = args
            .into_iter()
            .flatten()
            .map(|arg| CString::new(arg.as_bytes()))
            .collect::<Result<_, _>>()
            .map_err(|_| ExecutorError::InvalidArg)?;
        let program = args.first().ok_or(ExecutorError::InvalidArg)?;
        process::reset_signals().map_err(|errno| ExecutorError::Other(errno.to_string()))?;
        process::confine(rights, self.filter.as_ref())
            .map_err(|error| ExecutorError::Other(error.to_string()))?;
        nix::unistd::execvp(program, &args).map_err(|errno| {
            ExecutorError::Other(format!("exec {:?}: {}", program.to_string_lossy(), errno.desc()))
        })
    }

    fn tell(&self, error: &ExecutorError) {
        if let Some(verdict) = self.verdict.lock().take() {
            let _ = rustix::io::write(&verdict, error.to_string().as_bytes());
        }
    }

    /// Becomes the pod's first process: it reaps, and otherwise sleeps.
    fn pause(&self) -> Result<(), ExecutorError> {
        let other = |errno: nix::Error| ExecutorError::Other(errno.to_string());
        // Its name so far is the library's, which tells people nothing. Failing to rename it is no reason not to pause.
        let _ = rustix::thread::set_name(c"pause");
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        children.thread_block().map_err(other)?;
        // Nothing is executed here, so nothing closes by itself.
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let verdict = self.verdict.lock().take();
        let kept = verdict.as_ref().map(AsRawFd::as_raw_fd);
        for fd in open.into_iter().filter(|fd| *fd > 2 && Some(*fd) != kept) {
            let _ = nix::unistd::close(fd);
        }
        drop(verdict);
        loop {
            children.wait().map_err(other)?;
            while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                if status == WaitStatus::StillAlive {
                    break;
                }
            }
        }
    }
}

impl Executor for Launch {
    /// Sets `HOME`: the library has looked up the user, and an unknown one gets `/`.
    fn setup_envs(&self, mut variables: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        let home = variables.entry("HOME".to_owned()).or_default();
        if home.is_empty() {
            "/".clone_into(home);
        }
        process::replace_environment(variables.into_iter().collect());
        Ok(())
    }

    fn exec(&self, spec: &Spec) -> Result<(), ExecutorError> {
        match self.payload {
            Payload::Program(confinement) => {
                let Err(error) = self.run_program(spec, confinement.rights);
                self.tell(&error);
                Err(error)
            }
            Payload::Pause => self.pause(),
        }
    }

    fn validate(&self, _: &Spec) -> Result<(), ExecutorValidationError> {
        // The kernel decides best whether the program can be run, and `exec` returns its error.
        Ok(())
    }
}
