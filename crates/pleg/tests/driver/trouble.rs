//! Calls that hang, fail or panic, and what is said of it.

use pleg::Call;
use rubelet_model::PodRef;

use super::*;

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

/// The number of this name in what is scraped now.
fn scraped(registry: &prometheus_client::registry::Registry, name: &str) -> f64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.expect("it is there").parse().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn numbers_grow_while_a_list_hangs() {
    let runtime = FakeRuntime::default();
    runtime.0.list_hangs.send_replace(true);
    let mut pleg = Pleg::new(runtime, Config::default(), Metrics::default());
    let mut registry = prometheus_client::registry::Registry::default();
    pleg.handle().register(&mut registry);
    pleg.start();
    for least in [9.0, 19.0] {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let age = scraped(&registry, "pleg_list_in_flight_seconds");
        assert!(age > least, "{age}");
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_grow_while_a_look_hangs_and_it_is_reported() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let mut config = Config::default();
    config.relist_period = Duration::from_secs(60);
    let mut pleg = Pleg::new(runtime.clone(), config, Metrics::default());
    let mut registry = prometheus_client::registry::Registry::default();
    let handle = pleg.handle();
    handle.register(&mut registry);
    let mut events = handle.subscribe();
    pleg.start();
    assert_eq!(next(&mut events).await.kind, EventKind::ContainerStarted);
    runtime.0.looks_hang.send_replace(true);
    handle.nudge(&"a".into());
    for least in [9.0, 19.0] {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let age = scraped(&registry, "pleg_look_in_flight_seconds");
        assert!(age > least, "{age}");
    }
    let calls = handle.report().calls;
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((&*call.stage, &call.pod), ("look", &Some(PodRef::new("a", "ns", "a"))));
    runtime.0.looks_hang.send_replace(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scraped(&registry, "pleg_look_in_flight_seconds"), 0.0);
    assert!(handle.health().last_look.is_some_and(|age| age > Duration::from_secs(20)));
}
