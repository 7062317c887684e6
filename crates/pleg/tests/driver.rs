//! The whole PLEG on paused time, over a runtime that the test holds in its hand.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pleg::{
    Announcement, Announcements, Call, Config, EventKind, Failure, LifeStep, Listing, Metrics, Observe,
    ObserveError, Pleg, PodEvent, Progress, Reach, StreamError, Subscription,
};
use rubelet_model::{
    ContainerState, ContainerStatus, ListedContainer, PodRef, PodStatus, PodUid, RuntimePod, UnixNanos,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// A runtime with one container a pod.
#[derive(Clone, Default)]
struct FakeRuntime(Arc<Inner>);

#[derive(Default)]
struct Inner {
    pods: Mutex<BTreeMap<String, ContainerState>>,
    /// Pods whose inspection hangs while they are named here.
    hung: watch::Sender<BTreeSet<String>>,
    list_hangs: watch::Sender<bool>,
    list_fails: Mutex<bool>,
    panics: Mutex<BTreeSet<String>>,
    /// For whoever asks for announcements first; there are none without it.
    stream: Mutex<Option<mpsc::UnboundedReceiver<Announcement>>>,
    /// Whether whoever asks for announcements panics, the next time.
    stream_panics: Mutex<bool>,
    /// How long an inspection takes.
    inspect_time: Mutex<Duration>,
    lists: AtomicUsize,
    looks: AtomicUsize,
    inspecting: AtomicUsize,
    most_inspecting: AtomicUsize,
    under_way: AtomicUsize,
}

impl FakeRuntime {
    fn set(&self, pod: &str, state: ContainerState) {
        self.0.pods.lock().insert(pod.to_owned(), state);
    }

    fn remove(&self, pod: &str) {
        self.0.pods.lock().remove(pod);
    }

    fn hang(&self, pod: &str) {
        self.0.hung.send_modify(|hung| {
            hung.insert(pod.to_owned());
        });
    }

    fn release(&self, pod: &str) {
        self.0.hung.send_modify(|hung| {
            hung.remove(pod);
        });
    }

    /// Has announcements from now on; returns where to make them.
    fn announces(&self) -> mpsc::UnboundedSender<Announcement> {
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

    async fn list_pod(&self, pod: &PodUid, _progress: &Progress) -> Result<Listing, ObserveError> {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
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
        Ok(PodStatus {
            pod: pod.pod.clone(),
            ips: Vec::new(),
            sandboxes: Vec::new(),
            containers: vec![ContainerStatus {
                id: container.id.clone(),
                name: container.name.clone(),
                sandbox: container.sandbox.clone(),
                attempt: 0,
                state: container.state,
                created_at: UnixNanos(1),
                started_at: UnixNanos(2),
                finished_at: UnixNanos(3),
                exit_code: 42,
                reason: "Error".into(),
                message: "".into(),
                image: "".into(),
                image_ref: "".into(),
                log_path: "".into(),
                hash: None,
                restart_count: 0,
                user: None,
            }],
        })
    }
}

/// The announcement that the container of a pod has ended.
fn stopped_of(pod: &str) -> Announcement {
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

struct FakeStream(mpsc::UnboundedReceiver<Announcement>);

impl Announcements for FakeStream {
    async fn next(&mut self) -> Option<Result<Announcement, StreamError>> {
        self.0.recv().await.map(Ok)
    }
}

fn start(runtime: &FakeRuntime) -> Pleg<FakeRuntime> {
    let mut pleg = Pleg::new(runtime.clone(), Config::default(), Metrics::default());
    pleg.start();
    pleg
}

async fn next(events: &mut Subscription) -> Arc<PodEvent> {
    events.next().await.expect("the pleg runs")
}

#[tokio::test(start_paused = true)]
async fn the_first_list_comes_at_once_and_the_next_one_period_after_its_end() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let pleg = start(&runtime);
    let mut events = pleg.handle().subscribe();
    let started = Instant::now();
    let first = next(&mut events).await;
    assert_eq!((first.kind, &*first.pod.name), (EventKind::ContainerStarted, "a"));
    assert_eq!(started.elapsed(), Duration::ZERO);

    runtime.set("a", ContainerState::Exited);
    let died = next(&mut events).await;
    assert_eq!(died.kind, EventKind::ContainerDied);
    assert_eq!(died.exit.as_ref().map(|exit| exit.code), Some(42));
    let elapsed = started.elapsed();
    assert!(elapsed <= Duration::from_millis(1_001), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn five_hundred_pods_that_change_at_once_are_told_within_two_seconds() {
    let runtime = FakeRuntime::default();
    let names: Vec<String> = (0..500).map(|number| format!("pod-{number:03}")).collect();
    for name in &names {
        runtime.set(name, ContainerState::Running);
    }
    let stream = runtime.announces();
    let pleg = start(&runtime);
    let mut events = pleg.handle().subscribe();
    for _ in 0..500 {
        next(&mut events).await;
    }
    // Lists have become rare.
    tokio::time::sleep(Duration::from_secs(100)).await;
    *runtime.0.inspect_time.lock() = Duration::from_millis(50);
    runtime.0.most_inspecting.store(0, Ordering::Relaxed);
    let lists = runtime.0.lists.load(Ordering::Relaxed);

    let changed = Instant::now();
    for name in &names {
        runtime.set(name, ContainerState::Exited);
        stream.send(stopped_of(name)).expect("it listens");
    }
    for _ in 0..500 {
        assert_eq!(next(&mut events).await.kind, EventKind::ContainerDied);
    }
    let took = changed.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    let most = runtime.0.most_inspecting.load(Ordering::Relaxed);
    assert!(most <= Config::default().inspect_limit, "{most} at a time");
    let lists = runtime.0.lists.load(Ordering::Relaxed) - lists;
    assert!(lists <= 3, "so many pods are listed together, not {lists} times");
}

/// On a quiet node, a stream may end before it has said anything. That does not mean that there is none.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_word_after_a_while_is_opened_again_soon() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let first = runtime.announces();
    let pleg = start(&runtime);
    let mut events = pleg.handle().subscribe();
    next(&mut events).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let second = runtime.announces();
    drop(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(runtime.0.stream.lock().is_none(), "somebody follows the second one");
    // Lists have become rare again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    runtime.set("a", ContainerState::Exited);
    let stopped = Instant::now();
    second.send(stopped_of("a")).expect("it listens");
    assert_eq!(next(&mut events).await.trigger, pleg::Trigger::Event);
    assert_eq!(stopped.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_the_stream_too() {
    let runtime = FakeRuntime::default();
    let stream = runtime.announces();
    let mut pleg = start(&runtime);
    tokio::time::sleep(Duration::from_secs(10)).await;
    pleg.stop().await;
    assert!(stream.is_closed(), "nobody reads it any more");
}

#[tokio::test(start_paused = true)]
async fn one_hung_pod_of_two_hundred_holds_nobody_back_and_is_named() {
    let runtime = FakeRuntime::default();
    let names: Vec<String> = (0..200).map(|number| format!("pod-{number:03}")).collect();
    for name in &names {
        runtime.set(name, ContainerState::Running);
    }
    runtime.hang("pod-077");
    let pleg = start(&runtime);
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    for _ in 0..199 {
        assert_eq!(next(&mut events).await.kind, EventKind::ContainerStarted);
    }

    for round in 0..10 {
        let state = if round % 2 == 0 { ContainerState::Exited } else { ContainerState::Running };
        for name in &names {
            runtime.set(name, state);
        }
        let changed = Instant::now();
        for _ in 0..199 {
            assert_ne!(&*next(&mut events).await.pod.name, "pod-077");
        }
        let took = changed.elapsed();
        assert!(took <= Duration::from_millis(1_001), "within one relist period, not {took:?}");
    }

    tokio::time::sleep(Duration::from_secs(600)).await;
    let health = handle.health();
    assert!(health.healthy, "{health}");
    let [stuck] = &health.stuck_pods[..] else { panic!("one pod is stuck: {health}") };
    assert_eq!(&*stuck.pod.name, "pod-077");
    let call = stuck.call.as_ref().expect("it waits for a call");
    assert_eq!((call.call, call.target.as_deref()), (Call::ContainerStatus, Some("pod-077-c")));
    assert!(call.age >= Duration::from_secs(600) && stuck.age >= Duration::from_secs(600), "{stuck}");

    let waiting = handle.clock().stamp();
    let cache = handle.cache();
    let other = PodUid::from("pod-000");
    tokio::time::timeout(Duration::from_secs(2), cache.newer_than(&other, waiting))
        .await
        .expect("the freshness of the others goes on")
        .expect("the pleg runs")
        .expect("a status");
    let own = PodUid::from("pod-077");
    let newer = tokio::time::timeout(Duration::from_secs(60), cache.newer_than(&own, waiting)).await;
    assert!(newer.is_err(), "nothing has been read of the stuck pod");

    runtime.release("pod-077");
    let followed = next(&mut events).await;
    assert_eq!((&*followed.pod.name, followed.kind), ("pod-077", EventKind::ContainerStarted));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(handle.health().stuck_pods.is_empty());
}

#[tokio::test(start_paused = true)]
async fn five_hundred_changes_at_once_keep_to_the_bound_and_finish_soon() {
    let runtime = FakeRuntime::default();
    let names: Vec<String> = (0..500).map(|number| format!("pod-{number:03}")).collect();
    for name in &names {
        runtime.set(name, ContainerState::Running);
    }
    *runtime.0.inspect_time.lock() = Duration::from_millis(50);
    let pleg = start(&runtime);
    let mut events = pleg.handle().subscribe();
    let started = Instant::now();
    for _ in 0..500 {
        next(&mut events).await;
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(runtime.0.most_inspecting.load(Ordering::Relaxed), 16);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_sleeps_loses_nothing_and_slows_nobody() {
    let runtime = FakeRuntime::default();
    let pleg = start(&runtime);
    let handle = pleg.handle();
    let mut asleep = handle.subscribe();
    let mut awake = handle.subscribe();
    let mut heard = 0;
    for transition in 0..10_000_u32 {
        let pod = format!("pod-{}", transition % 10);
        let uid = PodUid::from(pod.as_str());
        let state = if (transition / 10) % 2 == 0 { ContainerState::Running } else { ContainerState::Exited };
        runtime.set(&pod, state);
        handle.nudge(&uid);
        assert_eq!(&*next(&mut awake).await.pod.name, pod);
        heard += 1;
        assert!(asleep.pending() <= 10 * pleg::PER_POD, "memory is bounded by pods");
    }
    assert_eq!(heard, 10_000);
    let mut merged = BTreeMap::new();
    while let Some(event) = asleep.try_next() {
        *merged.entry(event.pod.name.to_string()).or_insert(0) += event.merged;
    }
    assert_eq!(merged.len(), 10);
    assert!(merged.values().all(|count| *count == 1_000), "{merged:?}");
}

#[tokio::test(start_paused = true)]
async fn a_nudge_is_served_without_waiting_for_the_list() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let pleg = start(&runtime);
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    next(&mut events).await;
    let acted = Instant::now();
    runtime.set("a", ContainerState::Exited);
    let stamp = handle.clock().stamp();
    handle.nudge(&"a".into());
    let status = handle.cache().newer_than(&"a".into(), stamp).await.expect("it runs").expect("a status");
    assert_eq!(status.containers[0].state, ContainerState::Exited);
    assert_eq!(next(&mut events).await.trigger, pleg::Trigger::Nudge);
    assert_eq!(acted.elapsed(), Duration::ZERO);
    assert_eq!(runtime.0.looks.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn who_hears_of_a_change_can_already_read_it() {
    let runtime = FakeRuntime::default();
    let pleg = start(&runtime);
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    for round in 0..20 {
        let state = if round % 2 == 0 { ContainerState::Running } else { ContainerState::Exited };
        runtime.set("a", state);
        let event = next(&mut events).await;
        let status = handle.cache().get(&event.pod.uid).expect("a status");
        assert_eq!(status.containers[0].state, state);
    }
}

#[tokio::test(start_paused = true)]
async fn health_answers_and_names_the_call_while_the_list_hangs() {
    let runtime = FakeRuntime::default();
    let pleg = start(&runtime);
    let handle = pleg.handle();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(handle.health().healthy);
    runtime.0.list_hangs.send_replace(true);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let health = handle.health();
    assert!(!health.healthy);
    let problem = health.to_string();
    assert!(problem.starts_with("pleg was last seen active 5m0"), "{problem}");
    assert!(problem.contains("threshold is 3m0s: list_containers in flight for 4m59"), "{problem}");
    runtime.0.list_hangs.send_replace(false);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(handle.health().healthy, "the next list counts, not the late answer to the old one");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_goes_away_and_comes_back_is_noticed() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let pleg = start(&runtime);
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    let mut reach = handle.reach();
    next(&mut events).await;
    *runtime.0.list_fails.lock() = true;
    let lost = reach.wait_for(|reach| matches!(reach, Reach::Lost { .. })).await.expect("it runs").clone();
    let Reach::Lost { error } = lost else { unreachable!("waited for") };
    assert_eq!(error.failure, Failure::Unavailable);
    runtime.set("a", ContainerState::Exited);
    *runtime.0.list_fails.lock() = false;
    reach.wait_for(|reach| matches!(reach, Reach::Reached { .. })).await.expect("it runs");
    assert_eq!(next(&mut events).await.kind, EventKind::ContainerDied);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_observer_is_an_error_of_that_pod_only() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    runtime.set("b", ContainerState::Running);
    runtime.0.panics.lock().insert("a".to_owned());
    let pleg = start(&runtime);
    let mut events = pleg.handle().subscribe();
    assert_eq!(&*next(&mut events).await.pod.name, "b");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let error = pleg.handle().cache().get(&"a".into()).expect_err("its inspection failed");
    assert_eq!(error.failure, Failure::Panicked);
    assert_eq!(&*next(&mut events).await.pod.name, "a", "and is made again");
}

#[tokio::test(start_paused = true)]
async fn stop_and_start_are_clean() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    runtime.set("hung", ContainerState::Running);
    runtime.hang("hung");
    let mut pleg = start(&runtime);
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    assert_eq!(&*next(&mut events).await.pod.name, "a");

    pleg.stop().await;
    assert_eq!(runtime.0.under_way.load(Ordering::Relaxed), 0, "no call is under way");
    let lists = runtime.0.lists.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(runtime.0.lists.load(Ordering::Relaxed), lists, "and none is made");
    assert!(handle.health().to_string().contains("the pleg is not running"));

    runtime.release("hung");
    runtime.remove("a");
    pleg.start();
    pleg.start();
    let mut heard: Vec<(EventKind, String)> = Vec::new();
    for _ in 0..3 {
        let event = next(&mut events).await;
        heard.push((event.kind, event.pod.name.to_string()));
    }
    heard.sort();
    assert_eq!(
        heard,
        [
            (EventKind::ContainerStarted, "hung".to_owned()),
            (EventKind::ContainerDied, "a".to_owned()),
            (EventKind::ContainerRemoved, "a".to_owned()),
        ]
    );
    assert!(handle.health().healthy);
}

#[tokio::test(start_paused = true)]
async fn dropping_it_ends_every_task_and_tells_everyone() {
    let runtime = FakeRuntime::default();
    runtime.set("hung", ContainerState::Running);
    runtime.hang("hung");
    let pleg = start(&runtime);
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(runtime.0.under_way.load(Ordering::Relaxed), 1);
    let stamp = handle.clock().stamp();
    let waiter = tokio::spawn({
        let cache = handle.cache();
        async move { cache.newer_than(&"hung".into(), stamp).await }
    });
    tokio::task::yield_now().await;
    drop(pleg);
    assert_eq!(waiter.await.expect("no panic"), Err(pleg::Closed));
    assert_eq!(events.next().await, None);
    while runtime.0.under_way.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
    assert!(!handle.health().healthy);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_given_up_and_a_start_leave_one_driver() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let mut pleg = start(&runtime);
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    next(&mut events).await;
    {
        let mut stopping = Box::pin(pleg.stop());
        let waker = std::task::Waker::noop();
        let _ = stopping.as_mut().poll(&mut std::task::Context::from_waker(waker));
    }
    pleg.start();
    runtime.set("a", ContainerState::Exited);
    assert_eq!(next(&mut events).await.kind, EventKind::ContainerDied);
    assert!(handle.health().healthy, "{}", handle.health());
}

/// What is scraped while a list hangs shows that it does.
#[tokio::test(start_paused = true)]
async fn numbers_grow_while_a_call_hangs() {
    let runtime = FakeRuntime::default();
    runtime.0.list_hangs.send_replace(true);
    let mut pleg = Pleg::new(runtime, Config::default(), Metrics::default());
    let mut registry = prometheus_client::registry::Registry::default();
    pleg.handle().register(&mut registry);
    pleg.start();
    let scrape = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("pleg_list_in_flight_seconds "))
            .map(str::to_owned);
        line.expect("it is there").parse::<f64>().expect("a number")
    };
    tokio::time::sleep(Duration::from_secs(10)).await;
    let first = scrape();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(first > 9.0 && scrape() > 19.0, "{first}, then {}", scrape());
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_events_that_panics_is_replaced() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    *runtime.0.stream_panics.lock() = true;
    let _announced = runtime.announces();
    let pleg = start(&runtime);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let facts = pleg.handle().stream_facts();
    assert_eq!(facts.last_end.map(|(_, error)| error.to_string()).as_deref(), Some("its reader panicked"));
    assert_eq!(facts.open_since, None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(pleg.handle().stream_facts().open_since.is_some(), "it is followed again");
}
