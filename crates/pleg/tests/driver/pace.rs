//! When the runtime is asked, how much at once, and how soon subscribers hear.

use std::collections::BTreeMap;

use super::*;

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
async fn a_period_of_nothing_is_no_reason_to_ask_without_a_pause() {
    let runtime = FakeRuntime::default();
    let mut config = Config::default();
    (config.relist_period, config.follow_events) = (Duration::ZERO, false);
    let mut pleg = Pleg::new(runtime.clone(), config, Metrics::default());
    pleg.start();
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(runtime.0.lists.load(Ordering::Relaxed), 11);
}

#[tokio::test(start_paused = true)]
async fn a_period_that_never_ends_leaves_it_to_the_announcements() {
    let runtime = FakeRuntime::default();
    let stream = runtime.announces();
    let mut config = Config::default();
    (config.relist_period, config.longest_period) = (Duration::MAX, Duration::MAX);
    let mut pleg = Pleg::new(runtime.clone(), config, Metrics::default());
    let mut events = pleg.handle().subscribe();
    pleg.start();
    tokio::time::sleep(Duration::from_secs(10)).await;
    runtime.set("a", ContainerState::Exited);
    stream.send(stopped_of("a")).expect("it listens");
    assert_eq!(next(&mut events).await.kind, EventKind::ContainerDied);
}
