use std::collections::BTreeMap;

use proptest::prelude::*;
use rubelet_model::{PodRef, UnixNanos};

use super::*;
use crate::event::Trigger;

fn event(seq: u64, pod: &str) -> PodEvent {
    PodEvent {
        seq,
        kind: EventKind::ContainerStarted,
        pod: PodRef::new(pod, "ns", pod),
        subject: None,
        exit: None,
        happened_at: None,
        seen_at: UnixNanos(0),
        trigger: Trigger::Relist,
        merged: 1,
    }
}

#[tokio::test]
async fn a_reader_that_keeps_up_gets_every_event_as_it_was() {
    let feed = Feed::default();
    let mut reader = feed.subscribe();
    for seq in 1..=100 {
        feed.tell(event(seq, "p"));
        assert_eq!(*reader.next().await.expect("the feed is open"), event(seq, "p"));
    }
}

#[test]
fn a_slow_reader_gets_one_pod_sync_in_place_of_what_it_missed() {
    let feed = Feed::default();
    let mut reader = feed.subscribe();
    for seq in 1..=10_000 {
        feed.tell(event(seq, if seq % 100 == 0 { "rare" } else { "busy" }));
        assert!(reader.pending() <= 2 * PER_POD);
    }
    let read: Vec<_> = std::iter::from_fn(|| reader.try_next()).collect();
    let busy: Vec<_> = read.iter().filter(|event| &*event.pod.name == "busy").collect();
    assert_eq!(busy.len(), 1);
    assert_eq!((busy[0].kind, busy[0].merged, busy[0].seq), (EventKind::PodSync, 9_900, 9_999));
    assert_eq!(read.iter().map(|event| event.merged).sum::<u64>(), 10_000);
}

/// Pods come and go for as long as a node lives, and a subscriber may never read.
#[test]
fn a_reader_that_never_reads_does_not_grow_with_the_pods_that_ever_were() {
    let feed = Feed::default();
    let mut reader = feed.subscribe();
    let mut told = 0;
    for pod in 0..2 * MOST_PODS {
        for _ in 0..3 {
            told += 1;
            feed.tell(event(told, &pod.to_string()));
        }
    }
    assert!(reader.pending() <= MOST_PODS + (PER_POD - 1) * MANY_PODS, "{} wait", reader.pending());
    let read: Vec<_> = std::iter::from_fn(|| reader.try_next()).collect();
    assert_eq!(read.iter().map(|event| event.merged).sum::<u64>(), told, "all are counted");
    assert_eq!(read.last().map(|event| &*event.pod.name), Some((2 * MOST_PODS - 1).to_string().as_str()));
}

#[test]
fn one_subscriber_does_not_touch_what_another_reads() {
    let feed = Feed::default();
    let asleep = feed.subscribe();
    let mut awake = feed.subscribe();
    for seq in 1..=1_000 {
        feed.tell(event(seq, "p"));
        assert_eq!(awake.try_next().map(|event| event.seq), Some(seq));
    }
    assert!(asleep.pending() <= PER_POD);
}

#[test]
fn a_dropped_subscriber_is_forgotten() {
    let feed = Feed::default();
    drop(feed.subscribe());
    feed.tell(event(1, "p"));
    assert!(feed.subscribers.lock().mailboxes.is_empty());
}

#[tokio::test]
async fn after_the_end_what_waits_is_still_read() {
    let feed = Feed::default();
    let mut reader = feed.subscribe();
    feed.tell(event(1, "p"));
    feed.close();
    assert_eq!(reader.next().await.map(|event| event.seq), Some(1));
    assert_eq!(reader.next().await, None);
    assert_eq!(feed.subscribe().next().await, None, "who comes late hears of the end too");
}

proptest! {
    /// P8: whatever is sent and whenever it is read, the counts add up for every pod, the numbers only grow, and the
    /// last event read of a pod is the last one sent.
    #[test]
    fn nothing_is_lost(steps in prop::collection::vec((0..4_usize, any::<bool>()), 0..400)) {
        let pods = ["a", "b", "c", "d"];
        let feed = Feed::default();
        let mut reader = feed.subscribe();
        let mut told: BTreeMap<String, u64> = BTreeMap::new();
        let mut read: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut last_seq = 0;
        let mut take = |event: Arc<PodEvent>| {
            let of_pod = read.entry(event.pod.name.to_string()).or_default();
            *of_pod = (of_pod.0 + event.merged, event.seq);
            let grew = event.seq > last_seq;
            last_seq = event.seq;
            grew
        };
        let mut last_of_pod: BTreeMap<String, u64> = BTreeMap::new();
        for (number, (pod, is_read)) in steps.into_iter().enumerate() {
            let seq = number as u64 + 1;
            feed.tell(event(seq, pods[pod]));
            *told.entry(pods[pod].to_owned()).or_default() += 1;
            last_of_pod.insert(pods[pod].to_owned(), seq);
            prop_assert!(reader.pending() <= pods.len() * PER_POD);
            if is_read && let Some(event) = reader.try_next() {
                prop_assert!(take(event));
            }
        }
        while let Some(event) = reader.try_next() {
            prop_assert!(take(event));
        }
        for (pod, count) in told {
            prop_assert_eq!(read[&pod], (count, last_of_pod[&pod]));
        }
    }
}
