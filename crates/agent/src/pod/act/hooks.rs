//! The hooks of containers, which run after they start and before they stop.

use std::net::IpAddr;
use std::time::Duration;

use hyper::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod};
use rubelet_model::ContainerId;

use super::Tools;
use crate::pod::journal::Journal;
use crate::pod::spec;
use crate::reach::{ConnectionError, HttpError, PodHttp};
use crate::runtime::{CallError, Runtime, output};

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    #[error("command {command:?} exited with {code}: {output}")]
    Exit { command: Vec<String>, code: i32, output: String },
    #[error(transparent)]
    Call(CallError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{0} hooks are not supported; use exec, httpGet or sleep")]
    Unsupported(&'static str),
}

impl HookError {
    /// Whether the hook was run, or may have been.
    pub(super) fn was_run(&self) -> bool {
        !matches!(self, Self::Call(error) if error.failure.is_absence())
    }
}

/// A container that has hooks, and how to reach it.
pub(super) struct Hooked<'a, R> {
    pub(super) runtime: &'a R,
    pub(super) http: &'a PodHttp,
    pub(super) journal: &'a Journal,
    pub(super) id: &'a ContainerId,
    pub(super) container: &'a Container,
    pub(super) ips: Vec<IpAddr>,
}

impl<R> Tools<R> {
    /// Returns a container of a pod, in a sandbox with these addresses.
    pub(super) fn hooked<'a>(
        &'a self,
        pod: &Pod,
        journal: &'a Journal,
        (id, container): (&'a ContainerId, &'a Container),
        ips: &[IpAddr],
    ) -> Hooked<'a, R> {
        Hooked {
            runtime: &*self.runtime,
            http: &self.http,
            journal,
            id,
            container,
            ips: spec::reachable_ips(pod, ips, &self.settings.host_ips.now()),
        }
    }
}

impl<R: Runtime> Hooked<'_, R> {
    /// Runs a hook until it ends, however long it takes.
    pub(super) async fn run(&self, hook: &LifecycleHandler) -> Result<(), HookError> {
        if let Some(exec) = &hook.exec {
            let command = exec.command.clone().unwrap_or_default();
            let answer = self.runtime.exec(self.id, &command, None).await.map_err(HookError::Call)?;
            if answer.exit_code != 0 {
                let output = output(&answer).trim().to_owned();
                return Err(HookError::Exit { command, code: answer.exit_code, output });
            }
        } else if let Some(sleep) = &hook.sleep {
            let seconds = u64::try_from(sleep.seconds).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        } else if let Some(action) = &hook.http_get {
            self.http_get(action).await?;
        } else if hook.tcp_socket.is_some() {
            return Err(HookError::Unsupported("tcpSocket"));
        }
        Ok(())
    }

    /// Sends the request; any answer will do. Hooks that say `HTTPS` used to be sent as plain HTTP, and some containers
    /// still rely on it.
    async fn http_get(&self, action: &HTTPGetAction) -> Result<(), HttpError> {
        let Err(error) = self.asked(action).await else { return Ok(()) };
        if !matches!(&error, HttpError::NoAnswer { source: ConnectionError::PlainAnswer, .. }) {
            return Err(error);
        }
        let mut plain = HTTPGetAction { scheme: Some("HTTP".to_owned()), ..action.clone() };
        // These headers are meant for encrypted connections only.
        plain.http_headers.iter_mut().for_each(|all| {
            all.retain(|header| !header.name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        });
        if self.asked(&plain).await.is_err() {
            return Err(error);
        }
        let name = &self.container.name;
        let message = format!(
            "request to HTTPS lifecycle hook for {name} got HTTP response, retry with HTTP succeeded"
        );
        self.journal.warning(Some(name), "LifecycleHTTPFallback", message);
        Ok(())
    }

    async fn asked(&self, action: &HTTPGetAction) -> Result<(), HttpError> {
        match self.http.get(None, "lifecycle", action, self.container, &self.ips).await {
            // The container received the request, and began to answer.
            Ok(_) | Err(HttpError::BrokenAnswer(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
