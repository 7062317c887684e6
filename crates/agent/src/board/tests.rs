//! Tests the status manager: versions, readers, and sinks that are slow or fail.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus};
use parking_lot::Mutex;
use pleg::Stamp;
use proptest::prelude::*;
use tokio::sync::{Notify, oneshot};

use super::outbox::Slots;
use super::*;
use crate::pod::testkit;

fn pod(uid: &str) -> Arc<Pod> {
    let mut pod = testkit::pod("Never", &[], &["c"]);
    pod.metadata.uid = Some(uid.to_owned());
    Arc::new(pod)
}

fn status(phase: &str) -> ApiStatus {
    ApiStatus { phase: Some(phase.to_owned()), ..ApiStatus::default() }
}

/// An actor, which remembers its last status.
struct Writer {
    board: Board,
    clock: Clock,
    uid: String,
    said: Option<ApiStatus>,
}

impl Writer {
    fn new(board: &Board, clock: &Clock, uid: &str) -> Self {
        Self { board: board.clone(), clock: clock.clone(), uid: uid.to_owned(), said: None }
    }

    fn say(&mut self, status: ApiStatus) -> Arc<PodView> {
        let draft = Draft {
            source: None,
            pod: pod(&self.uid),
            before: self.said.as_ref(),
            status,
            stage: Stage::Syncing,
            events: Vec::new(),
        };
        let view = self.board.publish(draft, &self.clock);
        self.said = Some(view.status.clone());
        view
    }
}

fn with_container(state: ContainerState) -> ApiStatus {
    let container =
        ContainerStatus { name: "c".to_owned(), state: Some(state), ..ContainerStatus::default() };
    ApiStatus { container_statuses: Some(vec![container]), ..status("Running") }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_is_not_told() {
    let (board, clock) = (Board::default(), Clock::start());
    let mut writer = Writer::new(&board, &clock, "1");
    let ended = ContainerState {
        terminated: Some(ContainerStateTerminated { exit_code: 3, ..Default::default() }),
        ..ContainerState::default()
    };
    let first = writer.say(with_container(ended.clone()));
    let back = ContainerState { running: Some(Default::default()), ..ContainerState::default() };
    let second = writer.say(with_container(back));
    assert_eq!(second.status, first.status);
    assert_eq!(second.version, first.version);
}

proptest! {
    #[test]
    fn a_version_grows_with_every_change_and_with_nothing_else(
        said in prop::collection::vec((0_u8..3, 0_u8..4), 1..60)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (board, clock) = (Board::default(), Clock::start());
            let mut writers: Vec<Writer> = (0..3).map(|uid| Writer::new(&board, &clock, &uid.to_string())).collect();
            for (who, what) in said {
                let uid = PodUid::from(who.to_string());
                let before = board.get(&uid);
                let changes = board.changes();
                let version = *changes.borrow();
                let message = Some(what.to_string());
                let view = writers[usize::from(who)].say(ApiStatus { message, ..status("Running") });
                let is_news = before.as_ref().is_none_or(|before| before.status != view.status);
                let old = before.map_or(0, |before| before.version);
                prop_assert_eq!(view.version, old + u64::from(is_news));
                prop_assert_eq!(*changes.borrow(), version + u64::from(is_news));
                prop_assert_eq!(board.get(&uid).unwrap(), view, "a reader sees the newest");
            }
            Ok(())
        })?;
    }

    /// In whatever order puts, deliveries and failures come: versions are delivered in order, never twice unless a
    /// delivery failed, the newest arrives in the end, and there is never more than one slot per pod.
    #[test]
    fn slots_merge_and_lose_nothing(steps in prop::collection::vec((0_u8..3, 0_u8..4, 0_u64..20), 1..200)) {
        let pace = Pace { settle: Duration::from_secs(1), between: Duration::from_secs(10) };
        let mut slots = Slots::default();
        let mut now = 1_u64;
        let at = |seconds: u64| Stamp::from_nanos(seconds * 1_000_000_000);
        let mut newest = [0_u64; 3];
        let mut delivered = [0_u64; 3];
        let mut under_way: Vec<(PodUid, Arc<PodView>)> = Vec::new();
        let view = |uid: &str, version: u64| {
            Arc::new(PodView { pod: pod(uid), source: None, status: status("Running"), version, stage: Stage::Syncing, events: Vec::new() })
        };
        for (step, who, pause) in steps {
            now += pause;
            let pod = usize::from(who % 3);
            match step {
                0 => {
                    newest[pod] += 1;
                    let uid = pod.to_string();
                    slots.put(&uid.as_str().into(), &view(&uid, newest[pod]), at(now));
                }
                1 => {
                    if let Some((uid, view)) = slots.take(pace, at(now)) {
                        prop_assert!(under_way.iter().all(|(other, _)| *other != uid), "two of one pod at once");
                        let pod: usize = uid.as_str().parse().unwrap();
                        prop_assert!(view.version > delivered[pod]);
                        prop_assert_eq!(view.version, newest[pod], "the newest wins");
                        under_way.push((uid, view));
                    }
                }
                _ => if let Some((uid, view)) = under_way.pop() {
                    let pod: usize = uid.as_str().parse().unwrap();
                    if pause % 2 == 0 {
                        delivered[pod] = view.version;
                        slots.delivered(&uid);
                    } else {
                        slots.failed(&uid, &view, at(now));
                    }
                },
            }
            prop_assert!(slots.len() <= 3);
        }
        for (uid, view) in under_way.drain(..) {
            delivered[uid.as_str().parse::<usize>().unwrap()] = view.version;
            slots.delivered(&uid);
        }
        while let Some(due) = slots.next_due(pace) {
            let (uid, view) = slots.take(pace, due.max(at(now))).unwrap();
            delivered[uid.as_str().parse::<usize>().unwrap()] = view.version;
            slots.delivered(&uid);
        }
        prop_assert_eq!(delivered, newest);
    }
}

/// A sink that records what it gets, and waits or fails on request.
#[derive(Clone, Default)]
struct Reader(Arc<ReaderState>);

#[derive(Default)]
struct ReaderState {
    got: Mutex<Vec<(String, u64, Duration)>>,
    begun: Notify,
    gate: Notify,
    is_slow: AtomicBool,
    failures: AtomicUsize,
    since: Mutex<Option<tokio::time::Instant>>,
}

impl Reader {
    fn got(&self) -> Vec<(String, u64, u64)> {
        let got = self.0.got.lock();
        got.iter().map(|(uid, version, at)| (uid.clone(), *version, at.as_secs())).collect()
    }
}

impl StatusSink for Reader {
    type Error = &'static str;

    fn name(&self) -> &'static str {
        "test"
    }

    fn pace(&self) -> Pace {
        Pace { settle: Duration::from_secs(1), between: Duration::from_secs(10) }
    }

    async fn take(&self, uid: &PodUid, view: &PodView) -> Result<(), &'static str> {
        self.0.begun.notify_one();
        if self.0.is_slow.load(Ordering::Relaxed) {
            self.0.gate.notified().await;
        }
        let fails = |left: usize| left.checked_sub(1);
        if self.0.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok() {
            return Err("not now");
        }
        let since = *self.0.since.lock().get_or_insert_with(tokio::time::Instant::now);
        self.0.got.lock().push((uid.to_string(), view.version, since.elapsed()));
        Ok(())
    }
}

struct Scene {
    board: Board,
    clock: Clock,
    reader: Reader,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

fn scene() -> Scene {
    let (board, clock, reader) = (Board::default(), Clock::start(), Reader::default());
    *reader.0.since.lock() = Some(tokio::time::Instant::now());
    let (stop, stopped) = oneshot::channel::<()>();
    let delivery = board.deliver_to(reader.clone(), clock.clone());
    let stopped = async {
        let _ = stopped.await;
    };
    let task = tokio::spawn(delivery.run(stopped, Duration::from_secs(5)));
    Scene { board, clock, reader, stop, task }
}

fn numbered(number: u32) -> ApiStatus {
    ApiStatus { message: Some(number.to_string()), ..status("Running") }
}

#[tokio::test(start_paused = true)]
async fn a_restless_pod_is_written_at_its_pace_and_its_end_at_once() {
    let Scene { board, clock, reader, stop, task } = scene();
    let mut writer = Writer::new(&board, &clock, "1");
    for number in 0..30 {
        writer.say(numbered(number));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let got = reader.got();
    assert!((3..=4).contains(&got.len()), "{got:?}");
    let end = writer.say(status("Failed"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(reader.got().last(), Some(&("1".to_owned(), end.version, 30)));
    drop(stop);
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_sink_holds_up_nobody_and_gets_the_newest() {
    let Scene { board, clock, reader, stop, task } = scene();
    reader.0.is_slow.store(true, Ordering::Relaxed);
    let mut writer = Writer::new(&board, &clock, "1");
    writer.say(numbered(0));
    reader.0.begun.notified().await;
    for number in 1..1000 {
        writer.say(numbered(number));
    }
    assert!(reader.got().is_empty());
    reader.0.is_slow.store(false, Ordering::Relaxed);
    reader.0.gate.notify_one();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let versions: Vec<u64> = reader.got().into_iter().map(|(_, version, _)| version).collect();
    assert_eq!(versions, [1, 1000]);
    drop(stop);
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_is_told_again_later_and_later() {
    let Scene { board, clock, reader, stop, task } = scene();
    reader.0.failures.store(4, Ordering::Relaxed);
    let mut writer = Writer::new(&board, &clock, "1");
    writer.say(status("Failed"));
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert!(reader.got().is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(reader.got(), [("1".to_owned(), 1, 15)], "after 1, 2, 4 and 8 seconds");
    drop(stop);
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_told_at_the_end_and_a_stuck_sink_does_not_keep_us() {
    let Scene { board, clock, reader, stop, task } = scene();
    let mut writer = Writer::new(&board, &clock, "1");
    writer.say(numbered(1));
    drop(stop);
    task.await.unwrap();
    assert_eq!(reader.got(), [("1".to_owned(), 1, 0)]);

    let Scene { board, clock, reader, stop, task } = scene();
    reader.0.is_slow.store(true, Ordering::Relaxed);
    Writer::new(&board, &clock, "1").say(numbered(1));
    drop(stop);
    let begun = tokio::time::Instant::now();
    task.await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_comes_late_is_told_everything_and_of_the_gone_nothing() {
    let (board, clock, reader) = (Board::default(), Clock::start(), Reader::default());
    for uid in ["1", "2", "3"] {
        Writer::new(&board, &clock, uid).say(numbered(1));
    }
    board.remove(&"2".into());
    let delivery = board.deliver_to(reader.clone(), clock.clone());
    board.remove(&"3".into());
    delivery.run(async {}, Duration::from_secs(5)).await;
    let told: Vec<String> = reader.got().into_iter().map(|(uid, ..)| uid).collect();
    assert_eq!(told, ["1"]);
}

#[test]
fn a_pod_that_comes_back_waits_for_what_is_under_way_to_the_one_before() {
    let at = |seconds: u64| Stamp::from_nanos(seconds * 1_000_000_000);
    let view = |version: u64| {
        let (pod, status) = (pod("1"), status("Running"));
        Arc::new(PodView { pod, source: None, status, version, stage: Stage::Syncing, events: Vec::new() })
    };
    let uid = PodUid::from("1");
    for has_failed in [false, true] {
        let mut slots = Slots::default();
        let arrive = |slots: &mut Slots| {
            if has_failed {
                slots.failed(&uid, &view(1), at(2));
            } else {
                slots.delivered(&uid);
            }
        };
        slots.put(&uid, &view(1), at(1));
        assert!(slots.take(Pace::default(), at(1)).is_some());
        slots.remove(&uid);
        arrive(&mut slots);
        assert_eq!(slots.len(), 0, "nobody came back");

        slots.put(&uid, &view(1), at(1));
        assert!(slots.take(Pace::default(), at(1)).is_some());
        slots.remove(&uid);
        // The same version number, but from another life of the pod.
        assert!(slots.put(&uid, &view(1), at(1)));
        assert_eq!(slots.take(Pace::default(), at(100)), None, "never two at once");
        arrive(&mut slots);
        assert!(slots.take(Pace::default(), at(100)).is_some());
    }
}

#[tokio::test]
async fn who_is_gone_is_remembered_until_it_comes_back() {
    let (board, clock) = (Board::default(), Clock::start());
    let (mut one, uid) = (Writer::new(&board, &clock, "1"), PodUid::from("1"));
    board.remove(&uid);
    assert!(!board.is_gone(&uid), "it never was here");
    for _ in 0..2 {
        one.say(numbered(1));
        assert!(!board.is_gone(&uid));
        board.remove(&uid);
        assert!(board.is_gone(&uid));
    }
    for other in 0..REMEMBERED {
        let other = format!("other-{other}");
        Writer::new(&board, &clock, &other).say(numbered(1));
        board.remove(&other.as_str().into());
    }
    assert!(!board.is_gone(&uid), "nobody is remembered for ever");
}
