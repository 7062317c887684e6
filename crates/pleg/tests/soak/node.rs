//! A played runtime, as a PLEG observes it: every call takes a little while, and the world goes on meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::cri::announcement;
use pleg::{
    Announcement, Announcements, Call, Failure, Listing, Observe, ObserveError, Progress, StreamError,
};
use rubelet_cri::{ListFilter, convert};
use rubelet_model::{
    ContainerStatus, ListedContainer, ListedSandbox, PodStatus, PodUid, RuntimePod, SandboxStatus, UnixNanos,
};
use rubelet_runtime::synthetic::{LocalEvents, LocalRuntime, Profile};
use tonic::{Code, Status};

/// What time a runtime says it is: that of this machine, an hour more or less, or that of a clock that was never set.
pub(crate) fn clock(seed: u64) -> i64 {
    const HOUR: i64 = 3_600_000_000_000;
    const YEAR_2000: i64 = 946_684_800_000_000_000;
    const YEAR_2100: i64 = 4_102_444_800_000_000_000;
    let UnixNanos(now) = pleg::clock::wall_clock();
    [YEAR_2100, now - HOUR, now + HOUR, YEAR_2000][(seed / 5 % 4) as usize]
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) runtime: LocalRuntime,
    delays: Arc<Mutex<fastrand::Rng>>,
    /// The addresses that were told of each pod.
    addresses: Arc<Mutex<BTreeMap<PodUid, BTreeSet<Vec<IpAddr>>>>>,
}

impl Node {
    pub(crate) fn new(profile: Profile, seed: u64, clock: i64) -> Self {
        let runtime = LocalRuntime::new(profile, seed);
        runtime.world(|world| world.set_clock(clock));
        let delays = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Self { runtime, delays, addresses: Arc::default() }
    }

    async fn delay(&self) {
        let milliseconds = {
            let mut random = self.delays.lock();
            [0, 1, random.u64(..30)][random.usize(..3)]
        };
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }

    async fn pods(&self, filter: ListFilter<'_>) -> Result<Listing, ObserveError> {
        self.delay().await;
        let listed = self.runtime.list(filter).map_err(|status| failed(Call::ListContainers, &status))?;
        // An answer takes its time too, and what is announced meanwhile comes before it.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.delay().await;
        let pods = listed.pods.into_iter().map(Arc::new).collect();
        Ok(Listing {
            pods,
            unreadable: listed.unreadable,
            epoch: listed.epoch.expect("both lists are of one moment"),
        })
    }

    fn sandbox(&self, listed: &ListedSandbox) -> Result<Option<SandboxStatus>, ObserveError> {
        let answer = found(Call::PodSandboxStatus, self.runtime.sandbox_status(&listed.id))?;
        Ok(answer.map(|answer| convert::sandbox_status(&listed.id, answer).expect("it is about that")))
    }

    fn container(&self, listed: &ListedContainer) -> Result<Option<ContainerStatus>, ObserveError> {
        let answer = found(Call::ContainerStatus, self.runtime.container_status(&listed.id))?;
        let read = |answer| convert::container_status(&listed.id, &listed.sandbox, answer);
        Ok(answer.map(|answer| read(answer).expect("it is about that")))
    }

    /// What is really there, as an inspection of everything finds it.
    pub(crate) fn truth(&self) -> Vec<PodStatus> {
        let pods = self.runtime.list(ListFilter::All).expect("it is up").pods;
        let inspect = |pod: &RuntimePod| {
            let sandboxes = pod.sandboxes.iter().filter_map(|listed| self.sandbox(listed).ok()?).collect();
            let containers =
                pod.containers.iter().filter_map(|listed| self.container(listed).ok()?).collect();
            status(pod, sandboxes, containers)
        };
        pods.iter().map(inspect).collect()
    }

    /// Whether the addresses of a pod were ever told.
    pub(crate) fn has_told(&self, pod: &PodUid, ips: &[IpAddr]) -> bool {
        self.addresses.lock().get(pod).is_some_and(|told| told.contains(ips))
    }
}

/// With the addresses of the sandbox that is in use.
fn status(pod: &RuntimePod, sandboxes: Vec<SandboxStatus>, containers: Vec<ContainerStatus>) -> PodStatus {
    let mut status = PodStatus { pod: pod.pod.clone(), ips: Vec::new(), sandboxes, containers };
    status.ips = status.active_sandbox().map(|active| active.ips.clone()).unwrap_or_default();
    status
}

fn failed(call: Call, status: &Status) -> ObserveError {
    ObserveError { call, target: None, failure: Failure::Unavailable, message: status.message().into() }
}

/// What is gone has no status.
fn found<T>(call: Call, answer: Result<T, Status>) -> Result<Option<T>, ObserveError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(failed(call, &status)),
    }
}

impl Observe for Node {
    type Announcements = NodeEvents;

    async fn list(&self, _: &Progress) -> Result<Listing, ObserveError> {
        self.pods(ListFilter::All).await
    }

    async fn list_pod(&self, pod: &PodUid, _: &Progress) -> Result<Listing, ObserveError> {
        self.pods(ListFilter::Pod(pod)).await
    }

    async fn inspect(&self, pod: &RuntimePod, _: &Progress) -> Result<PodStatus, ObserveError> {
        let (mut sandboxes, mut containers) = (Vec::new(), Vec::new());
        for listed in &pod.sandboxes {
            self.delay().await;
            sandboxes.extend(self.sandbox(listed)?);
        }
        for listed in &pod.containers {
            self.delay().await;
            containers.extend(self.container(listed)?);
        }
        let status = status(pod, sandboxes, containers);
        self.addresses.lock().entry(pod.pod.uid.clone()).or_default().insert(status.ips.clone());
        Ok(status)
    }

    async fn announcements(&self) -> Result<NodeEvents, StreamError> {
        self.delay().await;
        self.runtime.container_events().map(NodeEvents).map_err(|status| stream_error(&status))
    }
}

pub(crate) struct NodeEvents(LocalEvents);

impl Announcements for NodeEvents {
    async fn next(&mut self) -> Option<Result<Announcement, StreamError>> {
        loop {
            match self.0.next().await? {
                Ok(event) => {
                    if let Some(announcement) = announcement(event) {
                        return Some(Ok(announcement));
                    }
                }
                Err(status) => return Some(Err(stream_error(&status))),
            }
        }
    }
}

fn stream_error(status: &Status) -> StreamError {
    match status.code() {
        Code::Unimplemented => StreamError::Unsupported,
        _ => StreamError::Broken(status.message().into()),
    }
}
