//! `rubelet record` and `rubelet replay`, as programs.

use std::io::PipeReader;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use rubelet_runtime::synthetic::{Exit, Op, PodSpec, Profile, SyntheticRuntime};
use serde_json::Value;
use tokio::process::Command;

/// This is long because it only matters when something fails to happen.
const PATIENCE: Duration = Duration::from_secs(120);

fn rubelet(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    command.args(args).env_remove("CONTAINER_RUNTIME_ENDPOINT").stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(args: &[&str]) -> Output {
    tokio::time::timeout(PATIENCE, rubelet(args).output()).await.expect("it ends").expect("it runs")
}

async fn until_recorded(file: &Path, text: &str) {
    let waiting = async {
        while !std::fs::read_to_string(file).is_ok_and(|recorded| recorded.contains(text)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{text} is never recorded"));
}

/// Records a run in which calls fail, events get lost, and a container exits with 42.
async fn record(file: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(folder.path().join("s")).await.expect("served");
    let pods: Vec<_> = runtime.world(|world| {
        ["web", "db"].map(|name| world.add_pod(PodSpec::new("shop", name).container("main"))).into()
    });
    runtime.faults().on(Op::ContainerStatus).probability(0.3).error(tonic::Code::Internal, "not today");
    let endpoint = runtime.endpoint();
    let path = file.display().to_string();
    let mut child =
        rubelet(&["record", "-o", &path, "--runtime-endpoint", &endpoint]).spawn().expect("it starts");
    until_recorded(file, "inspected").await;
    runtime.world(|world| world.exit(&pods[0].containers[0], Exit::code(42)));
    until_recorded(file, "\"exit_code\":42").await;
    runtime.faults().clear();
    runtime.world(|world| world.remove(&pods[0].containers[0]));
    let pid = child.id().expect("it runs").to_string();
    let status = std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
    assert!(status.success());
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("it ran");
    assert!(ended.success());
}

fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

/// If the error message cannot be printed, the exit code still reports the failure.
#[tokio::test]
async fn nobody_needs_to_read_standard_error() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    for (args, code) in
        [(["replay", "/nowhere"], 2), (["doctor", "-r/nowhere"], 1), (["watch", "-r/nowhere"], 3)]
    {
        let ended = tokio::time::timeout(PATIENCE, rubelet(&args).stderr(full()).stdout(full()).status());
        assert_eq!(ended.await.expect("it ends").expect("it runs").code(), Some(code), "{args:?}");
    }
}

/// A pipe that is full and has no reader.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let room = rustix::pipe::fcntl_getpipe_size(&writer).expect("its size");
    std::io::Write::write_all(&mut &writer, &vec![b'\n'; room]).expect("it takes that much");
    (reader, writer.into())
}

#[tokio::test]
async fn a_standard_error_that_is_stuck_keeps_nobody_from_recording_or_from_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(folder.path().join("s")).await.expect("served");
    runtime.world(|world| world.add_pod(PodSpec::new("shop", "web").container("main")));
    let endpoint = runtime.endpoint();
    let record = |file: &Path, more: &[&str]| {
        let (reader, stuck) = full_pipe();
        let path = file.display().to_string();
        let mut command = rubelet(&["record", "-o", &path, "--runtime-endpoint", &endpoint]);
        (command.args(more).stderr(stuck).spawn().expect("it starts"), reader)
    };
    let ended = async |mut child: tokio::process::Child| {
        tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("it ran").code()
    };
    let file = folder.path().join("for-a-while");
    let (child, _reader) = record(&file, &["--for", "500ms"]);
    assert_eq!(ended(child).await, Some(0));
    assert_eq!(run(&["replay", &file.display().to_string()]).await.status.code(), Some(0), "it is whole");

    let (child, _reader) = record(&file, &["--for", "500ms"]);
    assert_eq!(ended(child).await, Some(1), "the file is there already, and nobody hears it");

    let file = folder.path().join("until-told");
    let (child, _reader) = record(&file, &[]);
    until_recorded(&file, "inspected").await;
    let pid = child.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    assert_eq!(ended(child).await, Some(0));
}

#[tokio::test]
async fn what_was_recorded_is_played_the_same_every_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("incident");
    record(&file).await;
    let path = file.display().to_string();

    let first = run(&["replay", "-o", "json", &path]).await;
    assert_eq!(first.status.code(), Some(0));
    let heard = events(&first);
    assert!(
        heard.iter().any(|event| event["event"] == "ContainerDied" && event["exitCode"] == 42),
        "{heard:#?}"
    );
    for _ in 0..3 {
        assert_eq!(run(&["replay", "-o", "json", &path]).await.stdout, first.stdout);
    }
    assert!(first.stderr.is_empty(), "{first:?}");
    let of_before =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../pleg/tests/fixtures/version-1-rules-2.recording");
    let before = run(&["replay", "-o", "json", &of_before.display().to_string()]).await;
    let said = String::from_utf8_lossy(&before.stderr);
    assert!(before.status.success() && said.starts_with("recorded by a PLEG with rules 2, "), "{said}");

    let of_db = events(&run(&["replay", "-o", "json", "--pod", "db", &path]).await);
    assert!(!of_db.is_empty() && of_db.iter().all(|event| event["pod"] == "db"));
    let at_start = run(&["replay", "-o", "json", "--until", "0s", &path]).await;
    assert_eq!((at_start.status.code(), events(&at_start).len()), (Some(0), 0));
    let health = run(&["replay", "--health", "-o", "json", &path]).await;
    assert_eq!(events(&health)[0]["healthy"], true);

    // It is not overwritten, and damage is reported with its position.
    let mut bytes = std::fs::read(&file).expect("read");
    let served = folder.path().join("s");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(served).await.expect("served");
    let again = run(&["record", "-o", &path, "--for", "1s", "--runtime-endpoint", &runtime.endpoint()]).await;
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert_eq!(std::fs::read(&file).expect("read"), bytes);
    bytes.truncate(bytes.len() - 5);
    std::fs::write(&file, &bytes).expect("written");
    let cut = run(&["replay", "-o", "json", &path]).await;
    assert_eq!(cut.status.code(), Some(6));
    assert_eq!(cut.stdout, first.stdout, "all that is there is played");
    assert!(String::from_utf8_lossy(&cut.stderr).contains("is cut off at byte "), "{cut:?}");
    std::fs::write(&file, "hello").expect("written");
    let none = run(&["replay", &path]).await;
    assert_eq!(none.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&none.stderr).contains("this is not a recording"), "{none:?}");
    assert_eq!(run(&["replay", "/nowhere"]).await.status.code(), Some(2));
}

/// What an agent records into a folder can be replayed.
#[tokio::test]
async fn what_an_agent_recorded_is_played() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(folder.path().join("s")).await.expect("served");
    runtime.world(|world| world.add_pod(PodSpec::new("shop", "web").container("main")));
    std::fs::create_dir(folder.path().join("pods")).expect("made");
    let endpoint = runtime.endpoint();
    let mut agent = rubelet(&["run", &at("pods"), "--data-dir", &at("data"), "--pod-logs-dir", &at("logs")])
        .args(["--listen", "off", "--runtime-endpoint", &endpoint, "--record-dir", &at("records")])
        .args(["--record-size", "1"])
        .spawn()
        .expect("it starts");
    let files = || {
        let entries = std::fs::read_dir(folder.path().join("records")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let first = async {
        while files().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, first).await.expect("it records");
    let [file] = &files()[..] else { panic!("one file: {:?}", files()) };
    until_recorded(file, "inspected").await;
    let pid = agent.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    let ended = tokio::time::timeout(PATIENCE, agent.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));

    let played = run(&["replay", "-o", "json", &file.display().to_string()]).await;
    assert_eq!(played.status.code(), Some(0), "{played:?}");
    assert!(events(&played).iter().any(|event| event["pod"] == "web"), "{played:?}");
    let whole = run(&["replay", &at("records")]).await;
    assert_eq!(whole.status.code(), Some(2));
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let said = String::from_utf8_lossy(&whole.stderr).into_owned();
    assert!(said.contains("is a folder") && said.contains(&name), "{said}");
}
