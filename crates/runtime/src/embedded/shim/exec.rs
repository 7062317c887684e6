//! The helper that runs one command in a running container and waits for it.
//!
//! Its standard input is a socket to the runtime: a request comes in, a verdict goes out. If the socket closes, the
//! asker has lost interest or died, and the command is ended: nothing outlives the call it was made for.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use libcontainer::container::builder::ContainerBuilder;
use libcontainer::syscall::syscall::SyscallType;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::create::{STATE, forget_groups, library};
use super::diary::Diary;
use super::mount_ns;
use super::payload::Launch;
use super::settings::Settings;
use crate::embedded::error::{Error, Result};
use crate::embedded::store;

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The container.
    pub(crate) id: String,
    /// An OCI process.
    pub(crate) process: serde_json::Value,
    /// How long it may take, in seconds; for ever if absent.
    pub(crate) timeout: Option<i64>,
}

/// How that went.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The command ended with this code.
    Exited(i32),
    /// It did not end in time and was killed.
    TimedOut,
    /// It could not be run.
    Failed(String),
}

pub(super) fn main() -> Result<()> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(|errno| Error::io("take over the socket", errno))?;
    let mut socket = UnixStream::from(socket);
    let mut text = Vec::new();
    socket.read_to_end(&mut text).map_err(|error| Error::io("read the request", error))?;
    let request: Request =
        serde_json::from_slice(&text).map_err(|error| Error::io("read the request", error))?;
    let verdict = run(&request, &socket).unwrap_or_else(|error| Verdict::Failed(error.to_string()));
    let answer = serde_json::to_vec(&verdict).map_err(|error| Error::io("write the verdict", error))?;
    socket.write_all(&answer).map_err(|error| Error::io("write the verdict", error))
}

fn run(request: &Request, socket: &UnixStream) -> Result<Verdict> {
    let folder = std::env::current_dir().map_err(|error| Error::io("find the container's folder", error))?;
    // The library leaves a socket in its state folder for every command. A folder of our own takes them along.
    let private = PrivateState::make(&folder, &request.id)?;
    let process =
        memfd_create("process", MemfdFlags::CLOEXEC).map_err(|errno| Error::io("make a file", errno))?;
    let text =
        serde_json::to_vec(&request.process).map_err(|error| Error::io("encode the process", error))?;
    rustix::io::write(&process, &text).map_err(|errno| Error::io("write the process", errno))?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&process));
    let null = std::fs::File::open("/dev/null").map_err(|error| Error::io("open /dev/null", error))?;
    let settings = Settings::read()?;
    let launch = Launch::new(settings.payload, None)?;
    forget_groups();
    mount_ns::enter_without_root(&settings)?;

    let diary = Diary::begin()?;
    let library = library(&diary);
    let pid = ContainerBuilder::new(request.id.clone(), SyscallType::Linux)
        .with_executor(launch)
        .with_stdin(null)
        .with_root_path(&private.root)
        .map_err(&library)?
        .as_tenant()
        .with_process(Some(path))
        .with_detach(true)
        .build()
        .map_err(&library)?;
    drop(private);
    // The command's pipes must end with the command, not with its watcher.
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .map_err(|error| Error::io("open /dev/null", error))?;
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
    wait(pid, request.timeout, socket)
}

fn wait(pid: Pid, timeout: Option<i64>, socket: &UnixStream) -> Result<Verdict> {
    let raw = rustix::process::Pid::from_raw(pid.as_raw())
        .ok_or_else(|| Error::Internal("the command has no process".to_owned()))?;
    let handle = rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty())
        .map_err(|errno| Error::io("watch the command", errno))?;
    let limit = timeout.map(|seconds| Timespec { tv_sec: seconds, tv_nsec: 0 });
    let ended = loop {
        let mut fds = [
            PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN),
            // Only the loss of the peer is of interest.
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut fds, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::io("watch the command", errno)),
            Ok(0) => break false,
            Ok(_) => break !fds[0].revents().is_empty(),
        }
    };
    if !ended {
        // It leads a session of its own: its group goes with it.
        let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
        let _ = kill(pid, Signal::SIGKILL);
    }
    let code = loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, code)) => break code,
            Ok(WaitStatus::Signaled(_, signal, _)) => break 128 + signal as i32,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(Error::io("wait for the command", errno)),
        }
    };
    Ok(if ended { Verdict::Exited(code) } else { Verdict::TimedOut })
}

/// A copy of the library's state of the container, gone when done with.
struct PrivateState {
    root: std::path::PathBuf,
}

impl PrivateState {
    fn make(folder: &Path, id: &str) -> Result<Self> {
        let root = folder.join(format!("exec-{}", std::process::id()));
        let private = Self { root };
        let state = private.root.join(id);
        store::make_dir(&state)?;
        std::fs::copy(folder.join(STATE).join(id).join("state.json"), state.join("state.json"))
            .map_err(|error| Error::io("read the container's state", error))?;
        Ok(private)
    }
}

impl Drop for PrivateState {
    fn drop(&mut self) {
        let _ = store::remove_dir(&self.root);
    }
}
