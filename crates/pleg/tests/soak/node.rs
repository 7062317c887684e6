//! A played runtime, as a PLEG observes it: every call takes a little while, and the world goes on meanwhile.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::cri::announcement;
use pleg::{
    Announcement, Announcements, Call, Failure, Listing, Observe, ObserveError, Progress, StreamError,
};
use rubelet_cri::{ListFilter, convert};
use rubelet_model::{
    ContainerStatus, ListedContainer, ListedSandbox, PodStatus, PodUid, RuntimePod, SandboxStatus,
};
use rubelet_runtime::synthetic::{LocalEvents, LocalRuntime, Profile};
use tonic::{Code, Status};

/// 2100-01-01: events are never older than the stream that they come on.
const CLOCK: i64 = 4_102_444_800_000_000_000;

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) runtime: LocalRuntime,
    delays: Arc<Mutex<fastrand::Rng>>,
}

impl Node {
    pub(crate) fn new(profile: Profile, seed: u64) -> Self {
        let runtime = LocalRuntime::new(profile, seed);
        runtime.world(|world| world.set_clock(CLOCK));
        Self { runtime, delays: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))) }
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
        let inspect = |pod: &RuntimePod| PodStatus {
            pod: pod.pod.clone(),
            ips: Vec::new(),
            sandboxes: pod.sandboxes.iter().filter_map(|listed| self.sandbox(listed).ok()?).collect(),
            containers: pod.containers.iter().filter_map(|listed| self.container(listed).ok()?).collect(),
        };
        pods.iter().map(inspect).collect()
    }
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
        Ok(PodStatus { pod: pod.pod.clone(), ips: Vec::new(), sandboxes, containers })
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
