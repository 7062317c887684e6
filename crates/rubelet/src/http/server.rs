//! The servers: one on loopback, one on a socket; both on a thread of their own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use super::bounded::Bounded;
use super::{State, private, public};

/// The maximum number of connections of each server at a time.
const MOST_CONNECTIONS: usize = 64;

/// The servers, which run as long as this lives.
pub(crate) struct Server {
    address: Option<SocketAddr>,
    /// Dropping it stops the servers.
    _stop: oneshot::Sender<()>,
    socket: PathBuf,
}

/// Why the servers do not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error(
        "cannot listen on {address}: {source}; choose another address with --listen, or none with --listen off"
    )]
    Address { address: SocketAddr, source: io::Error },
    #[error("cannot listen on {}: {source}; choose another folder with --data-dir", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("cannot start a thread for the HTTP server: {0}")]
    Thread(io::Error),
}

impl Server {
    /// Binds the addresses, and serves from then on.
    pub(crate) fn start(
        listen: Option<SocketAddr>,
        socket: &Path,
        state: State,
    ) -> Result<Self, ServerError> {
        let (stop, stopped) = oneshot::channel();
        let (bound, result) = mpsc::sync_channel(1);
        let path = socket.to_owned();
        std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || serve(listen, &path, &state, stopped, &bound))
            .map_err(ServerError::Thread)?;
        let address = result.recv().unwrap_or_else(|_| {
            Err(ServerError::Thread(io::Error::other("the thread ended before it was listening")))
        })?;
        Ok(Self { address, _stop: stop, socket: socket.to_owned() })
    }

    /// Returns the address that it listens at, if any.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The next agent would replace a socket that was left behind; this is for clients until then.
        let _ = std::fs::remove_file(&self.socket);
    }
}

type Bound = Result<Option<SocketAddr>, ServerError>;

fn serve(
    listen: Option<SocketAddr>,
    socket: &Path,
    state: &State,
    stopped: oneshot::Receiver<()>,
    bound: &mpsc::SyncSender<Bound>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = bound.send(Err(ServerError::Thread(error)));
            return;
        }
    };
    runtime.block_on(async {
        let (tcp, unix) = match bind(listen, socket).await {
            Ok(listeners) => listeners,
            Err(error) => {
                let _ = bound.send(Err(error));
                return;
            }
        };
        let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let _ = bound.send(Ok(address));
        let on_loopback = async {
            match tcp {
                Some(tcp) => axum::serve(Bounded::new(tcp, MOST_CONNECTIONS), public(state.clone())).await,
                None => std::future::pending().await,
            }
        };
        let unix = Bounded::new(unix, MOST_CONNECTIONS);
        let on_socket = async { axum::serve(unix, private(state.clone())).await };
        tokio::select! {
            _ = stopped => {}
            Err(error) = on_loopback => tracing::error!(%error, "the HTTP server ended"),
            Err(error) = on_socket => tracing::error!(%error, "the agent's socket ended"),
        }
    });
}

async fn bind(
    listen: Option<SocketAddr>,
    socket: &Path,
) -> Result<(Option<TcpListener>, UnixListener), ServerError> {
    let tcp = match listen {
        Some(address) => {
            let bound = TcpListener::bind(address).await;
            Some(bound.map_err(|source| ServerError::Address { address, source })?)
        }
        None => None,
    };
    // This process holds the folder, so an existing socket was left behind.
    let _ = std::fs::remove_file(socket);
    let failed = |source| ServerError::Socket { path: socket.to_owned(), source };
    let unix = UnixListener::bind(socket).map_err(failed)?;
    let for_us = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(socket, for_us).map_err(failed)?;
    Ok((tcp, unix))
}
