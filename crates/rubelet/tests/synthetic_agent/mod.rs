//! A synthetic runtime with pods that nobody manages, and an agent on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rubelet_runtime::synthetic::{Handle, PodSpec, Profile, SyntheticRuntime};
use tokio::process::{Child, Command};

pub(crate) struct Node {
    pub(crate) runtime: Handle,
    pub(crate) _folder: tempfile::TempDir,
}

impl Node {
    /// Creates a runtime with two pods.
    pub(crate) async fn new(profile: Profile) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(profile).serve(folder.path().join("s")).await.expect("served");
        runtime.world(|world| {
            for name in ["web", "db"] {
                world.add_pod(PodSpec::new("shop", name).container("main"));
            }
        });
        Self { runtime, _folder: folder }
    }
}

/// An agent that at first has no pods of its own, on a runtime that has some.
pub(crate) struct Agent {
    pub(crate) node: Node,
    pub(crate) child: Child,
    folder: tempfile::TempDir,
}

impl Agent {
    pub(crate) async fn start(node: Node) -> Self {
        Self::start_with(node, &[]).await
    }

    /// Starts an agent with these variables in its environment.
    pub(crate) async fn start_with(node: Node, environment: &[(&str, &OsStr)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("pods")).expect("made");
        let child = spawn(folder.path(), &node, environment);
        Self { node, child, folder }
    }

    pub(crate) fn manifests(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("data/agent.sock")
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        assert!(std::process::Command::new("kill").args([name, &pid]).status().expect("kill runs").success());
    }
}

/// Starts an agent with this folder, and these variables in its environment.
pub(crate) fn spawn(folder: &Path, node: &Node, environment: &[(&str, &OsStr)]) -> Child {
    let at = |name: &str| folder.join(name).display().to_string();
    // The tests may have been started with `nohup`, which is inherited.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_rubelet")])
        .args(["run", &at("pods"), "--data-dir", &at("data"), "--pod-logs-dir", &at("logs")])
        .args(["--listen", "off", "--node-name", "node", "--runtime-endpoint", &node.runtime.endpoint()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .envs(environment.iter().copied())
        .kill_on_drop(true);
    command.spawn().expect("it starts")
}
