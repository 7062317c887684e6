//! Containers that end, and when a PLEG reports it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use pleg::EventKind;
use rubelet_cri::RuntimeClient;
use rubelet_cri::v1::ContainerEventType;
use rubelet_model::ContainerId;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::events::pods::{Node, Pod};
use super::Latencies;

/// The number of containers that come and go at a time, each in a pod of its own.
const AT_A_TIME: usize = 4;
/// Longer than anything that is still to come ever takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends containers, one after another in a few pods of their own.
pub(super) async fn measure(
    node: &Node,
    pleg: &pleg::Handle,
    samples: usize,
    name: &str,
) -> Result<Latencies> {
    let diary = Arc::new(Diary::default());
    let mut readers = JoinSet::new();
    let mut published = node.client().get_container_events().await?;
    let writing = diary.clone();
    readers.spawn(async move {
        while let Some(Ok(event)) = published.next().await {
            let at = Instant::now();
            if event.container_event_type == i32::from(ContainerEventType::ContainerStoppedEvent) {
                writing.write(&event.container_id, |seen| seen.published = Some(at));
            }
        }
    });
    let (writing, mut events) = (diary.clone(), pleg.subscribe());
    readers.spawn(async move {
        while let Some(event) = events.next().await {
            let at = Instant::now();
            if let (EventKind::ContainerDied, Some(subject)) = (event.kind, &event.subject) {
                let ended = event.happened_at.map_or(event.seen_at.0, |ended| ended.0);
                let since_end = Duration::from_nanos(u64::try_from(event.seen_at.0 - ended).unwrap_or(0));
                writing.write(subject.id(), |seen| seen.told = Some((at, since_end)));
            }
        }
    });
    let mut lives = JoinSet::new();
    for place in 0..AT_A_TIME {
        let (client, diary) = (node.client(), diary.clone());
        let pod = node.run_pod(&client, &format!("{name}-{place}")).await?;
        let samples = samples.div_ceil(AT_A_TIME);
        lives.spawn(async move { live_and_die(&client, pod, samples, &diary).await });
    }
    let mut all = Latencies::default();
    while let Some(seen) = lives.join_next().await {
        for (events, whole) in seen?? {
            all.events.push(events);
            all.whole.push(whole);
        }
    }
    Ok(all)
}

/// Runs containers in one pod, one after another.
async fn live_and_die(
    client: &RuntimeClient,
    pod: Pod,
    samples: usize,
    diary: &Diary,
) -> Result<Vec<(Duration, Duration)>> {
    let mut all = Vec::new();
    for number in 0..samples {
        let container = pod.start_sleeper(client, &format!("c{number}")).await?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(100..500))).await;
        client.stop_container(&container, Duration::ZERO).await?;
        let seen = tokio::time::timeout(PATIENCE, diary.wait_for(&container)).await;
        all.push(seen.with_context(|| format!("the end of {container} was never told"))?);
        client.remove_container(&container).await?;
    }
    pod.remove(client).await?;
    Ok(all)
}

/// When the end of a container was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    published: Option<Instant>,
    /// When the PLEG reported it, and how long that was after the end by the runtime's clock.
    told: Option<(Instant, Duration)>,
}

#[derive(Debug, Default)]
struct Diary {
    seen: Mutex<HashMap<String, Seen>>,
    written: Notify,
}

impl Diary {
    fn write(&self, id: &str, note: impl FnOnce(&mut Seen)) {
        note(self.seen.lock().entry(id.to_owned()).or_default());
        self.written.notify_waiters();
    }

    async fn wait_for(&self, container: &ContainerId) -> (Duration, Duration) {
        loop {
            let written = self.written.notified();
            let seen = self.seen.lock().get(container.as_str()).copied();
            if let Some(Seen { published: Some(published), told: Some((told, since_end)) }) = seen {
                // The PLEG may well be the first to learn of it.
                return (told.saturating_duration_since(published), since_end);
            }
            written.await;
        }
    }
}
