use std::future::Future as _;
use std::task::Poll;
use std::time::Duration;

use super::*;
use crate::observe::{Call, Failure};

fn at(seconds: u64) -> Stamp {
    Stamp::ZERO.plus(Duration::from_secs(seconds))
}

fn pod() -> PodUid {
    "pod".into()
}

fn status(name: &str) -> CachedStatus {
    let mut status = PodStatus::unknown_to_runtime(pod());
    status.pod.name = name.into();
    Ok(Arc::new(status))
}

fn failure() -> CachedStatus {
    Err(ObserveError {
        call: Call::ContainerStatus,
        target: None,
        failure: Failure::Refused,
        message: "no".into(),
    })
}

fn is_newer(cache: &CacheWriter, than: Stamp) -> bool {
    cache.state.lock().get_if_newer(&pod(), than).is_some()
}

/// Polls a waiting future once.
macro_rules! poll {
    ($future:expr) => {
        std::future::poll_fn(|context| Poll::Ready($future.as_mut().poll(context))).await
    };
}

#[test]
fn a_fresh_cache_answers_nobody() {
    let cache = CacheWriter::new(Arc::default());
    assert!(!is_newer(&cache, Stamp::ZERO));
}

/// One entry of the runtime's list stays unreadable for ever, so that no list proves absence.
#[test]
fn what_is_absent_is_remembered_of_so_many_pods_and_no_more() {
    let cache = CacheWriter::new(Arc::default());
    let name = |number: u64| PodUid::from(format!("pod-{number}").as_str());
    let most = MOST_ABSENT as u64;
    for number in 0..most + 100 {
        cache.settle(&name(number), at(number + 1));
        if number % 1_000 == 0 {
            cache.advance(at(number + 1), false);
        }
    }
    assert_eq!(cache.state.lock().absent.len(), MOST_ABSENT);
    let is_known = |number: u64| cache.reader().newer_than_now(&name(number), Stamp::ZERO).is_some();
    assert!(!is_known(99) && is_known(100) && is_known(most + 99), "the last ones");
}

#[test]
fn the_whole_is_told_only_if_nothing_is_missing() {
    let cache = CacheWriter::new(Arc::default());
    let count = || cache.reader().whole().map(|all| all.len());
    cache.store(&pod(), status("a"), at(1));
    assert_eq!(count(), None, "there may be more");
    cache.advance(at(1), true);
    assert_eq!(count(), Some(1));
    cache.hold("other".into());
    assert_eq!(count(), None, "one is there of which nothing is known yet");
    cache.store(&"other".into(), failure(), at(2));
    cache.settle(&"other".into(), at(2));
    assert_eq!(count(), None, "and cannot be inspected");
    cache.store(&"other".into(), status("b"), at(3));
    assert_eq!(count(), Some(2));
    cache.advance(at(4), false);
    assert_eq!(count(), None, "there is something in the list that cannot be read");
    cache.advance(at(5), true);
    assert_eq!(count(), Some(2));
}

#[test]
fn an_entry_is_new_enough_by_its_own_time_or_by_the_global_one() {
    for (global, modified, expected) in [(101, 100, true), (101, 90, true), (99, 103, true), (99, 99, false)]
    {
        let cache = CacheWriter::new(Arc::default());
        cache.store(&pod(), status("a"), at(modified));
        cache.advance(at(global), true);
        assert_eq!(is_newer(&cache, at(100)), expected, "global {global}, modified {modified}");
    }
}

#[test]
fn the_global_time_vouches_for_pods_that_the_runtime_does_not_know() {
    let cache = CacheWriter::new(Arc::default());
    cache.advance(at(100), true);
    assert!(is_newer(&cache, at(99)));
    assert!(!is_newer(&cache, at(101)));
    assert!(!is_newer(&cache, at(100)), "asked at that very moment is not asked after it");
}

#[test]
fn the_global_time_does_not_vouch_for_a_held_pod() {
    let cache = CacheWriter::new(Arc::default());
    cache.store(&pod(), status("a"), at(1));
    cache.hold(pod());
    cache.advance(at(100), true);
    assert!(!is_newer(&cache, at(50)));
    cache.settle(&pod(), at(100));
    assert!(is_newer(&cache, at(50)));
}

#[test]
fn what_is_stored_is_read_back() {
    let cache = CacheWriter::new(Arc::default());
    for stored in [status("a"), failure()] {
        cache.store(&pod(), stored.clone(), at(1));
        assert_eq!(cache.reader().get(&pod()), stored);
    }
}

#[test]
fn an_unknown_and_a_forgotten_pod_have_only_their_id() {
    let cache = CacheWriter::new(Arc::default());
    let unknown = Ok(Arc::new(PodStatus::unknown_to_runtime(pod())));
    assert_eq!(cache.reader().get(&pod()), unknown);
    cache.store(&pod(), status("a"), at(1));
    cache.forget(&pod());
    assert_eq!(cache.reader().get(&pod()), unknown);
}

#[tokio::test]
async fn a_waiter_is_woken_by_exactly_its_moment() {
    let cache = CacheWriter::new(Arc::default());
    let reader = cache.reader();
    let uid = pod();
    let mut waiting = Box::pin(reader.newer_than(&uid, at(11)));
    assert!(poll!(waiting).is_pending());
    cache.store(&pod(), status("a"), at(11));
    assert_eq!(poll!(waiting), Poll::Ready(Ok(status("a"))));
}

/// Every way in which the status of a pod becomes newer, with and without an entry: the waiter blocks, still blocks
/// when the news is too old, is woken by news that is new enough, and need not wait again afterwards.
#[tokio::test]
async fn waiters_are_never_woken_early_and_never_forgotten() {
    type Action = fn(&CacheWriter, Stamp);
    let store: Action = |cache, asked| cache.store(&pod(), status("new"), asked);
    let settle: Action = |cache, asked| cache.settle(&pod(), asked);
    let advance: Action = |cache, asked| cache.advance(asked, true);
    let rows = [
        ("store", true, store),
        ("settle", true, settle),
        ("advance", true, advance),
        ("store", false, store),
        ("settle", false, settle),
        ("advance", false, advance),
    ];
    for (name, has_entry, action) in rows {
        let cache = CacheWriter::new(Arc::default());
        if has_entry {
            cache.store(&pod(), status("old"), at(0));
        }
        let reader = cache.reader();
        let uid = pod();
        let mut waiting = Box::pin(reader.newer_than(&uid, at(10)));
        assert!(poll!(waiting).is_pending(), "{name}");
        action(&cache, at(9));
        assert!(poll!(waiting).is_pending(), "{name}: woken early");
        action(&cache, at(11));
        assert!(poll!(waiting).is_ready(), "{name}: not woken");
        let mut again = Box::pin(reader.newer_than(&uid, at(10)));
        assert!(poll!(again).is_ready(), "{name}: a second call need not wait");
    }
}

#[tokio::test]
async fn a_waiter_on_a_held_pod_is_not_woken_by_the_global_time() {
    let cache = CacheWriter::new(Arc::default());
    let reader = cache.reader();
    let uid = pod();
    cache.hold(pod());
    let mut waiting = Box::pin(reader.newer_than(&uid, at(10)));
    assert!(poll!(waiting).is_pending());
    cache.advance(at(20), true);
    assert!(poll!(waiting).is_pending());
    cache.settle(&pod(), at(20));
    assert!(poll!(waiting).is_ready());
}

#[tokio::test]
async fn giving_up_leaves_nothing_behind_and_disturbs_nobody() {
    let cache = CacheWriter::new(Arc::default());
    let reader = cache.reader();
    let uid = pod();
    let mut patient = Box::pin(reader.newer_than(&uid, at(5)));
    let mut impatient = Box::pin(reader.newer_than(&uid, at(5)));
    assert!(poll!(patient).is_pending());
    assert!(poll!(impatient).is_pending());
    drop(impatient);
    assert_eq!(cache.state.lock().waiters[&pod()].len(), 1);
    cache.advance(at(6), true);
    assert!(poll!(patient).is_ready());
    assert!(cache.state.lock().waiters.is_empty());
}

#[tokio::test]
async fn closing_tells_those_who_wait_and_those_who_come() {
    let cache = CacheWriter::new(Arc::default());
    let reader = cache.reader();
    let uid = pod();
    let mut waiting = Box::pin(reader.newer_than(&uid, at(5)));
    assert!(poll!(waiting).is_pending());
    cache.close();
    assert_eq!(poll!(waiting), Poll::Ready(Err(Closed)));
    assert_eq!(reader.newer_than(&uid, at(5)).await, Err(Closed));
}

#[test]
fn absence_is_remembered_only_until_the_global_time_tells_it() {
    let cache = CacheWriter::new(Arc::default());
    cache.advance(at(1), true);
    cache.settle(&pod(), at(5));
    assert!(is_newer(&cache, at(4)));
    cache.advance(at(6), true);
    assert!(cache.state.lock().absent.is_empty());
    assert!(is_newer(&cache, at(4)));
}

#[test]
fn a_list_that_could_not_be_read_whole_says_nothing_of_what_it_does_not_show() {
    let cache = CacheWriter::new(Arc::default());
    cache.advance(at(1), true);
    cache.advance(at(9), false);
    assert!(!is_newer(&cache, at(5)), "the pod may be the entry that could not be read");
    cache.store(&pod(), status("a"), at(2));
    assert!(is_newer(&cache, at(5)), "what is stored was listed");
}
