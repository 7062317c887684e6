//! `ExecSync`, with scripted results.

use std::time::Duration;

use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::shared::Shared;
use crate::synthetic::profile::ExecTimeout;

pub(super) async fn sync(shared: &Shared, request: &v1::ExecSyncRequest) -> Result<Answer, Status> {
    let (result, on_timeout) = shared.look(|world| {
        let container = world.executable(&request.container_id)?;
        let path = world.path_of(container);
        Ok::<_, Status>((world.next_exec(&path), world.quirks().exec_timeout))
    })?;
    let limit = u64::try_from(request.timeout).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs);
    if let Some(limit) = limit.filter(|&limit| result.takes > limit) {
        tokio::time::sleep(limit).await;
        return match on_timeout {
            ExecTimeout::DeadlineExceeded => Err(Status::deadline_exceeded(format!(
                "failed to exec in container: timeout {limit:?} exceeded: context deadline exceeded"
            ))),
            ExecTimeout::MinusOne => Ok(Answer::of(&v1::ExecSyncResponse {
                stdout: Vec::new(),
                stderr: b"command timed out".to_vec(),
                exit_code: -1,
            })),
        };
    }
    tokio::time::sleep(result.takes).await;
    Ok(Answer::of(&v1::ExecSyncResponse {
        stdout: result.stdout,
        stderr: result.stderr,
        exit_code: result.exit_code,
    }))
}
