//! The socket of a runtime: only its owner can use it, and it is never taken away from a runtime that is running.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio_stream::Stream;

use crate::Endpoint;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;

/// A listening socket: a stream of connections, for tonic's `serve_with_incoming`.
///
/// When this is dropped, the socket is removed from the file system, unless somebody else has put another one in its
/// place.
///
/// ```no_run
/// # async fn serve(runtime: impl rubelet_cri::v1::runtime_service_server::RuntimeService) -> Result<(), Box<dyn std::error::Error>> {
/// use rubelet_cri::v1::runtime_service_server::RuntimeServiceServer;
///
/// let socket = rubelet_cri::Listener::bind(&"unix:///run/example.sock".parse()?).await?;
/// tonic::transport::Server::builder()
///     .add_service(RuntimeServiceServer::new(runtime))
///     .serve_with_incoming(socket)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    inode: Option<(u64, u64)>,
}

impl Listener {
    /// Listens at `endpoint`, with mode 0600. A stale socket, left over by a runtime that is gone, is replaced. A
    /// socket that somebody listens on, or anything that is not a socket, is left alone.
    ///
    /// Two processes that bind the same endpoint at the same moment are not kept apart; a process that may be started
    /// twice needs a lock of its own.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self, BindError> {
        let path = endpoint.path();
        let failed = |source| BindError::Failed { endpoint: endpoint.clone(), source };
        clear(endpoint).await?;
        let socket = UnixSocket::new_stream().map_err(failed)?;
        socket.bind(path).map_err(failed)?;
        // Nobody can connect before `listen`, so the socket is never usable without its mode.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), inode: inode(path) })
    }
}

/// Removes a stale socket.
async fn clear(endpoint: &Endpoint) -> Result<(), BindError> {
    let path = endpoint.path();
    match std::fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(BindError::NotASocket { endpoint: endpoint.clone() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        // After a full queue or a missing permission, somebody may still be there.
        Ok(_) | Err(_) => return Err(BindError::InUse { endpoint: endpoint.clone() }),
    }
    std::fs::remove_file(path).map_err(|source| BindError::Failed { endpoint: endpoint.clone(), source })
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

impl Stream for Listener {
    type Item = io::Result<UnixStream>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.listener.poll_accept(cx).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.inode.is_some() && inode(&self.path) == self.inode {
            // If it is already gone, good; if it cannot be removed, the next `bind` finds it stale.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Why an endpoint cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody listens there already.
    #[error("{endpoint} is in use by another runtime; stop it, or choose another endpoint")]
    InUse {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// There is something that is not a socket.
    #[error("{endpoint} is taken by something that is not a socket; remove it, or choose another endpoint")]
    NotASocket {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// The system refuses.
    #[error("cannot listen at {endpoint}")]
    Failed {
        /// The endpoint.
        endpoint: Endpoint,
        /// The error of the system.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    fn endpoint(dir: &tempfile::TempDir) -> Endpoint {
        Endpoint::from_path(dir.path().join("cri.sock")).unwrap()
    }

    #[tokio::test]
    async fn only_the_owner_may_use_the_socket_and_it_is_removed_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let mut socket = Listener::bind(&endpoint).await.unwrap();
        let mode = std::fs::metadata(endpoint.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let _client = UnixStream::connect(endpoint.path()).await.unwrap();
        assert!(socket.next().await.unwrap().is_ok());
        drop(socket);
        assert!(!endpoint.path().exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone_and_a_stale_one_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let live = std::os::unix::net::UnixListener::bind(endpoint.path()).unwrap();
        assert!(matches!(Listener::bind(&endpoint).await, Err(BindError::InUse { .. })));
        drop(live);
        assert!(endpoint.path().exists(), "a listener that just goes leaves its socket behind");
        assert!(Listener::bind(&endpoint).await.is_ok());
    }

    #[tokio::test]
    async fn a_file_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        std::fs::write(endpoint.path(), "precious").unwrap();
        assert!(matches!(Listener::bind(&endpoint).await, Err(BindError::NotASocket { .. })));
        assert_eq!(std::fs::read(endpoint.path()).unwrap(), b"precious");
        let nowhere = Endpoint::from_path(dir.path().join("no/such/dir.sock")).unwrap();
        assert!(matches!(Listener::bind(&nowhere).await, Err(BindError::Failed { .. })));
    }

    #[tokio::test]
    async fn the_socket_of_a_successor_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let first = Listener::bind(&endpoint).await.unwrap();
        std::fs::rename(endpoint.path(), dir.path().join("moved.sock")).unwrap();
        let _second = Listener::bind(&endpoint).await.unwrap();
        drop(first);
        assert!(endpoint.path().exists());
    }
}
