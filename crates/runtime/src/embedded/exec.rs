//! `ExecSync`: one command in a running container, to its end or its time limit.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;

use rubelet_cri::v1;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::error::{Error, Result};
use super::registry::Container;
use super::runtime::{Runtime, blocking};
use super::shim::exec::{Request, Verdict};
use super::{container, shim, spec, store};

/// Of each stream, that much is kept; the rest is read and dropped, so that the command can go on.
const MAX_OUTPUT: usize = 16 << 20;

/// Both streams together must fit into one message of the usual limit.
const MAX_ANSWER: usize = MAX_OUTPUT - 4096;

impl Runtime {
    pub(crate) async fn exec_sync(
        self: &Arc<Self>,
        request: v1::ExecSyncRequest,
    ) -> Result<v1::ExecSyncResponse> {
        if request.cmd.is_empty() {
            return Err(Error::invalid("cmd", "is empty"));
        }
        let found = self.registry.container(&request.container_id)?;
        let state = found.state();
        if !state.can_exec() {
            return Err(Error::State(format!("container {} is {}", found.id(), state.name())));
        }
        let folder = self.layout.container(found.id());
        let reading = folder.join(container::SPEC);
        let init = blocking(move || {
            let spec: Option<serde_json::Value> = store::read_json(&reading)?;
            Ok(spec.map(|spec| spec["process"].clone()).unwrap_or_default())
        })
        .await?;
        let ask = Request {
            id: found.id().to_owned(),
            process: spec::exec_process(&init, &request.cmd),
            timeout: (request.timeout > 0).then_some(request.timeout),
        };
        let ask = serde_json::to_vec(&ask).map_err(|error| Error::io("encode a request", error))?;

        // Queued here rather than in the machine's process table.
        let _slot = self.execs.acquire().await.map_err(|error| Error::Internal(error.to_string()))?;
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().map_err(|error| Error::io("make a socket", error))?;
        ours.set_nonblocking(true).map_err(|error| Error::io("set up a socket", error))?;
        let mut socket = UnixStream::from_std(ours).map_err(|error| Error::io("set up a socket", error))?;
        let mut command = tokio::process::Command::new(&self.shim);
        command.arg0("rubelet-exec").arg(shim::EXEC).current_dir(&folder).env_clear();
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Error::io("run a helper", error))?;
        // The command holds its own copy, and its end must be visible here.
        drop(command);
        let (mut stdout, mut stderr) = (Output::of(child.stdout.take()), Output::of(child.stderr.take()));

        let talk = async {
            let _ = socket.write_all(&ask).await;
            let _ = socket.shutdown().await;
            let mut answer = Vec::new();
            let _ = socket.read_to_end(&mut answer).await;
            answer
        };
        tokio::pin!(talk);
        let answer = loop {
            tokio::select! {
                answer = &mut talk => break answer,
                () = stdout.fill() => {}
                () = stderr.fill() => {}
            }
        };
        // The command is done. What is in the pipes belongs to it; whoever else still holds them is not waited for.
        stdout.drain();
        stderr.drain();
        let _ = child.wait().await;
        self.sweep_after(&found).await;
        match serde_json::from_slice(&answer) {
            Ok(Verdict::Exited(exit_code)) => {
                let room = MAX_ANSWER.saturating_sub(stdout.bytes.len().min(MAX_ANSWER));
                stdout.bytes.truncate(MAX_ANSWER);
                stderr.bytes.truncate(room);
                Ok(v1::ExecSyncResponse { stdout: stdout.bytes, stderr: stderr.bytes, exit_code })
            }
            Ok(Verdict::TimedOut) => {
                Err(Error::Timeout { what: format!("command {:?}", request.cmd), seconds: request.timeout })
            }
            Ok(Verdict::Failed(message)) => Err(Error::State(format!(
                "failed to run {:?} in container {}: {message}",
                request.cmd,
                found.id()
            ))),
            Err(_) => Err(Error::Internal("the helper that runs commands ended without a word".to_owned())),
        }
    }
}

impl Runtime {
    /// A command that comes while its container goes makes the container's control group anew.
    async fn sweep_after(self: &Arc<Self>, container: &Arc<Container>) {
        if container.state().can_exec() {
            return;
        }
        self.end_group(&container.record.cgroup).await;
        if self.registry.sandbox(&container.record.sandbox).is_err()
            && let Some((parent, _)) = container.record.cgroup.rsplit_once('/')
        {
            self.facts.cgroups.remove_empty(parent);
        }
    }
}

/// A stream of a command, collected up to a limit.
struct Output<R> {
    pipe: Option<R>,
    bytes: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Output<R> {
    fn of(pipe: Option<R>) -> Self {
        Self { pipe, bytes: Vec::new() }
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

    /// Takes what is there without waiting.
    fn drain(&mut self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut chunk = [0; 8192];
        while let Some(pipe) = &mut self.pipe {
            let mut buffer = tokio::io::ReadBuf::new(&mut chunk);
            match std::pin::Pin::new(pipe).poll_read(&mut context, &mut buffer) {
                std::task::Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let len = buffer.filled().len();
                    self.keep(&chunk[..len]);
                }
                _ => self.pipe = None,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_OUTPUT.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
