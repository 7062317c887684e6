//! A node for one test: an agent in a folder, with manifests next to it. Dropping it leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rubelet_testbed::wait;
use serde_json::Value;

/// How long to wait for something that must happen. This is long because it only matters when that fails to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The name of every node here, which is the suffix of pod names.
pub(crate) const NODE: &str = "n";

static NODES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Node {
    dir: tempfile::TempDir,
    agent: Option<Child>,
    /// Distinguishes the processes of this node from all others.
    number: u32,
    /// The runtime's endpoint; the embedded runtime if `None`.
    endpoint: Option<String>,
    /// The address at which its agents serve HTTP.
    listen: &'static str,
}

impl Node {
    /// Creates a node without an agent; `None`, with a message, where this user cannot run containers.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: running pods needs root");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("rbr").tempdir().expect("a folder");
        fs::create_dir(dir.path().join("pods")).expect("a folder");
        let number = std::process::id() * 100 + NODES.fetch_add(1, Ordering::Relaxed);
        let node = Self { dir, agent: None, number, endpoint: None, listen: "off" };
        node.configure("");
        Some(node)
    }

    /// Creates a node with an agent.
    pub(crate) fn start() -> Option<Self> {
        let mut node = Self::new()?;
        node.start_agent();
        Some(node)
    }

    /// Creates a node with an agent on a runtime that is already running.
    pub(crate) fn start_on(endpoint: String) -> Option<Self> {
        let mut node = Self::new()?;
        node.on(Some(endpoint));
        node.start_agent();
        Some(node)
    }

    /// Makes its agents use this runtime from now on.
    pub(crate) fn on(&mut self, endpoint: Option<String>) {
        self.endpoint = endpoint;
    }

    /// Makes its agents serve HTTP at this address from now on.
    pub(crate) fn listen_on(&mut self, address: &'static str) {
        self.listen = address;
    }

    /// Sets the configuration from the agent's next start on: a control group for this node, and `more`.
    pub(crate) fn configure(&self, more: &str) {
        let text = format!("kind: KubeletConfiguration\ncgroupRoot: {}\n{more}", self.cgroup_root());
        fs::write(self.path("config.yaml"), text).expect("writable");
    }

    /// Returns the control group that is the parent of its pods' groups.
    pub(crate) fn cgroup_root(&self) -> String {
        format!("/rubelet-test-{}", self.number)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a command of the program, with the options for this node.
    pub(crate) fn command(&self, command: &str) -> Command {
        let mut rubelet = Command::new(env!("CARGO_BIN_EXE_rubelet"));
        rubelet
            .arg(command)
            .arg("--data-dir")
            .arg(self.path("data"))
            .env_remove("CONTAINER_RUNTIME_ENDPOINT")
            .stdin(Stdio::null());
        rubelet
    }

    pub(crate) fn run_command(&self) -> Command {
        let mut run = self.command("run");
        run.arg(self.path("pods")).arg("--pod-logs-dir").arg(self.path("logs")).args([
            "--listen",
            self.listen,
            "--node-name",
            NODE,
        ]);
        if let Some(endpoint) = &self.endpoint {
            run.args(["--runtime-endpoint", endpoint]);
        }
        run.arg("--config").arg(self.path("config.yaml"));
        run
    }

    pub(crate) fn start_agent(&mut self) {
        self.start_agent_with(&[]);
    }

    pub(crate) fn start_agent_with(&mut self, more: &[&str]) {
        self.spawn_agent_with(more);
        self.until("the agent", || self.ps().is_some());
    }

    /// Starts the agent without waiting for it.
    pub(crate) fn spawn_agent(&mut self) {
        self.spawn_agent_with(&[]);
    }

    fn spawn_agent_with(&mut self, more: &[&str]) {
        let out =
            |name: &str| fs::File::options().create(true).append(true).open(self.path(name)).expect("a file");
        let child =
            self.run_command().args(more).stdout(out("out")).stderr(out("err")).spawn().expect("it starts");
        self.agent = Some(child);
    }

    /// Returns the exit code of the agent if it has ended by itself.
    pub(crate) fn agent_ended(&mut self) -> Option<i32> {
        let ended = self.agent.as_mut().and_then(|agent| agent.try_wait().expect("it is ours"));
        ended.map(|status| status.code().unwrap_or(-1))
    }

    /// Ends the agent with a signal, and returns its exit code.
    pub(crate) fn end_agent(&mut self, signal: &str) -> Option<i32> {
        assert_eq!(self.agent_ended(), None, "the agent ended by itself\n{}", self.said());
        let mut agent = self.agent.take().expect("an agent runs");
        signal_to(agent.id(), signal);
        agent.wait().expect("it was ours").code()
    }

    /// Returns the agent's peak memory, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let agent = self.agent.as_ref().expect("an agent runs");
        let status = fs::read_to_string(format!("/proc/{}/status", agent.id())).expect("it lives");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
        peak.and_then(|peak| peak.trim().parse::<u64>().ok()).expect("a peak") >> 10
    }

    /// Returns the agent's messages.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.path("err")).unwrap_or_default()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path("pods").join(name), text).expect("writable");
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path("pods").join(name)).expect("it was there");
    }

    /// Runs a command of the program to its end.
    pub(crate) fn ask(&self, args: &[&str]) -> Output {
        let (command, rest) = args.split_first().expect("a command");
        self.command(command).args(rest).output().expect("it runs")
    }

    /// Returns all pods as the agent reports them.
    pub(crate) fn ps(&self) -> Option<Vec<Value>> {
        let output = self.ask(&["ps", "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).ok()?;
        list["items"].as_array().cloned()
    }

    /// Returns one pod, by the name in its manifest.
    pub(crate) fn pod(&self, name: &str) -> Option<Value> {
        let full = format!("{name}-{NODE}");
        self.ps()?.into_iter().find(|pod| pod["metadata"]["name"] == full)
    }

    /// Waits until a pod satisfies `holds`.
    pub(crate) fn until_pod(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let found = wait::until(PATIENCE, || {
            last = self.pod(name);
            last.clone().filter(|pod| holds(pod))
        });
        found.unwrap_or_else(|| panic!("{name} is not {what}, but {last:#?}\n{}", self.said()))
    }

    pub(crate) fn until_phase(&self, name: &str, phase: &str) -> Value {
        self.until_pod(name, phase, |pod| pod["status"]["phase"] == phase)
    }

    /// Waits until the first container of a pod waits for that reason.
    pub(crate) fn until_waiting(&self, name: &str, reason: &str) -> Value {
        self.until_pod(name, reason, |pod| state(pod)["waiting"]["reason"] == reason)
    }

    pub(crate) fn until_gone(&self, name: &str) {
        self.until(&format!("end of {name}"), || self.ps().is_some() && self.pod(name).is_none());
    }

    pub(crate) fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let happened = wait::until(PATIENCE, || holds().then_some(()));
        assert!(happened.is_some(), "{what} did not happen\n{}", self.said());
    }

    /// A number of seconds that only containers of this node sleep, by which they can be found.
    pub(crate) fn seconds(&self, container: u32) -> String {
        format!("{}{container}", self.number)
    }

    /// Returns the processes that sleep for that time: one for each running container.
    pub(crate) fn sleepers(&self, container: u32) -> Vec<u32> {
        let wanted = format!("sleep\0{}\0", self.seconds(container));
        let entries = fs::read_dir("/proc").expect("proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_one = |pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(wanted.as_bytes()))
        };
        pids.filter(is_one).collect()
    }

    /// Returns the only process that sleeps for that time, once there is one.
    pub(crate) fn sleeper(&self, container: u32) -> u32 {
        let found = wait::until(PATIENCE, || match self.sleepers(container)[..] {
            [pid] => Some(pid),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{:?} sleep\n{}", self.sleepers(container), self.said()))
    }

    /// A pod whose only container sleeps.
    pub(crate) fn sleeping(&self, name: &str, container: u32) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  hostNetwork: true\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n  - name: c\n    image: host\n    \
             imagePullPolicy: IfNotPresent\n    command: [sleep, \"{}\"]\n",
            self.seconds(container)
        )
    }

    /// Ends all pods: a foreign runtime must not be stopped while they run.
    pub(crate) fn end_pods(&self) {
        let (code, out, err) = text(&self.ask(&["stop", "--all", "--grace-period", "0"]));
        assert_eq!(code, Some(0), "{out}{err}");
    }

    /// Returns the control groups of its pods, in every hierarchy.
    pub(crate) fn pod_groups(&self) -> Vec<PathBuf> {
        fn find(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let is_pods = entry.file_name().to_string_lossy().starts_with("pod");
                    if is_pods { found.push(entry.path()) } else { find(&entry.path(), found) }
                }
            }
        }
        let mut found = Vec::new();
        let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        for hierarchy in hierarchies.map(|entry| entry.path()).chain(["/sys/fs/cgroup".into()]) {
            find(&hierarchy.join(self.cgroup_root().trim_start_matches('/')), &mut found);
        }
        found
    }

    /// Checks that nothing is left of any pod.
    pub(crate) fn assert_clean(&self) {
        let entries = |name: &str| {
            let entries = fs::read_dir(self.path(name)).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        for folder in ["data/pods", "data/sandboxes", "data/containers", "logs"] {
            assert_eq!(entries(folder), Vec::<PathBuf>::new(), "{folder}");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        if self.path("data/sandboxes").exists() {
            let _ = self.ask(&["stop", "--all", "--grace-period", "0"]);
        }
        let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        for hierarchy in hierarchies.map(|entry| entry.path()).chain(["/sys/fs/cgroup".into()]) {
            remove_groups(&hierarchy.join(self.cgroup_root().trim_start_matches('/')));
        }
    }
}

/// Removes empty groups.
fn remove_groups(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// The state of the first container of a pod.
pub(crate) fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

pub(crate) fn restarts(pod: &Value) -> i64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(-1)
}

pub(crate) fn signal_to(pid: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill runs");
    assert!(status.success(), "kill {signal} {pid}");
}

pub(crate) fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Copies the files of a folder.
pub(crate) fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}
