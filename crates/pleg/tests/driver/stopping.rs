//! Stops, starts, and what is left afterwards.

use super::*;

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
    let (mut reach, mut relists, mut periods) = (handle.reach(), handle.relists(), handle.periods());
    drop(pleg);
    assert_eq!(waiter.await.expect("no panic"), Err(pleg::Closed));
    assert_eq!(events.next().await, None);
    let followed = (reach.changed().await, relists.changed().await, periods.changed().await);
    assert!(matches!(followed, (Err(_), Err(_), Err(_))), "{followed:?}");
    assert!(handle.reach().changed().await.is_err(), "nor does who comes later wait for ever");
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

#[cfg(feature = "record")]
#[tokio::test]
async fn dropping_it_ends_its_recording_though_a_handle_is_left() {
    use pleg::record::{Recorder, Recording, Replay};

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recording");
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let mut pleg = Pleg::new(runtime, Config::default(), Metrics::default());
    let recorder = Recorder::to_file(&file, "a test").expect("a new file");
    let mut writing = recorder.trouble();
    assert!(pleg.record(Some(recorder)).is_none());
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    pleg.start();
    next(&mut events).await;
    drop(pleg);

    assert!(writing.changed().await.is_err(), "nothing went wrong, and nobody writes any more");
    let written = std::fs::read(&file).expect("a file");
    let mut replay = Replay::new(Recording::open(&written[..]).expect("a recording"));
    let mut played = 0;
    while replay.next_while(|_| true).expect("it is whole").is_some() {
        played += 1;
    }
    assert_eq!(played, 1);
    drop(handle);
}
