//! The PLEG over CRI, on a synthetic runtime.

use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{Call, Config, EventKind, Failure, Handle, Metrics, Pleg, StuckPod, Subscription};
use rubelet_cri::{Options, RuntimeClient};
use rubelet_runtime::synthetic::{ContainerId, Exit, Op, PodSpec, Profile, SyntheticRuntime};

/// Long, since it only matters when something does not happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn observe(endpoint: &str, inspect_timeout: Duration) -> Pleg<CriObserver> {
    let mut options = Options::default();
    options.inspect_timeout = inspect_timeout;
    let endpoint = endpoint.parse().expect("an endpoint");
    let client = RuntimeClient::new(endpoint, options, rubelet_cri::Metrics::default());
    let mut pleg = Pleg::new(CriObserver::new(client), Config::default(), Metrics::default());
    pleg.start();
    pleg
}

/// Reads events until `count` of a kind have come; returns the pods they are of.
async fn hear(events: &mut Subscription, kind: EventKind, count: usize) -> Vec<String> {
    let mut pods = Vec::new();
    let hearing = async {
        while pods.len() < count {
            let event = events.next().await.expect("the pleg runs");
            if event.kind == kind {
                pods.push(event.pod.name.to_string());
            }
        }
    };
    tokio::time::timeout(PATIENCE, hearing).await.unwrap_or_else(|_| panic!("{count} times {kind:?}"));
    pods
}

/// Waits until health shows what is waited for, looking again after every relist.
async fn health_shows(handle: &Handle, what: &str, is_it: impl Fn(&pleg::Health) -> bool) -> pleg::Health {
    let mut relists = handle.relists();
    let waiting = async {
        loop {
            let health = handle.health();
            if is_it(&health) {
                return health;
            }
            relists.changed().await.expect("the pleg runs");
        }
    };
    let health = tokio::time::timeout(PATIENCE, waiting).await;
    health.unwrap_or_else(|_| panic!("{what}: {}", handle.health()))
}

#[tokio::test]
async fn one_pod_of_two_hundred_whose_status_hangs_holds_nobody_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
    let containers: Vec<ContainerId> = runtime.world(|world| {
        (0..200)
            .map(|number| {
                let pod = PodSpec::new("lab", format!("pod-{number:03}")).container("main");
                world.add_pod(pod).containers[0].clone()
            })
            .collect()
    });
    let stuck = &containers[77];
    let fault = runtime.faults().on(Op::ContainerStatus).container(stuck).hang();

    // Short enough that the call is given up and made again several times while the test looks on.
    let pleg = observe(&runtime.endpoint(), Duration::from_millis(700));
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    hear(&mut events, EventKind::ContainerStarted, 199 + 199).await;
    runtime.world(|world| {
        for container in &containers {
            world.exit(container, Exit::code(3));
        }
    });
    let died = hear(&mut events, EventKind::ContainerDied, 199).await;
    assert!(!died.iter().any(|pod| pod == "pod-077"), "nothing has been read of it");

    // Between two tries there is no call to name, so look while one hangs.
    let failed_twice = async {
        loop {
            fault.until_waiting(1).await;
            let health = handle.health();
            // The sandbox is asked for at the same time, and may answer last.
            let hangs =
                |pod: &StuckPod| pod.call.as_ref().is_some_and(|call| call.call == Call::ContainerStatus);
            if health.stuck_pods.iter().any(|pod| pod.failures > 1 && hangs(pod)) {
                return health;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let health = tokio::time::timeout(PATIENCE, failed_twice).await.expect("it is tried again and again");
    assert!(health.healthy, "{health}");
    let [pod] = &health.stuck_pods[..] else { panic!("one pod is stuck: {health}") };
    assert_eq!(&*pod.pod.name, "pod-077");
    let call = pod.call.as_ref().expect("waited for");
    assert_eq!((call.call, call.target.as_deref()), (Call::ContainerStatus, Some(stuck.as_str())));
    assert!(pod.age > call.age, "the pod has been stuck for longer than the last call");
    let error = handle.cache().get(&pod.pod.uid).expect_err("its error can be read");
    assert_eq!(error.failure, Failure::Deadline);

    fault.release();
    let followed = hear(&mut events, EventKind::ContainerDied, 1).await;
    assert_eq!(followed, ["pod-077"]);
    health_shows(&handle, "no longer stuck", |health| health.stuck_pods.is_empty()).await;
    runtime.calls().assert_read_only();
}

#[tokio::test]
async fn no_more_than_four_status_calls_are_made_at_once_for_a_pod() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
    let names = ["a", "b", "c", "d", "e", "f"];
    let spec = names.into_iter().fold(PodSpec::new("lab", "web"), PodSpec::container);
    let uid = runtime.world(|world| world.add_pod(spec)).uid;
    let sandbox = runtime.faults().on(Op::PodSandboxStatus).hang();
    let containers = runtime.faults().on(Op::ContainerStatus).hang();
    let pleg = observe(&runtime.endpoint(), Duration::from_secs(30));
    let mut events = pleg.handle().subscribe();
    sandbox.until_waiting(1).await;
    containers.until_waiting(3).await;
    // Any more would come at once.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(runtime.calls().of(Op::ContainerStatus).in_flight, 3);
    sandbox.release();
    containers.release();
    hear(&mut events, EventKind::ContainerStarted, 1 + names.len()).await;
    let status = pleg.handle().cache().get(&uid).expect("read");
    assert_eq!((status.sandboxes.len(), status.containers.len()), (1, names.len()));
    assert!(!status.ips.is_empty());
}

#[tokio::test]
async fn a_nudge_is_served_by_a_look_at_that_pod_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
    let pod = runtime.world(|world| world.add_pod(PodSpec::new("lab", "web").container("main")));
    let pleg = observe(&runtime.endpoint(), Duration::from_secs(10));
    let handle = pleg.handle();
    let mut events = handle.subscribe();
    hear(&mut events, EventKind::ContainerStarted, 2).await;

    let acted = handle.clock().stamp();
    runtime.world(|world| world.exit(&pod.containers[0], Exit::code(7)));
    handle.nudge(&pod.uid);
    let cache = handle.cache();
    let newer = cache.newer_than(&pod.uid, acted);
    let status = tokio::time::timeout(PATIENCE, newer).await.expect("soon").expect("it runs").expect("read");
    assert_eq!(status.containers[0].exit_code, 7);
}

/// Its containers carry no label that says whose they are, and its sandbox is in neither the list before nor theirs.
#[tokio::test]
async fn a_pod_made_by_hand_between_the_two_lists_is_one_pod_from_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
    let fault = runtime.faults().on(Op::ListContainers).times(1).hang();
    let pleg = observe(&runtime.endpoint(), Duration::from_secs(10));
    let mut events = pleg.handle().subscribe();
    fault.until_waiting(1).await;
    let pod = PodSpec::by_hand("hand").uid("by-metadata").container("main");
    runtime.world(|world| world.add_pod(pod));
    fault.release();
    assert_eq!(hear(&mut events, EventKind::ContainerStarted, 2).await, ["hand", "hand"]);
    assert_eq!(pleg.handle().cache().all().len(), 1, "no pod but this one is made up");
}
