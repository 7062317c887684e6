//! Commands in containers.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use rubelet_model::ContainerId;
use tonic::Code;

use super::{NO_TIME, RuntimeClient, method};
use crate::call::Failure;
use crate::codec::Message;
use crate::options::whole_seconds;
use crate::{Error, ErrorKind, Operation, v1};

impl RuntimeClient {
    /// Runs a command in a container, and waits until it has ended.
    ///
    /// After `timeout`, in whole seconds rounded up, the command is killed: the error is of kind
    /// [`ErrorKind::CommandTimeout`], however the runtime reports it. Zero means no time limit, neither for the command
    /// nor for the call.
    pub async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse, Error> {
        self.run(id, command, timeout, None).await
    }

    /// Like [`exec_sync`](Self::exec_sync), but keeps only the first `most` bytes of each output stream, and tells the
    /// runtime so (see [`OUTPUT_LIMIT`](crate::OUTPUT_LIMIT)).
    pub async fn exec_sync_excerpt(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
        most: usize,
    ) -> Result<v1::ExecSyncResponse, Error> {
        self.run(id, command, timeout, Some(most)).await
    }

    async fn run(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
        most: Option<usize>,
    ) -> Result<v1::ExecSyncResponse, Error> {
        let seconds = whole_seconds(timeout);
        let request =
            v1::ExecSyncRequest { container_id: id.to_string(), cmd: command.to_vec(), timeout: seconds };
        let request = Bytes::from(request.encode_to_vec());
        let own = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        self.0
            .perform(Operation::ExecSync, own, |attempt| {
                let request = request.clone();
                async move {
                    const PATH: &str = method!("ExecSync");
                    let was_killed = || Failure::Kind(ErrorKind::CommandTimeout, format!("{seconds} s"));
                    let answer = match most {
                        Some(most) => attempt.excerpt(PATH, request, most).await,
                        None => attempt.unary(PATH, request, Message::<v1::ExecSyncResponse>::new()).await,
                    };
                    match answer {
                        Ok(answer) if was_timed_out(&answer) => Err(was_killed()),
                        Ok(answer) => Ok(answer),
                        Err(status) if status.code() == Code::DeadlineExceeded && !attempt.is_over() => {
                            Err(was_killed())
                        }
                        Err(status) => Err(status.into()),
                    }
                }
            })
            .await
    }

    /// Prepares to run a command in a container. Returns a URL of the runtime's streaming server, which can be used
    /// once.
    pub async fn exec(&self, request: v1::ExecRequest) -> Result<String, Error> {
        let answer: v1::ExecResponse =
            self.0.unary(Operation::Exec, method!("Exec"), NO_TIME, &request).await?;
        Ok(answer.url)
    }

    /// Prepares to attach to a container. Returns a URL of the runtime's streaming server, which can be used once.
    pub async fn attach(&self, request: v1::AttachRequest) -> Result<String, Error> {
        let answer: v1::AttachResponse =
            self.0.unary(Operation::Attach, method!("Attach"), NO_TIME, &request).await?;
        Ok(answer.url)
    }
}

/// Whether the command was killed because it took too long, as CRI-O reports it: a success with an exit code that no
/// process can have.
fn was_timed_out(answer: &v1::ExecSyncResponse) -> bool {
    answer.exit_code == -1 && String::from_utf8_lossy(&answer.stderr).contains("command timed out")
}
