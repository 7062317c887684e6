//! How soon the end of a container is noticed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use pleg::cri::CriObserver;
use pleg::{Config, EventKind, Metrics, Pleg};
use rubelet_cri::v1::ContainerEventType;
use rubelet_cri::{EventStream, RuntimeClient};
use rubelet_model::ContainerId;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::sample::quantile;
use super::super::verdict::Verdict;
use super::pods::{Node, Pod};

pub(super) const LEGEND: &str = "\
Containers are killed; until a subscriber of a PLEG hears of it, with exit code, read from the runtime after the event.
Milliseconds, median (p99, most).
- events: after the runtime published the end, on a PLEG that follows the event stream. Published is when a second,
  bare reader of the stream got it in the same process; what is before that is the runtime's own time
- whole: the same, after the container ended by the runtime's clock
- relist: after it was published, on a PLEG that lists once a second, at the same time
containerd 1.6 publishes nothing: there a PLEG can only list.";

/// The number of containers that come and go at a time, each in a pod of its own.
const AT_A_TIME: usize = 4;
/// The second between two lists, and the duration of the lists and an inspection, in milliseconds.
const ONE_RELIST: f64 = 1_100.0;
/// Longer than anything that is still to come ever takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(node: &Node, samples: usize) -> Result<Row> {
    let diary = Arc::new(Diary::new(Seen::is_by_all));
    let mut readers = JoinSet::new();
    readers.spawn(diary.clone().follow_stream(node.client().get_container_events().await?));
    let mut listening = Listening::start(node, true);
    let mut listing = Listening::start(node, false);
    listening.ready().await?;
    listing.ready().await?;
    readers.spawn(diary.clone().follow(listening.handle(), |seen, at, since_end| {
        (seen.by_event, seen.since_end) = (Some(at), since_end);
    }));
    readers.spawn(diary.clone().follow(listing.handle(), |seen, at, _| seen.by_list = Some(at)));
    live(node, samples, &diary).await
}

/// Measures on a runtime that publishes nothing, with a PLEG as in `rubelet watch`, which finds that out by itself.
pub(super) async fn measure_unpublished(node: &Node, samples: usize) -> Result<Row> {
    let diary = Arc::new(Diary::new(|seen| seen.by_list.is_some()));
    let mut listening = Listening::start(node, true);
    listening.ready().await?;
    let mut readers = JoinSet::new();
    readers.spawn(diary.clone().follow(listening.handle(), |seen, at, since_end| {
        (seen.by_list, seen.since_end) = (Some(at), since_end);
    }));
    live(node, samples, &diary).await
}

async fn live(node: &Node, samples: usize, diary: &Arc<Diary>) -> Result<Row> {
    let mut lives = JoinSet::new();
    for place in 0..AT_A_TIME {
        let (client, diary) = (node.client(), diary.clone());
        let pod = node.run_pod(&client, &format!("latency-{place}")).await?;
        let samples = samples.div_ceil(AT_A_TIME);
        lives.spawn(async move { live_and_die(&client, pod, samples, &diary).await });
    }
    let mut row = Row { node: node.name, ..Row::default() };
    while let Some(seen) = lives.join_next().await {
        for seen in seen?? {
            row.add(&seen);
        }
    }
    Ok(row)
}

/// Runs containers in one pod, one after another.
async fn live_and_die(client: &RuntimeClient, pod: Pod, samples: usize, diary: &Diary) -> Result<Vec<Seen>> {
    let mut all = Vec::new();
    for number in 0..samples {
        let container = pod.start_sleeper(client, &format!("c{number}")).await?;
        // A random pause, so as not to be in step with the lists.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(100..1_100))).await;
        client.stop_container(&container, Duration::ZERO).await?;
        let seen = tokio::time::timeout(PATIENCE, diary.wait_for(&container)).await;
        all.push(seen.with_context(|| format!("the end of {container} was never told"))?);
        client.remove_container(&container).await?;
    }
    pod.remove(client).await?;
    Ok(all)
}

/// A PLEG, and a reader of its events.
struct Listening {
    pleg: Pleg<CriObserver>,
}

impl Listening {
    fn start(node: &Node, follow_events: bool) -> Self {
        let mut config = Config::default();
        config.follow_events = follow_events;
        let mut pleg = Pleg::new(CriObserver::new(node.client()), config, Metrics::default());
        pleg.start();
        Self { pleg }
    }

    async fn ready(&mut self) -> Result<()> {
        self.pleg.handle().relists().wait_for(Option::is_some).await?;
        Ok(())
    }

    fn handle(&self) -> pleg::Handle {
        self.pleg.handle()
    }
}

/// When the end of a container was seen, by each observer.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    published: Option<Instant>,
    by_event: Option<Instant>,
    by_list: Option<Instant>,
    /// The time from the end, by the runtime's clock, until the PLEG with events reported it.
    since_end: Duration,
}

impl Seen {
    fn is_by_all(&self) -> bool {
        self.published.is_some() && self.by_event.is_some() && self.by_list.is_some()
    }
}

/// What has been seen so far.
#[derive(Debug)]
struct Diary {
    seen: Mutex<HashMap<String, Seen>>,
    written: Notify,
    /// Whether everybody who will ever see an end has seen it.
    is_whole: fn(&Seen) -> bool,
}

impl Diary {
    fn new(is_whole: fn(&Seen) -> bool) -> Self {
        Self { seen: Mutex::default(), written: Notify::new(), is_whole }
    }

    fn write(&self, id: &str, note: impl FnOnce(&mut Seen)) {
        note(self.seen.lock().entry(id.to_owned()).or_default());
        self.written.notify_waiters();
    }

    async fn follow_stream(self: Arc<Self>, mut events: EventStream) {
        while let Some(Ok(event)) = events.next().await {
            let at = Instant::now();
            if event.container_event_type == i32::from(ContainerEventType::ContainerStoppedEvent) {
                self.write(&event.container_id, |seen| seen.published = Some(at));
            }
        }
    }

    async fn follow(self: Arc<Self>, handle: pleg::Handle, note: fn(&mut Seen, Instant, Duration)) {
        let mut events = handle.subscribe();
        while let Some(event) = events.next().await {
            let at = Instant::now();
            if let (EventKind::ContainerDied, Some(subject)) = (event.kind, &event.subject) {
                let ended = event.happened_at.map_or(event.seen_at.0, |ended| ended.0);
                let since_end = Duration::from_nanos(u64::try_from(event.seen_at.0 - ended).unwrap_or(0));
                self.write(subject.id(), |seen| note(seen, at, since_end));
            }
        }
    }

    async fn wait_for(&self, container: &ContainerId) -> Seen {
        loop {
            let written = self.written.notified();
            let seen = self.seen.lock().get(container.as_str()).copied();
            if let Some(seen) = seen.filter(self.is_whole) {
                return seen;
            }
            written.await;
        }
    }
}

/// The measurements on one runtime.
#[derive(Debug, Default)]
pub(super) struct Row {
    node: &'static str,
    events: Vec<Duration>,
    whole: Vec<Duration>,
    relist: Vec<Duration>,
}

impl Row {
    pub(super) const HEAD: &'static str =
        "runtime        ends                    events                     whole                    relist";

    fn add(&mut self, seen: &Seen) {
        self.whole.push(seen.since_end);
        if let Seen { published: Some(published), by_event: Some(event), by_list: Some(list), .. } = seen {
            // The PLEG may well be the first to learn of it.
            self.events.push(event.saturating_duration_since(*published));
            self.relist.push(list.saturating_duration_since(*published));
        }
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        if self.events.is_empty() {
            let what = format!("{}: end to event without events, most, in ms", self.node);
            return vec![Verdict::at_most(&what, milliseconds(&self.whole, 1.0), ONE_RELIST)];
        }
        let what =
            |share: &str| format!("{}: end to event after it was published, {share}, in ms", self.node);
        vec![
            Verdict::at_most(&what("median"), milliseconds(&self.events, 0.5), 10.0),
            Verdict::at_most(&what("p99"), milliseconds(&self.events, 0.99), 50.0),
        ]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = |times: &[Duration]| {
            if times.is_empty() {
                return "–".to_owned();
            }
            let [median, p99, most] = [0.5, 0.99, 1.0].map(|share| milliseconds(times, share));
            format!("{median:8.2} ({p99:7.2},{most:7.2})")
        };
        let Self { node, events, whole, relist } = self;
        let ends = whole.len();
        write!(f, "{node:<14} {ends:4} {:>25} {:>25} {:>25}", column(events), column(whole), column(relist))
    }
}

fn milliseconds(times: &[Duration], share: f64) -> f64 {
    quantile(times.iter().copied(), share).as_secs_f64() * 1e3
}
