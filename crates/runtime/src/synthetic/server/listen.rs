//! The socket and its connections, which can be taken away all at once.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::dispatch;

/// A socket that is served. Dropping it ends the connections and removes the socket.
#[derive(Debug)]
pub(super) struct Listening {
    socket: PathBuf,
    /// Ends the accept loop and everything that connections have started.
    end: CancellationToken,
    accepting: Option<JoinHandle<()>>,
}

impl Listening {
    pub(super) fn start(socket: &Path, shared: Arc<Shared>) -> io::Result<Self> {
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        let end = CancellationToken::new();
        let accept = accept(listener, shared, end.clone());
        let accepting = tokio::spawn(end.clone().run_until_cancelled_owned(accept));
        let accepting = tokio::spawn(async move {
            let _ = accepting.await;
        });
        Ok(Self { socket: socket.to_owned(), end, accepting: Some(accepting) })
    }

    /// Ends every connection and removes the socket.
    pub(super) async fn stop(mut self) {
        self.end.cancel();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end.cancel();
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn accept(listener: UnixListener, shared: Arc<Shared>, end: CancellationToken) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(end.clone().run_until_cancelled_owned(connection(
                    stream,
                    shared.clone(),
                    end.clone(),
                )));
            }
            // Out of file descriptors, most likely: others may free some.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn connection(stream: UnixStream, shared: Arc<Shared>, end: CancellationToken) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, std::convert::Infallible>(dispatch::answer(shared, request).await) }
    });
    let mut server = http2::Builder::new(Spawner { end });
    // A client of ours may have many calls in flight, and a hung one must not hold up others here.
    server.max_concurrent_streams(None);
    // As little room as grpc-go has, so that a reader who stalls is felt as early as there.
    server.max_send_buf_size(64 << 10);
    // A connection that breaks is the client's business.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Runs what connections start, until the server ends.
#[derive(Clone)]
struct Spawner {
    end: CancellationToken,
}

impl<F> hyper::rt::Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(self.end.clone().run_until_cancelled_owned(future));
    }
}
