//! Asks a container in the way that its probe specifies.

mod exec;
mod grpc;
mod http;
mod tcp;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use rubelet_model::ContainerId;

use super::course::Verdict;
use super::gate::{Gate, PodPlaces, Turn};
use crate::reach::{HttpError, PodHttp, ReachError};
use crate::runtime::{CallError, Runtime};

/// The answer of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Good,
    /// Good, but with something that users should know.
    Odd(String),
    /// Bad, with what the container said.
    Bad(String),
}

impl Answer {
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Good | Self::Odd(_) => Verdict::Success,
            Self::Bad(_) => Verdict::Failure,
        }
    }
}

/// Why a container could not be asked: this says nothing about the container.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error(transparent)]
    Call(CallError),
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(transparent)]
    Http(HttpError),
    #[error("{0} is not an address")]
    Address(String),
    #[error("missing probe handler; give the probe one of exec, httpGet, tcpSocket or grpc")]
    Nothing,
}

/// Which container to ask, and how.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) id: ContainerId,
    pub(super) container: Arc<Container>,
    pub(super) probe: Arc<Probe>,
    pub(super) ips: Arc<[IpAddr]>,
    pub(super) timeout: Duration,
}

/// Asks containers.
#[derive(Debug)]
pub(crate) struct Asker<R> {
    /// This has its own connection, so that probes never wait for the PLEG's requests, nor the other way round.
    pub(crate) runtime: Arc<R>,
    pub(crate) http: PodHttp,
    pub(crate) gate: Gate,
}

impl<R: Runtime> Asker<R> {
    /// Waits until a container may be asked: commands take turns.
    pub(super) async fn turn(&self, question: &Question, pod: &PodPlaces) -> Option<Turn> {
        match question.probe.exec {
            Some(_) => Some(self.gate.turn(pod).await),
            None => None,
        }
    }

    /// Asks a container once.
    pub(super) async fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        let Question { id, container, probe, ips, timeout } = question;
        if let Some(action) = &probe.exec {
            exec::ask(&*self.runtime, id, container, action, *timeout).await
        } else if let Some(action) = &probe.http_get {
            http::ask(&self.http, action, container, ips, *timeout).await
        } else if let Some(action) = &probe.tcp_socket {
            tcp::ask(self.http.dialer(), action, container, ips, *timeout).await
        } else if let Some(action) = &probe.grpc {
            grpc::ask(action, container, ips, *timeout).await
        } else {
            Err(AskError::Nothing)
        }
    }
}
