//! A shim that is killed takes its container with it, and nobody is told a fairy tale about it.

use std::path::Path;

use rubelet_cri::v1::{self, ContainerState};
use rubelet_testbed::Embedded;

use crate::cri::Cri;
use crate::with_runtime;

/// The process of a container, by what the runtime says.
async fn pid(cri: &Cri, id: &str) -> String {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    let answer = cri.runtime().await.container_status(request).await.expect("a status").into_inner();
    let info: serde_json::Value = serde_json::from_str(&answer.info["info"]).expect("JSON");
    info["pid"].to_string()
}

fn kill_shims(runtime: &Embedded) {
    let shims = runtime.shims();
    assert!(!shims.is_empty(), "a container has a shim");
    for pid in shims {
        // A helper that was just on its way out may be gone by now.
        let _ = std::process::Command::new("kill").args(["-9", &pid]).status().expect("kill");
    }
}

/// Whether a process still runs: one that nobody has reaped yet does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_killed_shim_is_an_unknown_end() {
    with_runtime("shim", None, |runtime, cri| async move {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let process = pid(&cri, &id).await;
        kill_shims(&runtime);
        let status = cri.exited(&id).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (255, "Unknown"));
        assert!(!runs(&process), "what the shim cannot watch does not run");
        cri.clear().await.expect("is removed");
        assert!(runtime.groups().is_empty() && runtime.mounts().is_empty());
    });
}

#[test]
fn a_shim_killed_while_the_runtime_is_down_is_found_out() {
    with_runtime("down", None, |mut runtime, cri| async move {
        let (_, dead, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&dead).await.expect("starts");
        let process = pid(&cri, &dead).await;
        runtime.kill();
        kill_shims(&runtime);
        runtime.launch();
        let status = cri.status(&dead).await.expect("a status");
        assert_eq!(status.state(), ContainerState::ContainerExited, "never shown as running");
        assert_eq!((status.exit_code, status.reason.as_str()), (255, "Unknown"));
        assert!(!runs(&process));
        cri.clear().await.expect("is removed");
        assert!(runtime.groups().is_empty() && runtime.mounts().is_empty());
    });
}

#[test]
fn an_end_while_the_runtime_is_down_keeps_its_code() {
    with_runtime("code", None, |mut runtime, cri| async move {
        let folder = cri.folder("in");
        let mut config =
            cri.container_config("while [ ! -e /in/go ]; do sleep 0.02; done; echo late; exit 42");
        config.mounts.push(v1::Mount {
            host_path: folder.to_string_lossy().into_owned(),
            container_path: "/in".to_owned(),
            ..Default::default()
        });
        let (_, id, _) = cri.pod_with_config(config).await;
        cri.start(&id).await.expect("starts");
        runtime.kill();
        std::fs::write(folder.join("go"), "").expect("a word");
        let gone = || runtime.shims().is_empty().then_some(());
        rubelet_testbed::wait::until(std::time::Duration::from_secs(20), gone)
            .expect("the shim ends by itself");
        runtime.launch();
        let status = cri.status(&id).await.expect("a status");
        assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 42));
        assert!(cri.log(&status).await.iter().any(|line| line.ends_with("stdout F late")));
    });
}

#[test]
fn a_second_runtime_on_the_same_folder_is_refused() {
    with_runtime("twice", None, |runtime, _| async move {
        let second = std::process::Command::new(env!("CARGO_BIN_EXE_rubelet-runtime"))
            .arg(runtime.dir().join("other.sock"))
            .arg(runtime.data())
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&second.stderr);
        assert!(!second.status.success() && text.contains("another runtime uses"), "{text}");
    });
}
