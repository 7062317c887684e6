//! A runtime in memory with a PLEG that watches it, without an agent.

use std::path::Path;
use std::time::Duration;

use pleg::{Config, Metrics, Pleg};
use rubelet_cri::v1;
use rubelet_model::PodUid;

use crate::runtime::Runtime as _;
use crate::testkit::FakeRuntime;

pub(super) struct Watched {
    pub(super) runtime: FakeRuntime,
    pub(super) pleg: Pleg<FakeRuntime>,
}

impl Watched {
    pub(super) fn new() -> Self {
        let runtime = FakeRuntime::default();
        let mut pleg = Pleg::new(runtime.clone(), Config::default(), Metrics::default());
        pleg.start();
        Self { runtime, pleg }
    }

    /// Runs a pod with a running container; its log is `<logs>/<uid>/<container>/0.log`.
    pub(super) async fn run(&self, uid: &str, container: &str, logs: &Path) {
        let sandbox = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                uid: uid.to_owned(),
                name: uid.to_owned(),
                namespace: "default".to_owned(),
                attempt: 0,
            }),
            log_directory: logs.join(uid).display().to_string(),
            ..v1::PodSandboxConfig::default()
        };
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: container.to_owned(), attempt: 0 }),
            log_path: format!("{container}/0.log"),
            ..v1::ContainerConfig::default()
        };
        let home = self.runtime.run_sandbox(sandbox.clone(), "").await.unwrap();
        let id = self.runtime.create_container(&home, config, sandbox).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        self.runtime.take_calls();
        let (cache, uid) = (self.pleg.handle().cache(), PodUid::from(uid));
        while !cache.get(&uid).is_ok_and(|status| status.containers.iter().any(|one| one.id == id)) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
