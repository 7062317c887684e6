//! Faults of events, counted.

use std::collections::HashMap;
use std::time::Duration;

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{
    Corruption, EventFaults, Handle, Loss, Op, Profile, SandboxId, SyntheticRuntime,
};
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};

use crate::client::{Served, serve, serve_as};

type Stream = Streaming<v1::ContainerEventResponse>;

async fn opened(profile: Profile) -> (Served, Stream, SandboxId) {
    let mut served = serve(profile).await;
    let sandbox = served.runtime.world(|world| world.quietly(|world| world.add_pod("p").sandbox));
    let stream = served.client.get_container_events(v1::GetEventsRequest {}).await.unwrap().into_inner();
    (served, stream, sandbox)
}

fn create(runtime: &Handle, sandbox: &SandboxId, n: usize) -> String {
    runtime.world(|world| world.create(sandbox, format!("c{n}")).to_string())
}

#[tokio::test]
async fn what_is_dropped_and_doubled_is_counted_and_repeatable() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (Served { runtime, .. }, mut stream, sandbox) = opened(Profile::Ctd2).await;
        runtime.events().tamper(EventFaults { drop: 0.3, double: 0.2, ..EventFaults::default() });
        let mut made = Vec::new();
        let mut seen: HashMap<String, u64> = HashMap::new();
        for n in 0..200 {
            made.push(create(&runtime, &sandbox, n));
            let counts = runtime.events().counts();
            let due = counts.made - counts.lost + counts.doubled;
            while seen.values().sum::<u64>() < due {
                *seen.entry(stream.message().await.unwrap().unwrap().container_id).or_default() += 1;
            }
        }
        let counts = runtime.events().counts();
        let dropped: Vec<_> =
            runtime.events().lost().into_iter().map(|lost| lost.container.unwrap().to_string()).collect();
        assert!(runtime.events().lost().iter().all(|lost| lost.loss == Loss::Dropped));
        assert!((40..80).contains(&dropped.len()), "{}", dropped.len());
        assert_eq!(counts.made, 200);
        assert_eq!(seen.values().filter(|&&times| times == 2).count() as u64, counts.doubled);
        for id in &made {
            assert_eq!(seen.contains_key(id), !dropped.contains(id));
        }
        runs.push(dropped);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn events_can_be_late_and_out_of_order() {
    let (Served { runtime, .. }, mut stream, sandbox) = opened(Profile::Ctd2).await;
    let hour = Duration::from_secs(3600);
    runtime.events().tamper(EventFaults { delay: 1.0, delay_by: (hour, hour), ..EventFaults::default() });
    let late = create(&runtime, &sandbox, 0);
    runtime.events().tamper(EventFaults { reorder: 1.0, ..EventFaults::default() });
    let first = create(&runtime, &sandbox, 1);
    let second = create(&runtime, &sandbox, 2);
    let start = Instant::now();
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(stream.message().await.unwrap().unwrap().container_id);
    }
    assert_eq!(order, [second, first, late]);
    assert_eq!(start.elapsed().as_secs(), 3600);
    let counts = runtime.events().counts();
    assert_eq!((counts.delayed, counts.reordered), (1, 1));

    let alone = create(&runtime, &sandbox, 3);
    let event = stream.message().await.unwrap().unwrap();
    assert_eq!(event.container_id, alone, "what waits for a next one does not wait for ever");
}

#[tokio::test]
async fn a_stream_may_fall_silent_or_end() {
    let (Served { runtime, mut client }, mut stream, sandbox) = opened(Profile::Ctd2).await;
    runtime.events().silence();
    create(&runtime, &sandbox, 0);
    runtime.events().speak();
    let heard = create(&runtime, &sandbox, 1);
    assert_eq!(stream.message().await.unwrap().unwrap().container_id, heard);
    assert_eq!(runtime.events().lost()[0].loss, Loss::Silenced);

    runtime.events().end_streams(None);
    assert_eq!(stream.message().await.unwrap(), None);
    let mut stream = client.get_container_events(v1::GetEventsRequest {}).await.unwrap().into_inner();
    runtime.events().until(|counts| counts.readers == 1).await;
    runtime.events().end_streams(Some(Status::unavailable("going away")));
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Unavailable);

    // A stream that the runtime itself ended eats nothing afterwards.
    runtime.events().until(|counts| counts.readers == 0).await;
    let kept = create(&runtime, &sandbox, 2);
    let mut stream = client.get_container_events(v1::GetEventsRequest {}).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().container_id, kept);
}

#[tokio::test]
async fn the_call_itself_can_fail_or_hang_and_single_events_can_be_spoiled() {
    let Served { runtime, mut client } = serve_as(SyntheticRuntime::new(Profile::Ctd2).seed(9)).await;
    runtime.faults().on(Op::GetContainerEvents).times(1).error(Code::Unavailable, "not yet");
    client.get_container_events(v1::GetEventsRequest {}).await.unwrap_err();
    let mut stream = client.get_container_events(v1::GetEventsRequest {}).await.unwrap().into_inner();
    let faults = runtime.faults();
    let pod = runtime.world(|world| world.quietly(|world| world.add_pod("p")));
    faults.on(Op::GetContainerEvents).pod(&pod.uid).times(1).omit();
    faults.on(Op::GetContainerEvents).pod(&pod.uid).times(1).corrupt(Corruption::NoMetadata);
    create(&runtime, &pod.sandbox, 0);
    let nameless = create(&runtime, &pod.sandbox, 1);
    let plain = create(&runtime, &pod.sandbox, 2);
    let event = stream.message().await.unwrap().unwrap();
    assert_eq!((&event.container_id, event.pod_sandbox_status), (&nameless, None));
    let event = stream.message().await.unwrap().unwrap();
    assert_eq!(event.container_id, plain);
    assert!(event.pod_sandbox_status.is_some());
}
