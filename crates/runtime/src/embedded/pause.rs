//! The only sandbox that needs a process: if containers share a process namespace, a process has to hold it.
//!
//! It is run like a container, by a shim, in a folder of the sandbox; but it executes no program, sees an empty root,
//! and only reaps orphaned processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rubelet_cri::v1::ContainerEventType;
use serde_json::json;

use super::error::{Error, Result};
use super::record::Held;
use super::registry::Sandbox;
use super::runtime::{Runtime, blocking};
use super::shim::mount_ns::ROOTFS;
use super::shim::protocol::{Command, Report};
use super::shim::settings::{self, Payload, RootfsPlan, Settings};
use super::state::Exit;
use super::store::{self, Durability};
use super::{container, namespaces, supervise};

/// How long a shim may take to end its process.
const PATIENCE: Duration = Duration::from_secs(10);
const FOLDER: &str = "pause";
/// The file with its control group. Written before the process is started, so that it can be ended in any case.
const GROUP: &str = "group";

impl Runtime {
    /// Starts the process, and returns its pid.
    pub(crate) async fn start_pause(
        self: &Arc<Self>,
        id: &str,
        sandbox: &Path,
        held: Held,
        cgroup: &str,
    ) -> Result<i32> {
        let folder = sandbox.join(FOLDER);
        let group = if cgroup.is_empty() { String::new() } else { format!("{cgroup}/{id}") };
        let settings = Settings {
            id: id.to_owned(),
            log_path: None,
            stdin: false,
            tty: false,
            cgroup: group.clone(),
            open_files: self.facts.open_files,
            own_pid_namespace: true,
            rootfs: RootfsPlan::Empty,
            image_volumes: Vec::new(),
            shared_mounts: false,
            payload: Payload::Pause,
        };
        let spec = spec(&folder, sandbox, held, &group);
        let program = self.shim.clone();
        let making = folder.clone();
        blocking(move || {
            store::make_dir(&making.join(ROOTFS))?;
            store::write(&making.join(GROUP), group.as_bytes(), Durability::Process)?;
            store::write_json(&making.join(container::SPEC), &spec, Durability::Process)?;
            store::write_json(&making.join(settings::FILE), &settings, Durability::Process)
        })
        .await?;
        let mut link = supervise::adopt(supervise::spawn(&program, &folder)?)?;
        match supervise::next(&mut link).await {
            Some(Report::Started { pid, .. }) => Ok(pid),
            _ => {
                let exit = blocking(move || store::read_json::<Exit>(&folder.join(store::EXIT))).await?;
                let message = exit.map_or_else(|| "its shim exited".to_owned(), |exit| exit.message());
                Err(Error::State(format!("cannot hold the pod's process namespace: {message}")))
            }
        }
    }

    /// Ends the process, if there is one.
    pub(crate) async fn end_pause(self: &Arc<Self>, sandbox: &Path) {
        let folder = sandbox.join(FOLDER);
        let noted = folder.join(GROUP);
        let Ok(Some(group)) = blocking(move || store::read(&noted)).await else { return };
        if let Ok(Some(link)) = supervise::connect(&folder)
            && let Ok(mut link) = supervise::adopt(link)
        {
            let end = async {
                let _ = supervise::ask(&folder, Command::Kill).await;
                // Wait until it closes the connection: by then it has also removed its control group.
                while supervise::next(&mut link).await.is_some() {}
            };
            // A shim that does not respond is not waited for: the group is emptied without it.
            let _ = tokio::time::timeout(PATIENCE, end).await;
        }
        self.end_group(&String::from_utf8_lossy(&group)).await;
    }

    /// Watches the process: if it dies, the sandbox takes no new containers.
    pub(crate) fn watch_pause(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        if sandbox.record.read().pause.is_none() {
            return;
        }
        let (runtime, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        tokio::spawn(async move {
            let folder: PathBuf = runtime.layout.sandbox(&sandbox.id).join(FOLDER);
            if let Ok(Some(link)) = supervise::connect(&folder)
                && let Ok(mut link) = supervise::adopt(link)
            {
                while supervise::next(&mut link).await.is_some() {}
            }
            // A stop in progress has the lock and has already published it.
            let _work = sandbox.work.lock().await;
            if runtime.registry.sandbox(&sandbox.id).is_ok()
                && runtime.mark_not_ready(&sandbox).await.unwrap_or(false)
            {
                let kind = ContainerEventType::ContainerStoppedEvent;
                runtime.events.publish(kind, &sandbox.id, &sandbox, &runtime.registry);
            }
        });
    }
}

fn spec(folder: &Path, sandbox: &Path, held: Held, group: &str) -> serde_json::Value {
    let ns = sandbox.join(namespaces::NS);
    let mut list = vec![json!({ "type": "pid" }), json!({ "type": "mount" })];
    for (own, kind, file) in
        [(held.network, "network", "net"), (held.ipc, "ipc", "ipc"), (held.uts, "uts", "uts")]
    {
        if own {
            list.push(json!({ "type": kind, "path": ns.join(file) }));
        }
    }
    let mut linux = json!({ "namespaces": list, "resources": {}, "maskedPaths": [], "readonlyPaths": [] });
    if !group.is_empty() {
        linux["cgroupsPath"] = json!(group);
    }
    json!({
        "ociVersion": "1.0.2",
        "root": { "path": folder.join(ROOTFS), "readonly": true },
        "process": {
            "terminal": false,
            "user": { "uid": 65535, "gid": 65535 },
            "args": ["pause"],
            "env": [],
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": { "bounding": [], "effective": [], "permitted": [], "inheritable": [], "ambient": [] },
        },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"] },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"] },
        ],
        "linux": linux,
    })
}
