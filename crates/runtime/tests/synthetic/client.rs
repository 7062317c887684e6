//! A served runtime in a directory of its own, and clients of it.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use hyper_util::rt::TokioIo;
use rubelet_cri::v1;
use rubelet_cri::v1::image_service_client::ImageServiceClient;
use rubelet_cri::v1::runtime_service_client::RuntimeServiceClient;
use rubelet_runtime::synthetic::{Handle, Profile, SyntheticRuntime};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::Status;
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

/// A connection of its own to the image service behind a socket.
pub(crate) async fn connect_images(socket: &Path) -> ImageServiceClient<Channel> {
    ImageServiceClient::new(channel(socket).await)
}

/// The sandbox of a pod as a request.
pub(crate) fn sandbox_config(name: &str, uid: &str, attempt: u32) -> v1::PodSandboxConfig {
    let metadata = v1::PodSandboxMetadata {
        name: name.to_owned(),
        uid: uid.to_owned(),
        namespace: "ns".to_owned(),
        attempt,
    };
    v1::PodSandboxConfig {
        metadata: Some(metadata),
        labels: [("io.kubernetes.pod.uid".to_owned(), uid.to_owned())].into(),
        ..Default::default()
    }
}

/// A container as a request.
pub(crate) fn container_config(name: &str, attempt: u32) -> v1::ContainerConfig {
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: name.to_owned(), attempt }),
        image: Some(v1::ImageSpec { image: "app:1".to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

/// Life-cycle calls in one line each.
pub(crate) struct Crictl(pub(crate) Client);

impl Crictl {
    pub(crate) async fn run_sandbox(&mut self, config: v1::PodSandboxConfig) -> Result<String, Status> {
        let request = v1::RunPodSandboxRequest { config: Some(config), ..Default::default() };
        Ok(self.0.run_pod_sandbox(request).await?.into_inner().pod_sandbox_id)
    }

    pub(crate) async fn create(
        &mut self,
        sandbox: &str,
        config: v1::ContainerConfig,
    ) -> Result<String, Status> {
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            ..Default::default()
        };
        Ok(self.0.create_container(request).await?.into_inner().container_id)
    }

    pub(crate) async fn start(&mut self, id: &str) -> Result<(), Status> {
        let request = v1::StartContainerRequest { container_id: id.to_owned() };
        self.0.start_container(request).await.map(|_| ())
    }

    pub(crate) async fn stop(&mut self, id: &str, timeout: i64) -> Result<(), Status> {
        let request = v1::StopContainerRequest { container_id: id.to_owned(), timeout };
        self.0.stop_container(request).await.map(|_| ())
    }

    pub(crate) async fn remove(&mut self, id: &str) -> Result<(), Status> {
        let request = v1::RemoveContainerRequest { container_id: id.to_owned() };
        self.0.remove_container(request).await.map(|_| ())
    }

    pub(crate) async fn stop_sandbox(&mut self, id: &str) -> Result<(), Status> {
        let request = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.0.stop_pod_sandbox(request).await.map(|_| ())
    }

    pub(crate) async fn remove_sandbox(&mut self, id: &str) -> Result<(), Status> {
        let request = v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.0.remove_pod_sandbox(request).await.map(|_| ())
    }

    pub(crate) async fn status(&mut self, id: &str) -> Result<v1::ContainerStatus, Status> {
        let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        Ok(self.0.container_status(request).await?.into_inner().status.unwrap())
    }

    pub(crate) async fn exec(&mut self, id: &str, timeout: i64) -> Result<v1::ExecSyncResponse, Status> {
        let request =
            v1::ExecSyncRequest { container_id: id.to_owned(), cmd: vec!["true".to_owned()], timeout };
        Ok(self.0.exec_sync(request).await?.into_inner())
    }
}
