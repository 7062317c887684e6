//! A runtime in memory, for tests on paused time: it acts, it can be observed, and it notes whatever the agent does
//! that no runtime would forgive.

mod images;
mod losses;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::{Call, Failure, Listing, NoAnnouncements, Observe, ObserveError, Progress, StreamError};
use rubelet_cri::{labels, v1};
use rubelet_model::{
    ContainerId, ContainerState, ContainerStatus, ListedContainer, ListedSandbox, PodRef, PodStatus, PodUid,
    RuntimePod, SandboxId, SandboxState, SandboxStatus, UnixNanos,
};

use crate::runtime::{CallError, CallFailure, Runtime};

#[derive(Clone, Debug)]
struct Sandbox {
    pod: PodRef,
    status: SandboxStatus,
}

#[derive(Debug, Default)]
struct World {
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    containers: BTreeMap<ContainerId, (PodUid, ContainerStatus)>,
    calls: Vec<String>,
    next: u64,
    absent_images: BTreeSet<String>,
    /// The images that no registry has.
    built_in_images: BTreeSet<String>,
    lets_in: Option<String>,
    fails: BTreeMap<&'static str, CallError>,
    hangs: BTreeSet<&'static str>,
    lost_answers: BTreeSet<&'static str>,
    overtaken: BTreeSet<&'static str>,
    /// How late sandboxes appear; `None` if immediately.
    sandboxes_are_late: Option<Duration>,
    broken_rules: Vec<String>,
    /// How commands end, and how long they take: exit code, output, time.
    exec_answers: BTreeMap<String, (i32, String, Duration)>,
    execs: Vec<(String, String)>,
    memory_used: Option<u64>,
    network_problem: Option<String>,
    addresses: Vec<IpAddr>,
    /// Whether it does not support stop signals.
    lacks_stop_signals: bool,
    stop_signals: BTreeMap<ContainerId, v1::Signal>,
    /// The exit codes of stopped containers, if different from that of SIGTERM.
    stop_codes: BTreeMap<String, i32>,
    /// How long stopped containers take to end, if not zero.
    stop_times: BTreeMap<String, Duration>,
    /// The containers that cannot be stopped.
    unstoppable: BTreeSet<String>,
    annotations: HashMap<ContainerId, HashMap<String, String>>,
    images: Vec<v1::Image>,
    image_folder: Option<PathBuf>,
    sandbox_image: Option<String>,
    stuck_images: BTreeSet<String>,
    pulls_take: Duration,
}

impl World {
    /// Notes if a rule was broken. It does not panic: a lost actor would only be recreated.
    fn hold(&mut self, rule: &str, holds: bool) {
        if !holds {
            self.broken_rules.push(rule.to_owned());
        }
    }

    /// Grows with everything that happens, so it serves as a clock.
    fn tick(&mut self) -> UnixNanos {
        self.next += 1;
        UnixNanos(i64::try_from(self.next).unwrap_or(i64::MAX))
    }
}

/// A runtime in memory. Clones are the same runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeRuntime(Arc<Mutex<World>>);

impl FakeRuntime {
    /// Returns the calls since this was last called, as text.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().calls)
    }

    /// Makes a call fail from now on, or no longer.
    pub(crate) fn fail(&self, call: &'static str, message: Option<&str>) {
        let mut world = self.0.lock();
        match message {
            Some(message) => {
                world.fails.insert(call, refused(message));
            }
            None => {
                world.fails.remove(call);
            }
        }
    }

    /// Makes a call find no runtime from now on, or no longer.
    pub(crate) fn be_away(&self, call: &'static str, is_away: bool) {
        let mut world = self.0.lock();
        if is_away {
            let message = "connection refused".into();
            world.fails.insert(call, CallError { failure: CallFailure::Unavailable, message });
        } else {
            world.fails.remove(call);
        }
    }

    /// Breaks the connection in the middle of a call, from now on or no longer.
    pub(crate) fn hang_up(&self, call: &'static str, hangs_up: bool) {
        let mut world = self.0.lock();
        if hangs_up {
            let message = "the connection broke".into();
            world.fails.insert(call, CallError { failure: CallFailure::Lost, message });
        } else {
            world.fails.remove(call);
        }
    }

    /// Lets a call work but its answer time out, from now on or no longer.
    pub(crate) fn lose_answers(&self, call: &'static str, are_lost: bool) {
        let mut world = self.0.lock();
        if are_lost {
            world.lost_answers.insert(call);
        } else {
            world.lost_answers.remove(call);
        }
    }

    /// Lets requests for a sandbox time out from now on, with the sandbox appearing this much later; or no longer.
    pub(crate) fn sandboxes_are_late(&self, by: Option<Duration>) {
        self.0.lock().sandboxes_are_late = by;
    }

    /// Makes a call fail because someone else does the same just before it, from now on or no longer.
    pub(crate) fn overtake(&self, call: &'static str, is_overtaken: bool) {
        let mut world = self.0.lock();
        if is_overtaken {
            world.overtaken.insert(call);
        } else {
            world.overtaken.remove(call);
        }
    }

    /// Returns what the agent did that it must never do.
    pub(crate) fn broken_rules(&self) -> Vec<String> {
        self.0.lock().broken_rules.clone()
    }

    /// Returns the answer of a call that worked.
    fn answer<T>(&self, name: &'static str, answer: T) -> Result<T, CallError> {
        let world = self.0.lock();
        if world.lost_answers.contains(name) {
            return Err(unanswered());
        }
        if world.overtaken.contains(name) {
            return Err(refused("it is so already"));
        }
        Ok(answer)
    }

    /// Makes a command end like this from now on.
    pub(crate) fn exec_answers(&self, command: &str, code: i32, output: &str) {
        self.exec_takes(command, code, output, Duration::ZERO);
    }

    /// Makes a command take that long from now on, and then end like this.
    pub(crate) fn exec_takes(&self, command: &str, code: i32, output: &str, takes: Duration) {
        self.0.lock().exec_answers.insert(command.to_owned(), (code, output.to_owned(), takes));
    }

    /// Returns the commands that were started since this was last called, each with its container: `name-attempt`.
    pub(crate) fn take_execs(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.0.lock().execs)
    }

    /// Makes every container use this much memory from now on.
    pub(crate) fn uses_memory(&self, bytes: u64) {
        self.0.lock().memory_used = Some(bytes);
    }

    /// Takes the pod network away from now on, or restores it.
    pub(crate) fn network_fails(&self, problem: Option<&str>) {
        self.0.lock().network_problem = problem.map(str::to_owned);
    }

    /// Gives sandboxes these addresses from now on.
    pub(crate) fn gives_addresses(&self, addresses: &[IpAddr]) {
        self.0.lock().addresses = addresses.to_vec();
    }

    /// Makes it a runtime without stop signals.
    pub(crate) fn lack_stop_signals(&self) {
        self.0.lock().lacks_stop_signals = true;
    }

    /// Makes containers of this name end like this when they are stopped, from now on.
    pub(crate) fn ends_with(&self, name: &str, code: i32) {
        self.0.lock().stop_codes.insert(name.to_owned(), code);
    }

    /// Makes containers of this name take that long to end when they are stopped, from now on.
    pub(crate) fn takes_to_stop(&self, name: &str, time: Duration) {
        self.0.lock().stop_times.insert(name.to_owned(), time);
    }

    /// Makes containers of this name impossible to stop from now on.
    pub(crate) fn does_not_stop(&self, name: &str) {
        self.0.lock().unstoppable.insert(name.to_owned());
    }

    /// Makes a call hang from now on.
    pub(crate) fn hang(&self, call: &'static str) {
        self.0.lock().hangs.insert(call);
    }

    /// Ends the process of the newest container of this name, if one is running.
    pub(crate) fn exit(&self, name: &str, code: i32) {
        let mut world = self.0.lock();
        let now = world.tick();
        let newest = world
            .containers
            .values_mut()
            .map(|(_, status)| status)
            .filter(|status| &*status.name == name && status.state == ContainerState::Running)
            .max_by_key(|status| status.attempt);
        let Some(running) = newest else { return };
        running.state = ContainerState::Exited;
        running.exit_code = code;
        running.finished_at = now;
        running.reason = if code == 0 { "Completed".into() } else { "Error".into() };
    }

    /// Returns everything that is running, as `name-attempt`.
    pub(crate) fn running(&self) -> Vec<String> {
        let world = self.0.lock();
        let mut running: Vec<String> = world
            .containers
            .values()
            .filter(|(_, status)| status.state == ContainerState::Running)
            .map(|(_, status)| format!("{}-{}", status.name, status.attempt))
            .collect();
        running.sort();
        running
    }

    /// Returns how many sandboxes and containers it knows, dead or alive.
    pub(crate) fn known(&self) -> (usize, usize) {
        let world = self.0.lock();
        (world.sandboxes.len(), world.containers.len())
    }

    async fn call(&self, name: &'static str, words: String) -> Result<(), CallError> {
        let (fails, hangs) = {
            let mut world = self.0.lock();
            world.calls.push(words);
            (world.fails.get(name).cloned(), world.hangs.contains(name))
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        fails.map_or(Ok(()), Err)
    }

    fn make_sandbox(
        &self,
        metadata: v1::PodSandboxMetadata,
        linux: Option<v1::LinuxPodSandboxConfig>,
    ) -> SandboxId {
        let mut world = self.0.lock();
        let is_ready = |sandbox: &Sandbox| {
            sandbox.status.state == SandboxState::Ready
                && (&*sandbox.pod.namespace, &*sandbox.pod.name) == (&*metadata.namespace, &*metadata.name)
        };
        let has_other = world.sandboxes.values().any(is_ready);
        world.hold("two live sandboxes of one name", !has_other);
        let created_at = world.tick();
        let id = SandboxId::from(format!("sandbox-{}", created_at.0));
        let pod = PodRef::new(metadata.uid, metadata.namespace, metadata.name);
        let namespaces = namespaces(linux);
        let status = SandboxStatus {
            id: id.clone(),
            attempt: metadata.attempt,
            state: SandboxState::Ready,
            created_at,
            ips: Vec::new(),
            has_network: false,
            is_on_host_network: Some(namespaces.network() == v1::NamespaceMode::Node),
            has_own_users: namespaces.userns_options.map(|users| users.mode() == v1::NamespaceMode::Pod),
            runtime_handler: "".into(),
        };
        world.sandboxes.insert(id.clone(), Sandbox { pod, status });
        id
    }

    fn pods(&self) -> Vec<Arc<RuntimePod>> {
        let world = self.0.lock();
        let mut pods: BTreeMap<PodUid, RuntimePod> = BTreeMap::new();
        for sandbox in world.sandboxes.values() {
            let pod =
                pods.entry(sandbox.pod.uid.clone()).or_insert_with(|| RuntimePod::empty(sandbox.pod.clone()));
            let SandboxStatus { id, attempt, state, created_at, .. } = sandbox.status.clone();
            pod.sandboxes.push(ListedSandbox { id, attempt, state, created_at });
        }
        for (uid, status) in world.containers.values() {
            let pod = pods
                .entry(uid.clone())
                .or_insert_with(|| RuntimePod::empty(PodRef::new(uid.clone(), "", "")));
            let ContainerStatus { id, name, sandbox, attempt, state, created_at, .. } = status.clone();
            pod.containers.push(ListedContainer { id, name, sandbox, attempt, state, created_at });
        }
        let sorted = |mut pod: RuntimePod| {
            pod.sort();
            Arc::new(pod)
        };
        pods.into_values().map(sorted).collect()
    }
}

impl Observe for FakeRuntime {
    type Announcements = NoAnnouncements;

    async fn announcements(&self) -> Result<NoAnnouncements, StreamError> {
        Err(StreamError::Unsupported)
    }

    async fn list(&self, _: &Progress) -> Result<Listing, ObserveError> {
        Ok(Listing { pods: self.pods(), unreadable: 0, epoch: 1 })
    }

    async fn list_pod(&self, pod: &PodUid, _: &Progress) -> Result<Listing, ObserveError> {
        let pods = self.pods().into_iter().filter(|known| known.pod.uid == *pod).collect();
        Ok(Listing { pods, unreadable: 0, epoch: 1 })
    }

    async fn inspect(&self, pod: &RuntimePod, _: &Progress) -> Result<PodStatus, ObserveError> {
        let world = self.0.lock();
        if let Some(error) = world.fails.get("inspect") {
            let (call, failure) = (Call::ContainerStatus, Failure::Refused);
            return Err(ObserveError { call, target: None, failure, message: error.message.clone() });
        }
        let sandboxes = pod.sandboxes.iter().filter_map(|listed| world.sandboxes.get(&listed.id));
        let containers = pod.containers.iter().filter_map(|listed| world.containers.get(&listed.id));
        Ok(PodStatus {
            pod: pod.pod.clone(),
            ips: Vec::new(),
            sandboxes: sandboxes.map(|sandbox| sandbox.status.clone()).collect(),
            containers: containers.map(|(_, status)| status.clone()).collect(),
        })
    }
}

impl Runtime for FakeRuntime {
    async fn run_sandbox(&self, config: v1::PodSandboxConfig, _: &str) -> Result<SandboxId, CallError> {
        let metadata = config.metadata.unwrap();
        self.call("run_sandbox", format!("run sandbox {}", metadata.attempt)).await?;
        if let Some(problem) = &self.0.lock().network_problem {
            return Err(refused(&format!("failed to setup network for sandbox: {problem}")));
        }
        let late = self.0.lock().sandboxes_are_late;
        if let Some(late) = late {
            let runtime = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                runtime.make_sandbox(metadata, config.linux);
            });
            return Err(unanswered());
        }
        let id = self.make_sandbox(metadata, config.linux);
        self.answer("run_sandbox", id)
    }

    async fn network_problem(&self) -> Result<Option<String>, CallError> {
        self.call("network_problem", "is there a network?".to_owned()).await?;
        Ok(self.0.lock().network_problem.clone())
    }

    async fn sandbox_ips(&self, _: &SandboxId) -> Result<Vec<IpAddr>, CallError> {
        Ok(self.0.lock().addresses.clone())
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), CallError> {
        self.call("stop_sandbox", "stop sandbox".to_owned()).await?;
        let mut world = self.0.lock();
        let now = world.tick();
        if let Some(sandbox) = world.sandboxes.get_mut(id) {
            sandbox.status.state = SandboxState::NotReady;
        }
        for (_, status) in world.containers.values_mut() {
            if status.sandbox == *id && status.state == ContainerState::Running {
                (status.state, status.exit_code, status.finished_at) = (ContainerState::Exited, 137, now);
            }
        }
        Ok(())
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), CallError> {
        self.call("remove_sandbox", "remove sandbox".to_owned()).await?;
        let mut world = self.0.lock();
        let is_empty = !world.containers.values().any(|(_, status)| status.sandbox == *id);
        world.hold("a sandbox is removed before its containers", is_empty);
        world.sandboxes.remove(id);
        Ok(())
    }

    async fn resize_sandbox(
        &self,
        _: &SandboxId,
        resources: v1::LinuxContainerResources,
        _: Option<v1::LinuxContainerResources>,
    ) -> Result<(), CallError> {
        let v1::LinuxContainerResources { cpu_quota, cpu_shares, memory_limit_in_bytes, .. } = resources;
        let words = format!(
            "resize the pod: memory {memory_limit_in_bytes}, cpu {cpu_shares} shares, quota {cpu_quota}"
        );
        self.call("resize_sandbox", words).await
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<ContainerId, CallError> {
        let stop_signal = config.stop_signal();
        let metadata = config.metadata.unwrap();
        let words = format!("create {}-{}", metadata.name, metadata.attempt);
        self.call("create_container", words).await?;
        let mut world = self.0.lock();
        let Some(home) = world.sandboxes.get(sandbox).cloned() else {
            return Err(refused("no such sandbox"));
        };
        if home.status.state != SandboxState::Ready {
            return Err(refused("the sandbox is not ready"));
        }
        let uid = home.pod.uid;
        let is_live = |(_, status): &(PodUid, ContainerStatus)| {
            status.sandbox == *sandbox
                && *status.name == *metadata.name
                && matches!(status.state, ContainerState::Running | ContainerState::Unknown)
        };
        let has_other = world.containers.values().any(is_live);
        world.hold("two live containers of one name", !has_other);
        let created_at = world.tick();
        let id = ContainerId::from(format!("{}-{}", metadata.name, created_at.0));
        let hash = config.annotations.get(labels::CONTAINER_HASH);
        let status = ContainerStatus {
            id: id.clone(),
            name: metadata.name.into(),
            sandbox: sandbox.clone(),
            attempt: metadata.attempt,
            state: ContainerState::Created,
            created_at,
            started_at: UnixNanos(0),
            finished_at: UnixNanos(0),
            exit_code: 0,
            reason: "".into(),
            message: "".into(),
            image: "image".into(),
            image_ref: "sha256:1".into(),
            log_path: format!("{}/{}", sandbox_config.log_directory, config.log_path).into(),
            hash: hash.and_then(|hash| u64::from_str_radix(hash, 16).ok()),
            restart_count: metadata.attempt,
            user: None,
        };
        world.containers.insert(id.clone(), (uid, status));
        world.annotations.insert(id.clone(), config.annotations);
        if !world.lacks_stop_signals && stop_signal != v1::Signal::RuntimeDefault {
            world.stop_signals.insert(id.clone(), stop_signal);
        }
        drop(world);
        self.answer("create_container", id)
    }

    async fn stop_signal(&self, id: &ContainerId) -> Result<Option<v1::Signal>, CallError> {
        Ok(self.0.lock().stop_signals.get(id).copied())
    }

    async fn is_unstarted(&self, id: &ContainerId) -> Result<bool, CallError> {
        let world = self.0.lock();
        Ok(world.containers.get(id).is_some_and(|(_, status)| status.state == ContainerState::Created))
    }

    async fn annotations(&self, id: &ContainerId) -> Result<HashMap<String, String>, CallError> {
        Ok(self.0.lock().annotations.get(id).cloned().unwrap_or_default())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), CallError> {
        self.call("start_container", "start".to_owned()).await?;
        let mut world = self.0.lock();
        let now = world.tick();
        let ready: BTreeSet<SandboxId> = world
            .sandboxes
            .values()
            .filter(|sandbox| sandbox.status.state == SandboxState::Ready)
            .map(|sandbox| sandbox.status.id.clone())
            .collect();
        let Some((uid, status)) = world.containers.get_mut(id) else {
            return Err(refused("no such container"));
        };
        if status.state != ContainerState::Created || !ready.contains(&status.sandbox) {
            return Err(refused("the container cannot be started"));
        }
        (status.state, status.started_at) = (ContainerState::Running, now);
        let (uid, name) = (uid.clone(), status.name.clone());
        let is_twin = |(of, twin): &&(PodUid, ContainerStatus)| {
            *of == uid && twin.name == name && twin.state == ContainerState::Running
        };
        let running = world.containers.values().filter(is_twin).count();
        world.hold("two running containers of one name", running == 1);
        drop(world);
        self.answer("start_container", ())
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), CallError> {
        let name =
            self.0.lock().containers.get(id).map(|(_, status)| status.name.to_string()).unwrap_or_default();
        self.call("stop_container", format!("stop {name} in {}s", grace.as_secs())).await?;
        if self.0.lock().unstoppable.contains(&name) {
            return Err(refused("it does not end"));
        }
        let takes = self.0.lock().stop_times.get(&name).copied();
        if let Some(takes) = takes {
            tokio::time::sleep(takes).await;
        }
        let mut world = self.0.lock();
        let now = world.tick();
        let code = world.stop_codes.get(&name).copied().unwrap_or(143);
        if let Some((_, status)) = world.containers.get_mut(id)
            && matches!(status.state, ContainerState::Running | ContainerState::Unknown)
        {
            (status.state, status.exit_code, status.finished_at) = (ContainerState::Exited, code, now);
        }
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), CallError> {
        let found = self.0.lock().containers.get(id).cloned();
        let Some((_, status)) = found else { return Ok(()) };
        self.call("remove_container", format!("remove {}-{}", status.name, status.attempt)).await?;
        let mut world = self.0.lock();
        world.hold("a running container is removed", status.state != ContainerState::Running);
        world.containers.remove(id);
        Ok(())
    }

    async fn resize_container(
        &self,
        id: &ContainerId,
        resources: v1::LinuxContainerResources,
    ) -> Result<(), CallError> {
        let name =
            self.0.lock().containers.get(id).map(|(_, status)| status.name.to_string()).unwrap_or_default();
        let v1::LinuxContainerResources { cpu_quota, cpu_shares, memory_limit_in_bytes, .. } = resources;
        let words = match cpu_shares {
            0 => format!("resize {name}: memory {memory_limit_in_bytes}"),
            shares => format!("resize {name}: cpu {shares} shares, quota {cpu_quota}"),
        };
        self.call("resize_container", words).await
    }

    async fn memory_used(&self, _: &ContainerId) -> Result<Option<u64>, CallError> {
        Ok(self.0.lock().memory_used)
    }

    async fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        _: Option<Duration>,
    ) -> Result<v1::ExecSyncResponse, CallError> {
        let command = command.join(" ");
        let (exit_code, output, takes) = {
            let mut world = self.0.lock();
            let container = world.containers.get(id);
            let known = container.map(|(_, status)| format!("{}-{}", status.name, status.attempt));
            world.execs.push((known.unwrap_or_default(), command.clone()));
            world.exec_answers.get(&command).cloned().unwrap_or_default()
        };
        self.call("exec", format!("exec {command}")).await?;
        tokio::time::sleep(takes).await;
        let answer = v1::ExecSyncResponse {
            exit_code,
            stdout: output.into_bytes(),
            ..v1::ExecSyncResponse::default()
        };
        self.answer("exec", answer)
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), CallError> {
        let known = self.0.lock().containers.get(id).map(|(_, status)| status.clone());
        let Some(status) = known else { return Err(refused("no such container")) };
        self.call("reopen_log", format!("reopen the log of {}-{}", status.name, status.attempt)).await?;
        std::fs::File::create_new(&*status.log_path).map(drop).map_err(|error| refused(&error.to_string()))
    }
}

fn namespaces(linux: Option<v1::LinuxPodSandboxConfig>) -> v1::NamespaceOption {
    let context = linux.and_then(|linux| linux.security_context).unwrap_or_default();
    context.namespace_options.unwrap_or_default()
}

fn unanswered() -> CallError {
    CallError { failure: CallFailure::Timeout, message: "no answer in time".into() }
}

fn refused(message: &str) -> CallError {
    CallError { failure: CallFailure::Refused, message: message.into() }
}
