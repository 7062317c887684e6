//! A shim that is killed takes its container with it, and nobody is told a fairy tale about it.

use std::path::Path;

use rubelet_cri::v1::{self, ContainerState};
use rubelet_testbed::Embedded;

use crate::cri::Cri;
use crate::with_runtime;

/// The process of a container, by what the runtime says.
pub(crate) async fn pid(cri: &Cri, id: &str) -> String {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    let answer = cri.runtime().await.container_status(request).await.expect("a status").into_inner();
    let info: serde_json::Value = serde_json::from_str(&answer.info["info"]).expect("JSON");
    info["pid"].to_string()
}

pub(crate) fn kill_shims(runtime: &Embedded) {
    let shims = runtime.shims();
    assert!(!shims.is_empty(), "a container has a shim");
    for pid in shims {
        // A helper that was just on its way out may be gone by now.
        let _ = std::process::Command::new("kill").args(["-9", &pid]).status().expect("kill");
    }
}

/// Whether a process still runs: one that nobody has reaped yet does not.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_killed_shim_is_an_unknown_end() {
    with_runtime("shim", None, async |runtime, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let process = pid(&cri, &id).await;
        kill_shims(runtime);
        let status = cri.exited(&id).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (255, "Unknown"));
        assert!(!runs(&process), "what the shim cannot watch does not run");
        cri.clear().await.expect("is removed");
        assert!(runtime.groups().is_empty() && runtime.mounts().is_empty());
    });
}

/// Its score as the kernel has it.
fn oom_score(pid: &str) -> String {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid).join("oom_score_adj"));
    text.expect("a score").trim().to_owned()
}

#[test]
fn a_shim_outlasts_its_container_where_it_may() {
    with_runtime("oomscore", None, async |_, cri| {
        let mut config = cri.container_config("exec sleep 3600");
        let linux = config.linux.get_or_insert_default();
        linux.resources.get_or_insert_default().oom_score_adj = 700;
        let (_, id, _) = cri.pod_with_config(config).await;
        cri.start(&id).await.expect("starts");
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).expect("rights");
        let may = u64::from_str_radix(rights, 16).expect("a number") & (1 << 24) != 0;
        let process = pid(&cri, &id).await;
        let own = oom_score("self");
        assert_eq!(oom_score(&shim_of(&process)), if may { "-998" } else { &own });
        assert_eq!(oom_score(&process), "700", "what was asked");
    });
}

#[test]
fn a_shim_killed_while_the_runtime_is_down_is_found_out() {
    with_runtime("down", None, async |runtime, cri| {
        let (_, dead, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&dead).await.expect("starts");
        let process = pid(&cri, &dead).await;
        runtime.kill();
        kill_shims(runtime);
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
    with_runtime("code", None, async |runtime, cri| {
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

/// The shim of a container: its parent. Helpers that are about to end live in the runtime's folder as well.
fn shim_of(process: &str) -> String {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    rest.split(' ').nth(1).expect("a parent").to_owned()
}

fn signal(pid: &str, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, pid]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn a_shim_that_stands_still_keeps_nothing_running() {
    with_runtime("still", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let process = pid(&cri, &id).await;
        let shim = shim_of(&process);
        signal(&shim, "-STOP");
        let going_on = async {
            while runs(&process) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            signal(&shim, "-CONT");
        };
        let (stopped, ()) = tokio::join!(cri.stop(&id, 1), going_on);
        stopped.expect("is stopped");
        assert_eq!(cri.exited(&id).await.exit_code, 137);
    });
}

#[test]
fn a_grace_without_end_is_no_deadline() {
    with_runtime("patient", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("trap 'exit 143' TERM; echo ready; while :; do sleep 0.05; done").await;
        cri.start(&id).await.expect("starts");
        let status = cri.status(&id).await.expect("a status");
        while cri.log(&status).await.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        cri.stop(&id, i64::MAX).await.expect("is stopped");
        assert_eq!(cri.exited(&id).await.exit_code, 143);
    });
}

#[test]
fn a_shim_has_time_for_all_however_much_the_container_writes() {
    with_runtime("writes", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("for i in 1 2 3 4; do yes & done; exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let answer = cri.exec(&id, "echo here", 30).await.expect("is run");
        assert_eq!((answer.exit_code, &*answer.stdout), (0, &b"here\n"[..]));
        cri.stop(&id, 0).await.expect("is stopped");
    });
}

#[test]
fn an_end_that_the_disk_does_not_take_keeps_its_code() {
    with_runtime("full", None, async |runtime, cri| {
        let (_, id, _) = cri.pod_with("exit 7").await;
        // The file that is to become `exit.json` cannot be written.
        let folder = runtime.data().join("containers").join(&id);
        std::fs::create_dir(folder.join("exit.json.new")).expect("a folder");
        cri.start(&id).await.expect("starts");
        let status = cri.exited(&id).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (7, "Error"));
    });
}

#[test]
fn a_second_runtime_on_the_same_folder_is_refused() {
    with_runtime("twice", None, async |runtime, _| {
        let second = std::process::Command::new(env!("CARGO_BIN_EXE_rubelet-runtime"))
            .arg(runtime.dir().join("other.sock"))
            .arg(runtime.data())
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&second.stderr);
        assert!(!second.status.success() && text.contains("another runtime is using"), "{text}");
    });
}

#[test]
fn a_container_that_cannot_be_asked_is_not_taken_for_gone() {
    with_runtime("deaf", None, async |runtime, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let process = pid(&cri, &id).await;
        runtime.kill();
        let socket = runtime.data().join("containers").join(&id).join("shim.sock");
        let aside = socket.with_extension("aside");
        std::fs::rename(&socket, &aside).expect("is moved");
        // Neither there nor missing.
        std::os::unix::fs::symlink("shim.sock", &socket).expect("a link to itself");
        let leases = || std::fs::read_dir(runtime.data().join("images/leases")).expect("leases").count();
        let before = leases();
        let refused = std::process::Command::new(env!("CARGO_BIN_EXE_rubelet-runtime"))
            .arg(runtime.socket())
            .arg(runtime.data())
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains("cannot determine the state"), "{text}");
        assert!(text.contains(&id) && text.contains("start again"), "{text}");
        assert_eq!(leases(), before, "its image is still kept for it");
        assert!(before > 0 && runs(&process));
        std::fs::rename(&aside, &socket).expect("is moved back");
        runtime.launch();
        let status = cri.status(&id).await.expect("a status");
        assert_eq!(status.state(), ContainerState::ContainerRunning);
        assert_eq!(pid(&cri, &id).await, process);
        cri.clear().await.expect("is removed");
    });
}
