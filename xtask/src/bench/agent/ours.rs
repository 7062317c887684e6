//! `rubelet run` on a folder of manifests, seen from outside.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rubelet_testbed::{BUSYBOX, image_archive};
use serde_json::Value;
use tokio::time::Instant;

use super::marks::{Marks, Moment, kill, until, until_every};

/// The interval at which the agent is asked for all its pods: long, because its CPU time is measured, and answers cost
/// some.
const BETWEEN_LISTS: Duration = Duration::from_millis(100);

/// An agent and its folder. Dropping it also ends its pods.
pub(super) struct Ours {
    rubelet: PathBuf,
    dir: tempfile::TempDir,
    /// The runtime to use; the embedded one if `None`.
    endpoint: Option<String>,
    agent: Option<Child>,
    pub(super) marks: Marks,
}

impl Ours {
    pub(super) async fn start(rubelet: &Path, endpoint: Option<String>) -> anyhow::Result<Self> {
        // Not the configured temporary folder, because the path of a socket must be short.
        let dir = tempfile::Builder::new().prefix("rba").tempdir_in("/tmp")?;
        std::fs::create_dir(dir.path().join("pods"))?;
        let marks = Marks::new(2, &dir.path().join("place"))?;
        let mut ours = Self { rubelet: rubelet.to_owned(), dir, endpoint, agent: None, marks };
        if ours.endpoint.is_none() {
            let archive = ours.dir.path().join("images.tar");
            std::fs::write(&archive, image_archive()?)?;
            let imported = ours.command(&["image", "import"]).arg(&archive).output()?;
            anyhow::ensure!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        }
        ours.start_agent().await?;
        Ok(ours)
    }

    /// Starts the agent; returns the time until it reports that it is ready.
    pub(super) async fn start_agent(&mut self) -> anyhow::Result<Duration> {
        let mut run = self.command(&["run"]);
        run.arg(self.dir.path().join("pods")).args(["--listen", "off", "--node-name", "n"]);
        run.arg("--pod-logs-dir").arg(self.dir.path().join("logs"));
        if let Some(endpoint) = &self.endpoint {
            run.args(["--runtime-endpoint", endpoint]);
        }
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log"))?;
        let begin = Instant::now();
        self.agent = Some(run.stdout(Stdio::null()).stderr(log).spawn()?);
        until(|| self.get("/readyz").filter(|answer| answer == "ok"))
            .await
            .context("the agent is never ready")?;
        Ok(begin.elapsed())
    }

    /// Stops the agent as a service manager would. Pods keep running.
    pub(super) fn stop_agent(&mut self) -> anyhow::Result<()> {
        let mut agent = self.agent.take().context("no agent")?;
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&agent),
            rustix::process::Signal::TERM,
        )?;
        agent.wait()?;
        Ok(())
    }

    pub(super) fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.agent.as_ref().context("no agent")?.id())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.rubelet);
        command.args(words).arg("--data-dir").arg(self.dir.path().join("data"));
        command.env_remove("CONTAINER_RUNTIME_ENDPOINT").stdin(Stdio::null());
        command
    }

    /// Sends a request to the agent's socket; `None` if it does not answer, or not with success.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = UnixStream::connect(self.dir.path().join("data/agent.sock")).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }

    /// Writes the manifest of a pod; returns the time until its container's first instruction.
    pub(super) async fn add(&self, number: usize) -> anyhow::Result<Duration> {
        self.add_all(number..number + 1).await
    }

    /// Writes many manifests at once; returns the time until the last one's first instruction.
    pub(super) async fn add_all(
        &self,
        numbers: impl Iterator<Item = usize> + Clone,
    ) -> anyhow::Result<Duration> {
        let begin = Moment::now();
        for number in numbers.clone() {
            std::fs::write(self.file(number), self.manifest(number))?;
        }
        let begun = self.marks.all_begun(numbers).await;
        Ok(begun.with_context(|| self.said())?.since(begin))
    }

    /// Kills the process of a pod; returns the time until the first instruction of its successor.
    pub(super) async fn replace(&self, number: usize) -> anyhow::Result<Duration> {
        let last = self.marks.last(number);
        let pid = self.marks.process(number).await?;
        let begin = Moment::now();
        kill(pid)?;
        let begun = self.marks.begun(number, last).await;
        Ok(begun.with_context(|| self.said())?.since(begin))
    }

    /// Removes manifests, all at once.
    pub(super) fn remove(&self, numbers: impl Iterator<Item = usize>) -> anyhow::Result<()> {
        for number in numbers {
            std::fs::remove_file(self.file(number))?;
        }
        Ok(())
    }

    /// Waits until the agent knows exactly this many pods, and all of them run.
    pub(super) async fn settled(&self, pods: usize) -> anyhow::Result<Vec<Value>> {
        let settled = until_every(BETWEEN_LISTS, || {
            let list: Value = serde_json::from_str(&self.get("/pods")?).ok()?;
            let pods_now = list["items"].as_array()?.clone();
            let all_run = pods_now.iter().all(|pod| pod["status"]["phase"] == "Running");
            (pods_now.len() == pods && all_run).then_some(pods_now)
        });
        settled.await.with_context(|| format!("never do just {pods} pods run: {}", self.said()))
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn file(&self, number: usize) -> PathBuf {
        self.dir.path().join("pods").join(format!("{number}.yaml"))
    }

    fn manifest(&self, number: usize) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod-{number}\nspec:\n  hostNetwork: true\n  \
             terminationGracePeriodSeconds: 0\n  containers:\n  - name: main\n    image: {BUSYBOX}\n    \
             imagePullPolicy: IfNotPresent\n    command: [/bin/sh, -c, '{}']\n    volumeMounts:\n    \
             - {{ name: place, mountPath: /place }}\n  volumes:\n  - name: place\n    hostPath: {{ path: {} }}\n",
            self.marks.script(number),
            self.marks.place().display()
        )
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // A failure here was either reported before or no longer matters.
        let _ = self.command(&["stop", "--all", "--grace-period", "0"]).output();
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}
