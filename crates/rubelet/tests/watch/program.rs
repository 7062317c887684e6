//! The program under test, with its output read as it comes.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// How long to wait for something that must happen. Long, since it only matters when it does not.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn rubelet(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    command.args(args).env_remove("CONTAINER_RUNTIME_ENDPOINT").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A `rubelet watch -o json` under way.
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

    /// Reads on until an object is one that is waited for.
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

    /// Waits for an event of a kind, of a container by name, or of the sandbox for an empty one.
    pub(crate) async fn event(&mut self, kind: &str, pod: &str, container: &str) -> Value {
        self.wait_for(&format!("{kind} of {pod}/{container}"), |object| {
            object["type"] == "event"
                && object["event"] == kind
                && object["pod"] == pod
                && object["container"].as_str().unwrap_or("") == container
        })
        .await
    }

    /// Waits until the pods that are there have been told, by waiting for one of them.
    pub(crate) async fn pod(&mut self, name: &str) -> Value {
        self.wait_for(&format!("pod {name}"), |object| object["type"] == "pod" && object["pod"] == name).await
    }

    /// Everything read so far.
    pub(crate) fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Leaves the program little room before its output blocks.
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

/// Sends a signal to a process that we started.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = std::process::Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Waits until a process is in a state, by the letter that the kernel has for it.
pub(crate) async fn wait_for_state(pid: u32, letter: char) {
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        // What comes before the last parenthesis is the name.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(letter))
    };
    let waiting = async {
        while !is_there() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never in state {letter}"));
}

/// Runs the program to its end; returns how it ended, and what it wrote to standard error.
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
