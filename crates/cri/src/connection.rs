//! One connection to a runtime, from connecting to closing.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tower::Service;

use crate::greeting::{Greeted, Greeting};
use crate::lists::Learned;
use crate::{Endpoint, ErrorKind};

/// How much of an answer a runtime may send before we have read it, on one stream and on the whole connection. With
/// HTTP/2's default of 64 KiB, a long list costs half as much CPU again; more than this costs only memory.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;
/// The largest frame. Runtimes written in Go send 16 KiB at a time whatever we allow; others wake us less often with
/// larger frames.
const MAX_FRAME: u32 = 256 << 10;
/// The most bytes of headers. Error messages travel in headers, and runtimes put long command output into them.
const MAX_HEADERS: u32 = 256 << 10;

/// An open connection. Its tasks end when its last user drops it.
#[derive(Debug)]
pub(crate) struct Connection {
    epoch: u64,
    sender: http2::SendRequest<Body>,
    answered: AtomicBool,
    /// What is known about the runtime's lists.
    pub(crate) learned: Learned,
    tasks: Tasks,
    _ends_with_us: DropGuard,
}

impl Connection {
    /// Connects, and waits for the peer's greeting.
    pub(crate) async fn open(endpoint: &Endpoint, epoch: u64) -> Result<Self, ConnectError> {
        let path = endpoint.path();
        let stream = UnixStream::connect(path).await.map_err(|error| ConnectError::dialling(error, path))?;
        let (stream, greeting) = Greeted::new(stream);
        let tasks = Tasks::default();
        let guard = tasks.end.clone().drop_guard();
        let shaken = http2::Builder::new(tasks.clone())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(MAX_FRAME)
            .max_header_list_size(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, driver) = match shaken {
            Ok(shaken) => shaken,
            // The stream has been dropped, so the outcome of the greeting is known, whether there was one or not.
            Err(error) => {
                return Err(match greeting.await {
                    Ok(Greeting::Garbage(bytes)) => ConnectError::garbage(&bytes),
                    Ok(Greeting::HungUp) => ConnectError::hung_up(),
                    Ok(Greeting::Http2) | Err(_) => ConnectError::broken(error, "the handshake failed"),
                });
            }
        };
        hyper::rt::Executor::execute(&tasks, async move {
            if let Err(error) = driver.await {
                tracing::debug!(epoch, error = %error, "the connection to the runtime broke");
            }
        });
        match greeting.await {
            Ok(Greeting::Http2) => {}
            Ok(Greeting::Garbage(bytes)) => return Err(ConnectError::garbage(&bytes)),
            Ok(Greeting::HungUp) | Err(_) => return Err(ConnectError::hung_up()),
        }
        Ok(Self {
            epoch,
            sender,
            answered: AtomicBool::new(false),
            learned: Learned::default(),
            tasks,
            _ends_with_us: guard,
        })
    }

    /// Its number.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether calls can still be made on it.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Closes it, even if calls are in progress on it. When this returns, the peer can tell.
    pub(crate) async fn close(&self) {
        self.tasks.end.cancel();
        self.tasks.running.close();
        // The tasks own the socket.
        self.tasks.running.wait().await;
    }

    /// Whether any call on it got an answer, success or error.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }
}

/// The connection as tonic needs it.
#[derive(Clone, Debug)]
pub(crate) struct Channel(pub(crate) Arc<Connection>);

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = CallFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, CallFailure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let connection = Arc::clone(&self.0);
        let response = connection.sender.clone().try_send_request(request);
        Box::pin(async move {
            let response = response.await.map_err(|mut failure| match failure.take_message() {
                Some(_) => CallFailure::NotSent,
                None => CallFailure::Broken(failure.into_error()),
            })?;
            connection.answered.store(true, Ordering::Relaxed);
            let content = response.headers().get(http::header::CONTENT_TYPE);
            if content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc")) {
                Ok(response)
            } else {
                Err(CallFailure::NotGrpc(response.status()))
            }
        })
    }
}

/// Why a call got no answer that can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallFailure {
    /// The connection was already closed. Nothing was sent, so the call may be made again on another connection.
    #[error("the connection was already closed")]
    NotSent,
    /// The connection or the stream broke.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// There was an answer, but in another protocol.
    #[error("HTTP status {0} instead of gRPC")]
    NotGrpc(http::StatusCode),
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectError {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: Arc<str>,
    pub(crate) source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl ConnectError {
    /// The first bytes from the peer are not HTTP/2.
    fn garbage(bytes: &[u8]) -> Self {
        Self::new(ErrorKind::NotGrpc, format!("it began with \"{}\"", bytes.escape_ascii()))
    }

    pub(crate) fn new(kind: ErrorKind, detail: impl Into<Arc<str>>) -> Self {
        Self { kind, detail: detail.into(), source: None }
    }

    fn hung_up() -> Self {
        Self::new(ErrorKind::Unavailable, "the runtime hung up before it greeted")
    }

    fn broken(error: hyper::Error, detail: &str) -> Self {
        Self { kind: ErrorKind::Unavailable, detail: detail.into(), source: Some(Arc::new(error)) }
    }

    /// The system refused to connect. Only the file type of the path tells a plain file from a socket that nobody
    /// listens on.
    fn dialling(error: io::Error, path: &Path) -> Self {
        let is_socket = std::fs::metadata(path).ok().map(|found| found.file_type().is_socket());
        let detail = match error.kind() {
            io::ErrorKind::WouldBlock => "it accepts no connections, and too many are waiting".into(),
            _ => error.to_string().into(),
        };
        Self { kind: dialling_kind(error.kind(), is_socket), detail, source: Some(Arc::new(error)) }
    }
}

fn dialling_kind(error: io::ErrorKind, is_socket: Option<bool>) -> ErrorKind {
    match (error, is_socket) {
        (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) => ErrorKind::NoSocket,
        (io::ErrorKind::PermissionDenied, _) => ErrorKind::PermissionDenied,
        (io::ErrorKind::ConnectionRefused, Some(false)) => ErrorKind::NotASocket,
        (io::ErrorKind::ConnectionRefused, _) => ErrorKind::ConnectionRefused,
        _ => ErrorKind::Unavailable,
    }
}

/// Spawns the tasks that HTTP/2 needs; all of them end with the token.
#[derive(Clone, Debug, Default)]
struct Tasks {
    end: CancellationToken,
    running: TaskTracker,
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        let end = self.end.clone();
        self.running.spawn(async move { end.run_until_cancelled_owned(future).await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_becomes_what_is_wrong() {
        use io::ErrorKind as Io;
        let cases = [
            (Io::NotFound, None, ErrorKind::NoSocket),
            (Io::NotADirectory, None, ErrorKind::NoSocket),
            (Io::PermissionDenied, None, ErrorKind::PermissionDenied),
            (Io::PermissionDenied, Some(true), ErrorKind::PermissionDenied),
            (Io::ConnectionRefused, Some(false), ErrorKind::NotASocket),
            (Io::ConnectionRefused, Some(true), ErrorKind::ConnectionRefused),
            (Io::ConnectionRefused, None, ErrorKind::ConnectionRefused),
            (Io::WouldBlock, Some(true), ErrorKind::Unavailable),
            (Io::ConnectionReset, Some(true), ErrorKind::Unavailable),
        ];
        for (said, is_socket, kind) in cases {
            assert_eq!(dialling_kind(said, is_socket), kind, "{said:?}, socket: {is_socket:?}");
        }
    }
}
