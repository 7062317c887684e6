//! A served runtime in a directory of its own, and clients of it.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use hyper_util::rt::TokioIo;
use rubelet_cri::v1::runtime_service_client::RuntimeServiceClient;
use rubelet_runtime::synthetic::{Handle, Profile, SyntheticRuntime};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

pub(crate) type Client = RuntimeServiceClient<Channel>;

/// A served runtime and a client of it.
pub(crate) struct Served {
    pub(crate) runtime: Running,
    pub(crate) client: Client,
}

/// A runtime on a socket in a directory of its own, which goes away with it.
pub(crate) struct Running {
    handle: Handle,
    _directory: TempDir,
}

impl Deref for Running {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Handle {
        &mut self.handle
    }
}

/// Serves a runtime of this profile, and connects to it.
pub(crate) async fn serve(profile: Profile) -> Served {
    serve_as(SyntheticRuntime::new(profile).seed(1)).await
}

/// Serves this runtime, and connects to it.
pub(crate) async fn serve_as(runtime: SyntheticRuntime) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let handle = runtime.serve(directory.path().join("cri.sock")).await.unwrap();
    let client = connect(handle.socket()).await;
    Served { runtime: Running { handle, _directory: directory }, client }
}

/// A connection of its own to a socket.
pub(crate) async fn connect(socket: &Path) -> Client {
    RuntimeServiceClient::new(channel(socket).await).max_decoding_message_size(usize::MAX)
}

async fn channel(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap()
}
