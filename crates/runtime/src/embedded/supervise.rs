//! The runtime's side of a shim: starting one, connecting to one, watching one.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream as StdUnixStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rubelet_cri::v1::ContainerEventType;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::error::{Error, Result};
use super::registry::Container;
use super::runtime::{Runtime, blocking};
use super::shim::protocol::{Command, Report};
use super::state::{ContainerState, Exit};
use super::store::{self, Durability};
use super::{clock, shim};

/// A shim has little to do and answers at once, if at all.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

/// A connection to a live shim.
pub(crate) type Link = BufReader<UnixStream>;

/// Calls `work` with a short path of the socket: a socket's address limits its length, and a folder's descriptor has a
/// short name.
fn with_short_path<T>(folder: &Path, work: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let handle = File::open(folder)?;
    work(Path::new(&format!("/proc/self/fd/{}/{}", handle.as_raw_fd(), store::SHIM_SOCKET)))
}

/// Starts a shim for the container of a folder. The socket exists before the shim does.
pub(crate) fn spawn(program: &Path, folder: &Path) -> Result<StdUnixStream> {
    let context = |error| Error::io(format!("start a shim in {}", folder.display()), error);
    let listener = with_short_path(folder, |path| UnixListener::bind(path)).map_err(context)?;
    let link = with_short_path(folder, |path| StdUnixStream::connect(path)).map_err(context)?;
    let mut command = tokio::process::Command::new(program);
    command.arg0("rubelet-shim").arg(shim::SHIM).current_dir(folder).env_clear();
    command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::null()).stderr(Stdio::null());
    // The child is not kept: the runtime reaps it in the background, and learns of its end from the socket.
    command.spawn().map_err(context)?;
    Ok(link)
}

/// Connects to the shim of a folder; `None` if there is no live one, or none was ever started. Never waits: if a shim
/// has not accepted connections for so long that its queue is full, that is an error.
pub(crate) fn connect(folder: &Path) -> Result<Option<StdUnixStream>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let link = with_short_path(folder, |path| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(StdUnixStream::from(socket))
    });
    match link {
        Ok(link) => Ok(Some(link)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(Error::io(format!("connect to the shim in {}", folder.display()), error)),
    }
}

/// Whether a start was ever attempted in this folder.
pub(crate) fn was_started(folder: &Path) -> bool {
    folder.join(store::SHIM_SOCKET).exists()
}

/// Converts a connection for use in async code.
pub(crate) fn adopt(link: StdUnixStream) -> Result<Link> {
    link.set_nonblocking(true).map_err(|error| Error::io("set up a socket", error))?;
    let link = UnixStream::from_std(link).map_err(|error| Error::io("set up a socket", error))?;
    Ok(BufReader::new(link))
}

/// Returns the shim's next report; `None` once it is gone.
pub(crate) async fn next(link: &mut Link) -> Option<Report> {
    let mut line = String::new();
    loop {
        line.clear();
        match link.read_line(&mut line).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {
                if let Some(report) = Report::parse(line.trim_end()) {
                    return Some(report);
                }
            }
        }
    }
}

/// Sends a command to the shim of a folder. Returns `Ok(false)` if there is no live shim. A shim that does not answer
/// soon, because it was stopped or waits for a disk, is an error.
pub(crate) async fn ask(folder: &Path, command: Command) -> Result<bool> {
    let silent = || Error::State(format!("the shim in {} does not answer", folder.display()));
    tokio::time::timeout(ANSWERED_WITHIN, put(folder, command)).await.unwrap_or_else(|_| Err(silent()))
}

async fn put(folder: &Path, command: Command) -> Result<bool> {
    let Some(link) = connect(folder)? else { return Ok(false) };
    let mut link = adopt(link)?;
    if link.get_mut().write_all(command.line().as_bytes()).await.is_err() {
        return Ok(false);
    }
    let mut line = String::new();
    loop {
        line.clear();
        match link.read_line(&mut line).await {
            Ok(0) | Err(_) => return Ok(false),
            Ok(_) => match line.trim_end().split_once(' ').unwrap_or((line.trim_end(), "")) {
                ("ok", _) => return Ok(true),
                ("error", text) => return Err(Error::State(text.to_owned())),
                _ => {}
            },
        }
    }
}

impl Runtime {
    /// Watches a running container until its shim is gone, then publishes how it ended.
    pub(crate) fn watch(self: &Arc<Self>, container: Arc<Container>, mut link: Link) {
        let runtime = Arc::clone(self);
        tokio::spawn(async move {
            let mut told = None;
            while let Some(report) = next(&mut link).await {
                if let Report::Ended(exit) = report {
                    told = exit;
                    break;
                }
            }
            runtime.finish(&container, told).await;
        });
    }

    /// Ends a container whose shim is done or gone: with the exit from its file, else the one that the shim reported,
    /// else a default.
    pub(crate) async fn finish(self: &Arc<Self>, container: &Arc<Container>, told: Option<Exit>) {
        let started_at = match container.state() {
            ContainerState::Running { started_at, .. } => started_at,
            _ => 0,
        };
        let exit = self.read_end(container, told, started_at).await;
        container.state.send_replace(ContainerState::Exited(exit));
        self.publish_container(ContainerEventType::ContainerStoppedEvent, container);
    }

    /// Returns the recorded exit, or the reported one, or a lost one, which is recorded now. When this returns, nothing
    /// of the container is running.
    async fn read_end(
        self: &Arc<Self>,
        container: &Arc<Container>,
        told: Option<Exit>,
        started_at: i64,
    ) -> Exit {
        let path = self.layout.container(container.id()).join(store::EXIT);
        let reading = path.clone();
        if let Ok(Some(exit)) = blocking(move || store::read_json::<Exit>(&reading)).await {
            return exit;
        }
        if told.is_none() {
            tracing::warn!(
                container = container.id(),
                "the container's shim is gone; killing the container's remaining processes"
            );
        }
        self.end_group(&container.record.cgroup).await;
        self.end_orphan(container.id()).await;
        let exit = told.unwrap_or_else(|| Exit::lost(started_at, clock::now()));
        let written = exit.clone();
        if let Err(error) = blocking(move || store::write_json(&path, &written, Durability::Power)).await {
            tracing::error!(container = container.id(), %error, "cannot record the container's exit");
        }
        exit
    }

    /// Kills everything in a control group and removes it. Gives up after a while: nobody can end a process that is
    /// stuck in the kernel, and the next removal tries again.
    pub(crate) async fn end_group(self: &Arc<Self>, group: &str) {
        let mut pause = Duration::from_millis(1);
        for _ in 0..12 {
            let (cgroups, group) = (self.facts.cgroups.clone(), group.to_owned());
            let gone = blocking(move || {
                cgroups.kill(&group);
                Ok(cgroups.remove(&group))
            });
            if gone.await.unwrap_or(true) {
                return;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        tracing::warn!(group, "cannot kill the processes of a control group");
    }

    /// Publishes a container's transition. Does nothing if its sandbox is gone, which cannot happen before the
    /// container is.
    pub(crate) fn publish_container(&self, kind: ContainerEventType, container: &Container) {
        if let Ok(sandbox) = self.registry.sandbox(&container.record.sandbox) {
            self.events.publish(kind, container.id(), &sandbox, &self.registry);
        }
    }
}
