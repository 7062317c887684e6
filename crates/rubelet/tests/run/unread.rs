//! An agent whose output nobody reads keeps its pods all the same.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rubelet_runtime::synthetic::{Profile, SyntheticRuntime};
use tokio::process::Command;

use crate::node::PATIENCE;

fn write_pod(folder: &Path, name: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  hostNetwork: true\n  containers:\n  - {{name: c, image: busybox}}\n"
    );
    std::fs::write(folder.join(format!("{name}.yaml")), manifest).expect("written");
}

#[tokio::test]
async fn an_agent_goes_on_while_nobody_reads_its_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(folder.path().join("s")).await.expect("served");
    let pods = folder.path().join("pods");
    std::fs::create_dir(&pods).expect("made");
    write_pod(&pods, "first");

    // A pipe that is full before anything is written to it.
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let room = rustix::pipe::fcntl_getpipe_size(&writer).expect("its size");
    std::io::Write::write_all(&mut &writer, &vec![b'\n'; room]).expect("it takes that much");
    let mut agent = Command::new(env!("CARGO_BIN_EXE_rubelet"))
        .args(["run", &at("pods"), "--data-dir", &at("data"), "--pod-logs-dir", &at("logs")])
        .args(["--listen", "off", "--node-name", "n", "--runtime-endpoint", &runtime.endpoint()])
        .stdin(Stdio::null())
        .stdout(Stdio::from(writer))
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");

    let data = at("data");
    let until_known = async |name: &str| {
        let asking = async {
            loop {
                let mut ps = Command::new(env!("CARGO_BIN_EXE_rubelet"));
                let output = ps.args(["ps", "--data-dir", &data]).output().await.expect("it runs");
                if String::from_utf8_lossy(&output.stdout).contains(name) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{name} is never known"));
    };
    until_known("first-n").await;
    write_pod(&pods, "second");
    until_known("second-n").await;

    let pid = agent.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let ended = tokio::time::timeout(PATIENCE, agent.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));
}
