//! A runtime that the test holds in its hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pleg::{
    Announcement, Announcements, Call, Failure, LifeStep, Listing, Observe, ObserveError, Progress,
    StreamError,
};
use rubelet_model::{ContainerState, ListedContainer, PodRef, PodStatus, PodUid, RuntimePod, UnixNanos};
use tokio::sync::{mpsc, watch};

/// A runtime with one container a pod.
#[derive(Clone, Default)]
pub(crate) struct FakeRuntime(pub(crate) Arc<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) pods: Mutex<BTreeMap<String, ContainerState>>,
    /// Pods whose inspection hangs while they are named here.
    pub(crate) hung: watch::Sender<BTreeSet<String>>,
    pub(crate) list_hangs: watch::Sender<bool>,
    pub(crate) looks_hang: watch::Sender<bool>,
    pub(crate) list_fails: Mutex<bool>,
    pub(crate) panics: Mutex<BTreeSet<String>>,
    /// For whoever asks for announcements first; there are none without it.
    pub(crate) stream: Mutex<Option<mpsc::UnboundedReceiver<Announcement>>>,
    /// Whether whoever asks for announcements panics, the next time.
    pub(crate) stream_panics: Mutex<bool>,
    /// How long an inspection takes.
    pub(crate) inspect_time: Mutex<Duration>,
    pub(crate) lists: AtomicUsize,
    pub(crate) looks: AtomicUsize,
    pub(crate) inspecting: AtomicUsize,
    pub(crate) most_inspecting: AtomicUsize,
    pub(crate) under_way: AtomicUsize,
}

impl FakeRuntime {
    pub(crate) fn set(&self, pod: &str, state: ContainerState) {
        self.0.pods.lock().insert(pod.to_owned(), state);
    }

    pub(crate) fn remove(&self, pod: &str) {
        self.0.pods.lock().remove(pod);
    }

    pub(crate) fn hang(&self, pod: &str) {
        self.0.hung.send_modify(|hung| {
            hung.insert(pod.to_owned());
        });
    }

    pub(crate) fn release(&self, pod: &str) {
        self.0.hung.send_modify(|hung| {
            hung.remove(pod);
        });
    }

    /// Has announcements from now on; returns where to make them.
    pub(crate) fn announces(&self) -> mpsc::UnboundedSender<Announcement> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.0.stream.lock() = Some(receiver);
        sender
    }

    fn listing(&self, only: Option<&PodUid>) -> Listing {
        let pods = self.0.pods.lock();
        let pods = pods
            .iter()
            .filter(|(name, _)| only.is_none_or(|uid| uid.as_str() == **name))
            .map(|(name, state)| {
                let mut pod = RuntimePod::empty(PodRef::new(name.as_str(), "ns", name.as_str()));
                pod.containers.push(ListedContainer {
                    id: format!("{name}-c").into(),
                    name: "c".into(),
                    sandbox: "s".into(),
                    attempt: 0,
                    state: *state,
                    created_at: UnixNanos(1),
                });
                Arc::new(pod)
            })
            .collect();
        Listing { pods, unreadable: 0, epoch: 1 }
    }
}

/// Counts a call while it is under way, however it ends.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Observe for FakeRuntime {
    type Announcements = FakeStream;

    async fn announcements(&self) -> Result<FakeStream, StreamError> {
        assert!(!std::mem::take(&mut *self.0.stream_panics.lock()), "as the test wants it");
        self.0.stream.lock().take().map(FakeStream).ok_or(StreamError::Unsupported)
    }

    async fn list(&self, progress: &Progress) -> Result<Listing, ObserveError> {
        let _under_way = Counted::new(&self.0.under_way);
        let _calling = progress.calling(Call::ListContainers, None);
        self.0.lists.fetch_add(1, Ordering::Relaxed);
        self.0.list_hangs.subscribe().wait_for(|hangs| !hangs).await.expect("the sender lives here");
        if *self.0.list_fails.lock() {
            return Err(ObserveError {
                call: Call::ListContainers,
                target: None,
                failure: Failure::Unavailable,
                message: "connection refused".into(),
            });
        }
        Ok(self.listing(None))
    }

    async fn list_pod(&self, pod: &PodUid, progress: &Progress) -> Result<Listing, ObserveError> {
        let _calling = progress.calling(Call::ListContainers, None);
        self.0.looks.fetch_add(1, Ordering::Relaxed);
        self.0.looks_hang.subscribe().wait_for(|hangs| !hangs).await.expect("the sender lives here");
        Ok(self.listing(Some(pod)))
    }

    async fn inspect(&self, pod: &RuntimePod, progress: &Progress) -> Result<PodStatus, ObserveError> {
        let name = pod.pod.name.to_string();
        let _under_way = Counted::new(&self.0.under_way);
        let _inspecting = Counted::new(&self.0.inspecting);
        self.0.most_inspecting.fetch_max(self.0.inspecting.load(Ordering::Relaxed), Ordering::Relaxed);
        let container = &pod.containers[0];
        let _calling = progress.calling(Call::ContainerStatus, Some(container.id.as_str()));
        assert!(!self.0.panics.lock().remove(&name), "as the test wants it");
        let time = *self.0.inspect_time.lock();
        tokio::time::sleep(time).await;
        self.0.hung.subscribe().wait_for(|hung| !hung.contains(&name)).await.expect("the sender lives here");
        let mut status = PodStatus::from(pod);
        for container in &mut status.containers {
            (container.started_at, container.finished_at) = (UnixNanos(2), UnixNanos(3));
            (container.exit_code, container.reason) = (42, "Error".into());
        }
        Ok(status)
    }
}

/// The announcement that the container of a pod has ended.
pub(crate) fn stopped_of(pod: &str) -> Announcement {
    Announcement {
        id: format!("{pod}-c").into(),
        step: LifeStep::Stopped,
        pod: Some(PodRef::new(pod, "ns", pod)),
        subject: None,
        exit: None,
        exited_at: None,
        announced_at: None,
    }
}

pub(crate) struct FakeStream(mpsc::UnboundedReceiver<Announcement>);

impl Announcements for FakeStream {
    async fn next(&mut self) -> Option<Result<Announcement, StreamError>> {
        self.0.recv().await.map(Ok)
    }
}
