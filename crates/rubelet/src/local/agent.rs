//! A client of the agent's socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::http::{About, AgentReport, StopRequest};
use crate::place::Place;
use crate::process;

/// A client of a running agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentClient {
    socket: PathBuf,
    pub(crate) about: About,
}

/// How long an agent may take to answer. It answers from memory, whatever hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// For this long after its start, an agent may not know all of its pods yet, and is waited for.
const YOUNG: Duration = Duration::from_secs(5);
/// How often to check whether it does.
const LOOK: Duration = Duration::from_millis(50);

/// Why an agent gives no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error("the agent at {} does not answer: {source}", socket.display())]
    Silent { socket: PathBuf, source: hyper::Error },
    #[error(
        "the agent at {} does not answer: {}; `rubelet doctor` checks the runtime without it",
        socket.display(),
        silence(*pid)
    )]
    NoAnswer { socket: PathBuf, pid: Option<u32> },
    #[error("no permission to talk to the agent at {}; run as root", .0.display())]
    NotAllowed(PathBuf),
    #[error("cannot talk to the agent at {}: {source}", socket.display())]
    Connection { socket: PathBuf, source: io::Error },
    #[error("the agent does not know all of its pods yet, so there may be more; try again later")]
    NotAllKnown,
    #[error("the agent refused: {0}")]
    Refused(StatusCode),
    #[error("cannot parse the agent's answer: {0}; is it another version?")]
    NotUnderstood(#[from] serde_json::Error),
}

impl AgentError {
    /// Whether the agent has ended in the meantime, as far as the way the connection broke tells.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Silent { source, .. } => !source.is_parse(),
            Self::Connection { source, .. } => is_absence(source),
            Self::NoAnswer { .. }
            | Self::NotAllowed(_)
            | Self::NotAllKnown
            | Self::Refused(_)
            | Self::NotUnderstood(_) => false,
        }
    }

    /// Returns what is known of an agent that runs but does not answer, if that is the error.
    pub(crate) fn silence(&self) -> Option<String> {
        match self {
            Self::NoAnswer { socket, pid } => Some(format!("{}: {}", socket.display(), silence(*pid))),
            Self::Silent { .. }
            | Self::NotAllowed(_)
            | Self::Connection { .. }
            | Self::NotAllKnown
            | Self::Refused(_)
            | Self::NotUnderstood(_) => None,
        }
    }
}

/// Whether nothing listens there, or no longer.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | BrokenPipe)
}

/// Describes a process that does not answer.
fn silence(pid: Option<u32>) -> String {
    let waited = pleg::GoDuration(PATIENCE);
    match pid {
        Some(pid) if process::is_stopped(pid) => {
            format!("its process {pid} is stopped (`kill -CONT {pid}` resumes it)")
        }
        Some(pid) => format!("no answer from its process {pid} in {waited}"),
        None => format!("no answer in {waited}"),
    }
}

/// A pod as the agent reports it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PodInfo {
    pub(crate) pod: Pod,
    pub(crate) stage: String,
    /// Its latest events, oldest first.
    pub(crate) events: Vec<Event>,
}

impl AgentClient {
    /// Connects to the agent at this socket; `None` if there is none, or no longer.
    pub(super) async fn connect(socket: &Path) -> Result<Option<Self>, AgentError> {
        match UnixStream::connect(socket).await {
            Ok(_) => {}
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(AgentError::NotAllowed(socket.to_owned()));
            }
            // The socket's queue is full, so the agent does not accept connections.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(AgentError::NoAnswer { socket: socket.to_owned(), pid: None });
            }
            Err(source) => return Err(AgentError::Connection { socket: socket.to_owned(), source }),
        }
        match ask(socket, Method::GET, "/about", Vec::new()).await {
            Ok(about) => Ok(Some(Self { socket: socket.to_owned(), about: serde_json::from_slice(&about)? })),
            Err(error) if error.has_ended() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Connects to the agent of this folder; `None` if none is running there.
    pub(crate) async fn of(place: &Place) -> Result<Option<Self>, AgentError> {
        match place.agent_socket() {
            Ok(socket) => Self::connect(&socket).await,
            Err(source) => Err(AgentError::Connection { socket: place.given().to_owned(), source }),
        }
    }

    /// Asks for the state of the agent.
    pub(crate) async fn report(&self) -> Result<AgentReport, AgentError> {
        self.get("/report").await
    }

    /// Asks for the state of its PLEG.
    pub(crate) async fn pleg_report(&self) -> Result<pleg::Report, AgentError> {
        self.get("/debug/pleg").await
    }

    /// Asks what the agent does not know yet: until it does, its lists may lack pods. An agent that has only just
    /// started is waited for.
    pub(crate) async fn not_known_yet(&self) -> Result<Option<String>, AgentError> {
        loop {
            let report = self.report().await?;
            let unknown = report.not_known_yet();
            if unknown.is_none() || report.uptime >= YOUNG {
                return Ok(unknown);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lists all pods that it knows.
    pub(crate) async fn pods(&self) -> Result<Vec<PodInfo>, AgentError> {
        self.get("/views").await
    }

    /// Returns one pod, if it exists. Fails if that is not known yet.
    pub(crate) async fn pod(&self, uid: &str) -> Result<Option<PodInfo>, AgentError> {
        match self.get(&format!("/views/{uid}")).await {
            Err(AgentError::Refused(StatusCode::NOT_FOUND)) => Ok(None),
            Err(AgentError::Refused(StatusCode::SERVICE_UNAVAILABLE)) => Err(AgentError::NotAllKnown),
            info => info.map(Some),
        }
    }

    /// Asks the agent to stop pods.
    pub(crate) async fn stop(&self, request: &StopRequest) -> Result<(), AgentError> {
        ask(&self.socket, Method::POST, "/stop", serde_json::to_vec(request)?).await.map(|_| ())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AgentError> {
        Ok(serde_json::from_slice(&ask(&self.socket, Method::GET, path, Vec::new()).await?)?)
    }
}

/// Sends a request, and waits for the answer only as long as someone at a terminal would.
async fn ask(socket: &Path, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes, AgentError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| AgentError::Connection { socket: socket.to_owned(), source })?;
    let pid = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
    match tokio::time::timeout(PATIENCE, converse(stream, socket, method, path, body)).await {
        Ok(answer) => answer,
        Err(_) => Err(AgentError::NoAnswer { socket: socket.to_owned(), pid }),
    }
}

async fn converse(
    stream: UnixStream,
    socket: &Path,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Bytes, AgentError> {
    let silent = |source| AgentError::Silent { socket: socket.to_owned(), source };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(silent)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "agent")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .expect("its parts are well formed");
    let asking = async {
        let answer = sender.send_request(request).await.map_err(silent)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(silent)?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(AgentError::Refused(status)) }
    };
    tokio::select! {
        answer = asking => answer,
        Err(error) = connection => Err(silent(error)),
    }
}
