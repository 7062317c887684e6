//! `ExecSync`: one command in a running container, to its end or its time limit.
//!
//! The container's shim runs it: it gets the words in a file of memory and two pipes for the output, and answers with a
//! line. Hanging up ends the command.

use std::io::{IoSlice, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rubelet_cri::v1;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::AcquireError;
use tokio::time::Sleep;

use super::error::{Error, Result};
use super::runtime::Runtime;
use super::shim::protocol::{Command, Outcome};
use super::supervise::{self, Link};

/// Of each stream, that much is kept; the rest is read and dropped, so that the command can go on.
const MAX_OUTPUT: usize = 16 << 20;

/// What a pipe can hold, however its size was changed by somebody who is not root.
const MAX_PIPE: usize = 1 << 20;

/// How long after its time limit a command may take to be gone.
const LAST_WORD: Duration = Duration::from_secs(5);

/// How many bytes of its output a command gets back at most: both streams together must fit into one message of the usual limit.
pub const MAX_ANSWER: usize = MAX_OUTPUT - 4096;

impl Runtime {
    pub(crate) async fn exec_sync(
        self: &Arc<Self>,
        request: v1::ExecSyncRequest,
    ) -> Result<v1::ExecSyncResponse> {
        if request.cmd.is_empty() {
            return Err(Error::invalid("cmd", "is empty"));
        }
        if let Some(bad) = request.cmd.iter().find(|word| word.contains('\0')) {
            return Err(Error::invalid("cmd", format!("{bad:?} contains a NUL byte")));
        }
        let found = self.registry.container(&request.container_id)?;
        let state = found.state();
        if !state.can_exec() {
            return Err(Error::State(format!("container {} is {}", found.id(), state.name())));
        }
        let gone = || Error::State(format!("container {} does not run any more", found.id()));

        let late = || Error::Timeout { what: format!("command {:?}", request.cmd), seconds: request.timeout };
        let limit = u64::try_from(request.timeout).ok().filter(|seconds| *seconds > 0);
        let mut deadline = limit.map(|seconds| Box::pin(tokio::time::sleep(Duration::from_secs(seconds))));
        let _slots = tokio::select! {
            // First that of the container: who waits for it takes none of the others'.
            slots = async { Ok((found.execs.acquire().await?, self.execs.acquire().await?)) } => {
                slots.map_err(|error: AcquireError| Error::Internal(error.to_string()))?
            }
            () = over(&mut deadline) => return Err(late()),
        };
        let words = words(&request.cmd).map_err(|error| Error::io("write the command", error))?;
        let (mut stdout, stdout_end) = Output::open()?;
        let (mut stderr, stderr_end) = Output::open()?;
        let link = supervise::connect(&self.layout.container(found.id()))?.ok_or_else(gone)?;
        send(&link, &[words, stdout_end, stderr_end]).map_err(|_| gone())?;
        let mut link = supervise::adopt(link)?;

        let mut is_late = false;
        let mut line = Vec::new();
        let outcome = loop {
            tokio::select! {
                outcome = outcome(&mut link, &mut line) => break outcome,
                () = stdout.fill() => {}
                () = stderr.fill() => {}
                () = over(&mut deadline) => {
                    if is_late {
                        break None;
                    }
                    // That nothing more will be said ends the command. How it ended is told still, so it is gone then.
                    (is_late, deadline) = (true, Some(Box::pin(tokio::time::sleep(LAST_WORD))));
                    let _ = link.get_mut().shutdown().await;
                }
            }
        };
        if is_late {
            return Err(late());
        }
        // The command is done. What is in the pipes belongs to it; whoever else still holds them is not waited for.
        stdout.drain();
        stderr.drain();
        match outcome.ok_or_else(gone)? {
            Outcome::Exited(exit_code) => {
                let room = MAX_ANSWER.saturating_sub(stdout.bytes.len().min(MAX_ANSWER));
                stdout.bytes.truncate(MAX_ANSWER);
                stderr.bytes.truncate(room);
                Ok(v1::ExecSyncResponse { stdout: stdout.bytes, stderr: stderr.bytes, exit_code })
            }
            Outcome::Failed(message) => Err(Error::State(format!(
                "failed to run {:?} in container {}: {message}",
                request.cmd,
                found.id()
            ))),
        }
    }
}

/// Ready when the time is over, if there is an end to it.
async fn over(deadline: &mut Option<Pin<Box<Sleep>>>) {
    match deadline {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// The words of a command in a file of memory, each with a NUL behind it.
fn words(command: &[String]) -> std::io::Result<OwnedFd> {
    let mut file = std::fs::File::from(memfd_create("command", MemfdFlags::CLOEXEC)?);
    let mut bytes = Vec::new();
    for word in command {
        bytes.extend_from_slice(word.as_bytes());
        bytes.push(0);
    }
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Asks for a command. The request is short: it fits into any socket.
fn send(link: &StdUnixStream, files: &[OwnedFd; 3]) -> rustix::io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = files.each_ref().map(|file| file.as_fd());
    control.push(SendAncillaryMessage::ScmRights(&files));
    let line = Command::Exec.line();
    sendmsg(link, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// The shim's word on the command; `None` if the shim is gone. May be dropped and asked again with the same `line`.
async fn outcome(link: &mut Link, line: &mut Vec<u8>) -> Option<Outcome> {
    loop {
        match link.read_until(b'\n', line).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {
                let text = String::from_utf8_lossy(line).trim_end().to_owned();
                line.clear();
                if let Some(outcome) = Outcome::parse(&text) {
                    return Some(outcome);
                }
            }
        }
    }
}

/// A stream of a command, collected up to a limit.
struct Output {
    pipe: Option<Receiver>,
    bytes: Vec<u8>,
}

impl Output {
    /// A stream, and the end that the command writes to.
    fn open() -> Result<(Self, OwnedFd)> {
        let failed = |error| Error::io("make a pipe", error);
        let (pipe, end) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let pipe = Receiver::from_owned_fd(pipe).map_err(failed)?;
        Ok((Self { pipe: Some(pipe), bytes: Vec::new() }, end))
    }

    /// Waits for some bytes and takes them; for ever once the stream has ended.
    async fn fill(&mut self) {
        let mut chunk = [0; 8192];
        match &mut self.pipe {
            None => std::future::pending().await,
            Some(pipe) => match pipe.read(&mut chunk).await {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(len) => self.keep(&chunk[..len]),
            },
        }
    }

    /// Takes what is there without waiting. The kernel is asked: our own reactor may not have heard yet.
    fn drain(&mut self) {
        let Some(pipe) = self.pipe.take().and_then(|pipe| pipe.into_nonblocking_fd().ok()) else { return };
        let mut chunk = [0; 8192];
        let mut taken = 0;
        // Somebody whom the command left behind may write faster than we read.
        while taken < MAX_PIPE {
            match rustix::io::read(&pipe, &mut chunk) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return,
                Ok(len) => {
                    taken += len;
                    self.keep(&chunk[..len]);
                }
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_OUTPUT.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
