//! `ExecSync`: runs a command in a running container until it ends or its time limit expires.
//!
//! The container's shim runs it: it receives the arguments in a memory file and two pipes for the output, and answers
//! with one line. Closing the connection ends the command.

use std::io::{IoSlice, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rubelet_cri::v1;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::time::Sleep;

use super::error::{Error, Result};
use super::output::{Name, Said, Stream};
use super::runtime::Runtime;
use super::shim::protocol::{Command, Outcome};
use super::supervise::{self, Link};

/// How long after its time limit a command may take to disappear.
const LAST_WORD: Duration = Duration::from_secs(5);

impl Runtime {
    /// `wanted_output` is how many bytes of each stream the caller can use, if it says so.
    pub(crate) async fn exec_sync(
        self: &Arc<Self>,
        request: v1::ExecSyncRequest,
        wanted_output: Option<usize>,
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
        let gone = || Error::State(format!("container {} is no longer running", found.id()));

        let limit = u64::try_from(request.timeout).ok().filter(|seconds| *seconds > 0);
        // The container's own place first: a command that waits for it takes no place that other containers could use.
        let _own_place = found.room.enter(limit.is_some()).await?;
        let _place = self.room.enter(limit.is_some()).await?;
        let late = || Error::Timeout { what: format!("command {:?}", request.cmd), seconds: request.timeout };
        let mut deadline = limit.map(|seconds| Box::pin(tokio::time::sleep(Duration::from_secs(seconds))));
        let words = words(&request.cmd).map_err(|error| Error::io("write the command", error))?;
        let (mut stdout, stdout_end) = Stream::open()?;
        let (mut stderr, stderr_end) = Stream::open()?;
        let link = supervise::connect(&self.layout.container(found.id()))?.ok_or_else(gone)?;
        send(&link, &[words, stdout_end, stderr_end]).map_err(|_| gone())?;
        let mut link = supervise::adopt(link)?;

        let mut said = Said::nothing(&self.memory, wanted_output);
        let mut is_late = false;
        let mut line = Vec::new();
        let outcome = loop {
            tokio::select! {
                outcome = outcome(&mut link, &mut line) => break outcome,
                bytes = stdout.next() => said.keep(Name::Stdout, bytes),
                bytes = stderr.next() => said.keep(Name::Stderr, bytes),
                () = over(&mut deadline) => {
                    if is_late {
                        break None;
                    }
                    // Shutting down our side ends the command. The shim still reports its end, so by then it is gone.
                    (is_late, deadline) = (true, Some(Box::pin(tokio::time::sleep(LAST_WORD))));
                    let _ = link.get_mut().shutdown().await;
                }
            }
        };
        if is_late {
            return Err(late());
        }
        // The command has ended. What is in the pipes belongs to it; anything else that holds them is not waited for.
        stdout.drain(|bytes| said.keep(Name::Stdout, bytes));
        stderr.drain(|bytes| said.keep(Name::Stderr, bytes));
        match outcome.ok_or_else(gone)? {
            Outcome::Exited(code) if said.has_lost() => Err(Error::Full {
                problem: format!(
                    "the command exited with {code}, but there was not enough memory for its output because other \
                     commands also print a lot; try again later, or write it to a file in the container"
                ),
            }),
            Outcome::Exited(exit_code) => {
                Ok(v1::ExecSyncResponse { stdout: said.stdout, stderr: said.stderr, exit_code })
            }
            Outcome::Failed(message) => Err(Error::State(format!(
                "failed to run {:?} in container {}: {message}",
                request.cmd,
                found.id()
            ))),
        }
    }
}

/// Completes when the deadline passes; never, if there is none.
async fn over(deadline: &mut Option<Pin<Box<Sleep>>>) {
    match deadline {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// Writes the arguments of a command to a memory file, each with a trailing NUL.
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

/// Requests a command. The request is short enough to fit into any socket buffer.
fn send(link: &StdUnixStream, files: &[OwnedFd; 3]) -> rustix::io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = files.each_ref().map(|file| file.as_fd());
    control.push(SendAncillaryMessage::ScmRights(&files));
    let line = Command::Exec.line();
    sendmsg(link, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Reads the shim's report on the command; `None` if the shim is gone. If dropped, call it again with the same `line`.
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
