//! Short words for what the cases ask.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rubelet_cri::v1;
use rubelet_cri::v1::image_service_client::ImageServiceClient;
use rubelet_cri::v1::runtime_service_client::RuntimeServiceClient;
use tonic::Status;
use tonic::transport::Channel;

/// A runtime, asked through its socket.
#[derive(Debug, Clone)]
pub(crate) struct Cri {
    socket: PathBuf,
    pub(crate) image: String,
    cgroup: String,
    dir: PathBuf,
    case: String,
    counter: Arc<AtomicU32>,
}

pub(crate) type Asked<T> = Result<T, Status>;

impl Cri {
    pub(crate) fn new(socket: &Path, image: &str, cgroup: &str, dir: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            image: image.to_owned(),
            cgroup: cgroup.to_owned(),
            dir: dir.to_owned(),
            case: String::new(),
            counter: Arc::default(),
        }
    }

    pub(crate) fn begin(&mut self, case: &str) {
        self.case = case.to_owned();
    }

    fn number(&self) -> u32 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) async fn channel(&self) -> Asked<Channel> {
        let address = format!("unix://{}", self.socket.display());
        let endpoint = tonic::transport::Endpoint::try_from(address).expect("an address");
        endpoint.connect().await.map_err(|error| Status::unavailable(format!("no connection: {error:?}")))
    }

    /// A connection of its own: a runtime that was killed is a new one for the next call.
    pub(crate) async fn connected(&self) -> Asked<RuntimeServiceClient<Channel>> {
        Ok(RuntimeServiceClient::new(self.channel().await?).max_decoding_message_size(64 << 20))
    }

    pub(crate) async fn runtime(&self) -> RuntimeServiceClient<Channel> {
        self.connected().await.expect("the runtime answers")
    }

    pub(crate) async fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel().await.expect("the runtime answers"))
    }

    /// A folder of this case's own.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.join(format!("{}-{name}", self.number()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// A pod on the host's network, with everything else its own.
    pub(crate) fn pod_config(&self) -> v1::PodSandboxConfig {
        let number = self.number();
        v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: format!("pod-{number}"),
                uid: format!("uid-{number}"),
                namespace: "contract".to_owned(),
                attempt: 0,
            }),
            log_directory: self.dir.join(format!("logs-{number}")).to_string_lossy().into_owned(),
            labels: HashMap::from([
                ("case".to_owned(), self.case.clone()),
                ("number".to_owned(), number.to_string()),
            ]),
            linux: Some(v1::LinuxPodSandboxConfig {
                cgroup_parent: format!("{}/pod-{number}", self.cgroup),
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    pub(crate) fn container_config(&self, script: &str) -> v1::ContainerConfig {
        let number = self.number();
        v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: format!("c-{number}"), attempt: 0 }),
            image: Some(v1::ImageSpec { image: self.image.clone(), ..Default::default() }),
            command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
            log_path: format!("{number}.log"),
            labels: HashMap::from([
                ("case".to_owned(), self.case.clone()),
                ("number".to_owned(), number.to_string()),
            ]),
            linux: Some(v1::LinuxContainerConfig {
                security_context: Some(v1::LinuxContainerSecurityContext {
                    namespace_options: Some(namespaces()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    pub(crate) async fn run_pod(&self, config: &v1::PodSandboxConfig) -> Asked<String> {
        let request =
            v1::RunPodSandboxRequest { config: Some(config.clone()), runtime_handler: String::new() };
        Ok(self.connected().await?.run_pod_sandbox(request).await?.into_inner().pod_sandbox_id)
    }

    pub(crate) async fn create(
        &self,
        pod: &str,
        sandbox: &v1::PodSandboxConfig,
        config: &v1::ContainerConfig,
    ) -> Asked<String> {
        let mut config = config.clone();
        // As a kubelet sends it: the pod's network and ipc are its containers'.
        let pods = sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        if let (Some(pods), Some(own)) = (
            pods.and_then(|context| context.namespace_options.as_ref()),
            config.linux.as_mut().and_then(|linux| linux.security_context.as_mut()),
        ) {
            let own = own.namespace_options.get_or_insert_default();
            (own.network, own.ipc) = (pods.network, pods.ipc);
        }
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: pod.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox.clone()),
        };
        Ok(self.connected().await?.create_container(request).await?.into_inner().container_id)
    }

    pub(crate) async fn start(&self, id: &str) -> Asked<()> {
        let request = v1::StartContainerRequest { container_id: id.to_owned() };
        self.connected().await?.start_container(request).await.map(drop)
    }

    pub(crate) async fn stop(&self, id: &str, timeout: i64) -> Asked<()> {
        let request = v1::StopContainerRequest { container_id: id.to_owned(), timeout };
        self.connected().await?.stop_container(request).await.map(drop)
    }

    pub(crate) async fn remove(&self, id: &str) -> Asked<()> {
        let request = v1::RemoveContainerRequest { container_id: id.to_owned() };
        self.connected().await?.remove_container(request).await.map(drop)
    }

    pub(crate) async fn stop_pod(&self, id: &str) -> Asked<()> {
        let request = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.connected().await?.stop_pod_sandbox(request).await.map(drop)
    }

    pub(crate) async fn remove_pod(&self, id: &str) -> Asked<()> {
        let request = v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.connected().await?.remove_pod_sandbox(request).await.map(drop)
    }

    pub(crate) async fn pod_status(&self, id: &str) -> Asked<v1::PodSandboxStatus> {
        let request = v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer = self.connected().await?.pod_sandbox_status(request).await?.into_inner();
        Ok(answer.status.expect("a status"))
    }

    pub(crate) async fn status(&self, id: &str) -> Asked<v1::ContainerStatus> {
        let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer = self.connected().await?.container_status(request).await?.into_inner();
        Ok(answer.status.expect("a status"))
    }

    pub(crate) async fn pods(&self, filter: Option<v1::PodSandboxFilter>) -> Vec<v1::PodSandbox> {
        let request = v1::ListPodSandboxRequest { filter };
        self.runtime().await.list_pod_sandbox(request).await.expect("a list").into_inner().items
    }

    pub(crate) async fn containers(&self, filter: Option<v1::ContainerFilter>) -> Vec<v1::Container> {
        let request = v1::ListContainersRequest { filter };
        self.runtime().await.list_containers(request).await.expect("a list").into_inner().containers
    }

    pub(crate) async fn exec(&self, id: &str, script: &str, timeout: i64) -> Asked<v1::ExecSyncResponse> {
        self.exec_words(id, ["/bin/sh", "-c", script], timeout).await
    }

    /// A command of these words, the first of which is its program.
    pub(crate) async fn exec_words(
        &self,
        id: &str,
        words: [&str; 3],
        timeout: i64,
    ) -> Asked<v1::ExecSyncResponse> {
        let cmd = words.map(str::to_owned).to_vec();
        let request = v1::ExecSyncRequest { container_id: id.to_owned(), cmd, timeout };
        Ok(self.connected().await?.exec_sync(request).await?.into_inner())
    }

    /// A pod with one container of this script in it, not started.
    pub(crate) async fn pod_with(&self, script: &str) -> (String, String, v1::PodSandboxConfig) {
        self.pod_with_config(self.container_config(script)).await
    }

    pub(crate) async fn pod_with_config(
        &self,
        config: v1::ContainerConfig,
    ) -> (String, String, v1::PodSandboxConfig) {
        let sandbox = self.pod_config();
        let pod = self.run_pod(&sandbox).await.expect("a pod");
        let container = self.create(&pod, &sandbox, &config).await.expect("a container");
        (pod, container, sandbox)
    }

    /// Runs a script to its end; its status and its log's lines.
    pub(crate) async fn run(&self, config: v1::ContainerConfig) -> (v1::ContainerStatus, Vec<String>) {
        let (_, id, _) = self.pod_with_config(config).await;
        self.start(&id).await.expect("starts");
        let status = self.exited(&id).await;
        let lines = self.log(&status).await;
        (status, lines)
    }

    /// Texts of the lines on standard output.
    pub(crate) async fn output(&self, config: v1::ContainerConfig) -> Vec<String> {
        let (_, lines) = self.run(config).await;
        lines
            .iter()
            .filter_map(|line| line.split_once(" stdout F ").map(|(_, text)| text.to_owned()))
            .collect()
    }

    pub(crate) async fn log(&self, status: &v1::ContainerStatus) -> Vec<String> {
        // All of them have written the last line when they report the end.
        let text = std::fs::read_to_string(&status.log_path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits for the end of a container.
    pub(crate) async fn exited(&self, id: &str) -> v1::ContainerStatus {
        self.in_state(id, v1::ContainerState::ContainerExited).await
    }

    pub(crate) async fn in_state(&self, id: &str, state: v1::ContainerState) -> v1::ContainerStatus {
        loop {
            let status = self.status(id).await.expect("a status");
            if status.state() == state {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a file says something.
    pub(crate) async fn told(&self, file: &Path) -> String {
        loop {
            match std::fs::read_to_string(file) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Removes every pod.
    pub(crate) async fn clear(&self) -> Result<(), String> {
        for pod in self.pods(None).await {
            self.remove_pod_hard(&pod.id).await.map_err(|status| status.to_string())?;
        }
        let left = (self.pods(None).await.len(), self.containers(None).await.len());
        if left == (0, 0) { Ok(()) } else { Err(format!("{left:?} are left")) }
    }

    async fn remove_pod_hard(&self, id: &str) -> Asked<()> {
        self.stop_pod(id).await?;
        self.remove_pod(id).await
    }
}

/// The host's network, a process namespace for each container, one ipc namespace a pod.
pub(crate) fn namespaces() -> v1::NamespaceOption {
    v1::NamespaceOption {
        network: v1::NamespaceMode::Node as i32,
        pid: v1::NamespaceMode::Container as i32,
        ipc: v1::NamespaceMode::Pod as i32,
        ..Default::default()
    }
}
