//! What containers want to be done after they start and before they stop.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use rubelet_model::ContainerId;

use super::http_hook::{self, HttpHookError};
use crate::runtime::{CallError, Runtime};

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    #[error("command {command:?} exited with {code}: {output}")]
    Exit { command: Vec<String>, code: i32, output: String },
    #[error(transparent)]
    Call(CallError),
    #[error(transparent)]
    Http(#[from] HttpHookError),
    #[error("{0} hooks are not supported; use exec, httpGet or sleep")]
    Unsupported(&'static str),
}

/// Runs a hook to its end.
pub(super) async fn run<R: Runtime>(
    runtime: &R,
    id: &ContainerId,
    container: &Container,
    hook: &LifecycleHandler,
    ips: &[IpAddr],
) -> Result<(), HookError> {
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let answer = runtime.exec(id, &command).await.map_err(HookError::Call)?;
        if answer.exit_code != 0 {
            let output = [answer.stdout, answer.stderr].concat();
            let output = String::from_utf8_lossy(&output).trim().to_owned();
            return Err(HookError::Exit { command, code: answer.exit_code, output });
        }
    } else if let Some(sleep) = &hook.sleep {
        let seconds = u64::try_from(sleep.seconds).unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    } else if let Some(action) = &hook.http_get {
        http_hook::run(action, container, ips).await?;
    } else if hook.tcp_socket.is_some() {
        return Err(HookError::Unsupported("tcpSocket"));
    }
    Ok(())
}
