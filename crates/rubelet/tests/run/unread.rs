//! An agent whose output or log has no reader still manages its pods.

use std::io::PipeReader;
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

/// A pipe that is full from the beginning, and its reader, which does nothing.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let room = rustix::pipe::fcntl_getpipe_size(&writer).expect("its size");
    std::io::Write::write_all(&mut &writer, &vec![b'\n'; room]).expect("it takes that much");
    (reader, Stdio::from(writer))
}

#[tokio::test]
async fn an_agent_goes_on_while_nobody_reads_its_output() {
    let (_reader, output) = full_pipe();
    goes_on(|agent| agent.stdout(output)).await;
}

#[tokio::test]
async fn an_agent_goes_on_while_nobody_reads_its_log() {
    let (_reader, log) = full_pipe();
    goes_on(|agent| agent.stdout(Stdio::null()).stderr(log).env("RUST_LOG", "trace")).await;
}

/// Starts an agent, adds a pod before and one after the start, and ends it.
async fn goes_on(prepare: impl FnOnce(&mut Command) -> &mut Command) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(folder.path().join("s")).await.expect("served");
    let pods = folder.path().join("pods");
    std::fs::create_dir(&pods).expect("made");
    write_pod(&pods, "first");

    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    command
        .args(["run", &at("pods"), "--data-dir", &at("data"), "--pod-logs-dir", &at("logs")])
        .args(["--listen", "off", "--node-name", "n", "--runtime-endpoint", &runtime.endpoint()])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let mut agent = prepare(&mut command).spawn().expect("it starts");

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

#[tokio::test]
async fn output_that_cannot_be_written_is_a_failure_but_not_that_nobody_reads_it() {
    let code_with = async |output: Stdio| {
        let mut completions = Command::new(env!("CARGO_BIN_EXE_rubelet"));
        completions.args(["completions", "bash"]).stdout(output);
        completions.status().await.expect("it runs").code()
    };
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full disk");
    assert_eq!(code_with(full.into()).await, Some(1));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(code_with(writer.into()).await, Some(0));
}

#[tokio::test]
async fn an_empty_word_in_the_environment_is_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
    let mut ps = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    let output = ps.args(["ps", "-r", &runtime.endpoint()]).env("RUBELET_DATA_DIR", "").output();
    let output = output.await.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));

    let mut run = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    run.args(["run", "no-such-manifest", "--listen", "off", "--data-dir"]).arg(dir.path());
    let output = run.env("CONTAINER_RUNTIME_ENDPOINT", "").env("RUST_LOG", "rubelet=loud").output();
    let said = String::from_utf8_lossy(&output.await.expect("it runs").stderr).into_owned();
    assert!(!said.contains("CONTAINER_RUNTIME_ENDPOINT") && !said.contains("invalid value"), "{said}");
    assert!(said.contains("RUST_LOG is invalid"), "{said}");
}
