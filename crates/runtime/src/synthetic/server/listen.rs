//! The socket and its connections, which can all be closed at once.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::dispatch;
use super::shared::Shared;

/// A socket that is being served. Dropping it closes the connections and removes the socket.
#[derive(Debug)]
pub(super) struct Listening {
    tasks: Tasks,
    /// The socket to remove at the end.
    socket: Option<PathBuf>,
}

impl Listening {
    pub(super) fn start(socket: &Path, shared: Arc<Shared>) -> io::Result<Self> {
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        let tasks = Tasks::default();
        tasks.spawn(accept(listener, shared, tasks.clone()));
        Ok(Self { tasks, socket: Some(socket.to_owned()) })
    }

    /// Closes everything and removes the socket.
    pub(super) async fn stop(self) {
        self.tasks.end().await;
    }

    /// Closes everything and leaves the socket behind, as a killed process does.
    pub(super) async fn abandon(mut self) {
        self.socket = None;
        self.tasks.end().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.tasks.cancelled.cancel();
        if let Some(socket) = &self.socket {
            // Somebody else may have removed it together with its directory.
            let _ = std::fs::remove_file(socket);
        }
    }
}

async fn accept(listener: UnixListener, shared: Arc<Shared>, tasks: Tasks) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => tasks.spawn(connection(stream, shared.clone(), tasks.clone())),
            // Probably out of file descriptors: other tasks may free some.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn connection(stream: UnixStream, shared: Arc<Shared>, tasks: Tasks) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(dispatch::answer(shared, request).await) }
    });
    let mut server = http2::Builder::new(tasks);
    // A client may have many calls in progress, and a hanging one must not hold up the others.
    server.max_concurrent_streams(None);
    // As small as the buffer of grpc-go, so that a stalled reader has an effect just as early.
    server.max_send_buf_size(64 << 10);
    // A broken connection is the client's problem.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// All tasks of one socket, so that they can be ended together.
#[derive(Clone, Debug, Default)]
struct Tasks {
    running: TaskTracker,
    cancelled: CancellationToken,
}

impl Tasks {
    fn spawn<F>(&self, task: F)
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        self.running.spawn(self.cancelled.clone().run_until_cancelled_owned(task));
    }

    async fn end(&self) {
        self.cancelled.cancel();
        self.running.close();
        self.running.wait().await;
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}
