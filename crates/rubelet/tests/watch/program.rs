//! The program under test, whose output is read as it appears.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// How long to wait for something that must happen. This is long because it only matters when that fails to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn rubelet(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    command.args(args).env_remove("CONTAINER_RUNTIME_ENDPOINT").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A running `rubelet watch -o json`.
pub(crate) struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

impl Watching {
    pub(crate) fn start(endpoint: &str, more: &[&str]) -> Self {
        let mut args = vec!["watch", "-o", "json", "--runtime-endpoint", endpoint];
        args.extend(more);
        let mut child = rubelet(&args).stdout(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines, seen: Vec::new() }
    }

    /// Reads until an object satisfies `is_it`.
    pub(crate) async fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let reading = async {
            loop {
                let line = self.lines.next_line().await.expect("readable").expect("it goes on");
                let object: Value = serde_json::from_str(&line).expect("every line is an object");
                self.seen.push(object.clone());
                if is_it(&object) {
                    return object;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(object) => object,
            Err(_) => panic!("no {what}; seen so far: {:#?}", self.seen),
        }
    }

    /// Waits for an event of this kind about a container, or about the sandbox if `container` is empty.
    pub(crate) async fn event(&mut self, kind: &str, pod: &str, container: &str) -> Value {
        self.wait_for(&format!("{kind} of {pod}/{container}"), |object| {
            object["type"] == "event"
                && object["event"] == kind
                && object["pod"] == pod
                && object["container"].as_str().unwrap_or("") == container
        })
        .await
    }

    /// Waits until the existing pods have been printed, by waiting for one of them.
    pub(crate) async fn pod(&mut self, name: &str) -> Value {
        self.wait_for(&format!("pod {name}"), |object| object["type"] == "pod" && object["pod"] == name).await
    }

    /// Everything read so far.
    pub(crate) fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Shrinks the pipe, so that the program's output soon blocks.
    pub(crate) fn shrink_pipe(&mut self) {
        let stdout = self.lines.get_ref().get_ref();
        rustix::pipe::fcntl_setpipe_size(stdout, 4096).expect("a pipe");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    pub(crate) async fn end(mut self) -> ExitStatus {
        self.signal("-INT");
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("it was ours")
    }
}

/// Sends a signal to a process that the test has started.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = std::process::Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Waits until a process is in a state, given by the kernel's letter for it.
pub(crate) async fn wait_for_state(pid: u32, letter: char) {
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        // Everything before the last parenthesis is the name.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(letter))
    };
    let waiting = async {
        while !is_there() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never in state {letter}"));
}

/// Runs the program to its end, and returns its exit code and what it wrote to standard error.
pub(crate) async fn run(mut command: Command) -> (Option<i32>, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    let ended = async {
        stderr.read_to_string(&mut said).await.expect("text");
        child.wait().await.expect("it was ours")
    };
    let status = tokio::time::timeout(PATIENCE, ended).await.expect("it ends by itself");
    (status.code(), said)
}
