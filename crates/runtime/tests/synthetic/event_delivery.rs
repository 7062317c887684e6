//! How events reach readers, profile by profile: support, replay, stealing, blocking, dropping.

use std::collections::BTreeSet;

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{
    ContainerSpec, Delivery, EventSupport, Loss, Op, Profile, SandboxId, SyntheticRuntime,
};
use tonic::{Code, Streaming};

use crate::client::{Client, Crictl, Running, Served, connect, container_config, serve, serve_as};

type Stream = Streaming<v1::ContainerEventResponse>;

async fn open(client: &mut Client) -> Stream {
    client.get_container_events(v1::GetEventsRequest {}).await.unwrap().into_inner()
}

async fn next(stream: &mut Stream) -> String {
    stream.message().await.unwrap().unwrap().container_id
}

/// Makes containers, of which each is one event; returns their ids.
fn create(runtime: &Running, sandbox: &SandboxId, names: std::ops::Range<usize>) -> Vec<String> {
    runtime.world(|world| names.map(|n| world.create(sandbox, format!("c{n}")).to_string()).collect())
}

fn quiet_pod(runtime: &Running) -> SandboxId {
    runtime.world(|world| world.quietly(|world| world.add_pod("p").sandbox))
}

#[tokio::test]
async fn no_looks_different_from_runtime_to_runtime() {
    let Served { runtime: _runtime, mut client } = serve(Profile::Ctd16).await;
    let error = client.get_container_events(v1::GetEventsRequest {}).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    let Served { runtime: _runtime, mut client } = serve(Profile::CrioOff).await;
    assert_eq!(open(&mut client).await.message().await.unwrap(), None, "a clean end at once");
}

#[tokio::test]
async fn containerd_1_7_replays_everything_and_readers_steal() {
    let Served { runtime, mut client } = serve(Profile::Ctd17).await;
    let sandbox = quiet_pod(&runtime);
    let old = create(&runtime, &sandbox, 0..2);
    let mut one = open(&mut client).await;
    assert_eq!([next(&mut one).await, next(&mut one).await], old[..], "events from before the stream");

    let mut two = open(&mut connect(runtime.socket()).await).await;
    runtime.events().until(|counts| counts.readers == 2).await;
    let made: BTreeSet<String> = create(&runtime, &sandbox, 2..12).into_iter().collect();
    let (mut seen, mut by_one) = (BTreeSet::new(), 0);
    while seen.len() < made.len() {
        tokio::select! {
            id = next(&mut one) => { by_one += 1; assert!(seen.insert(id)); }
            id = next(&mut two) => assert!(seen.insert(id), "nobody sees what another took"),
        }
    }
    assert_eq!(seen, made);
    assert!((1..10).contains(&by_one), "each got a part");
}

#[tokio::test]
async fn containerd_1_7_drops_the_newest_when_nobody_reads() {
    let runtime = SyntheticRuntime::new(Profile::Ctd17)
        .quirks(|quirks| quirks.events = EventSupport::Stream(Delivery::Shared { capacity: 3 }));
    let Served { runtime, mut client } = serve_as(runtime).await;
    let sandbox = quiet_pod(&runtime);
    let made = create(&runtime, &sandbox, 0..5);
    let mut stream = open(&mut client).await;
    for expected in &made[..3] {
        assert_eq!(next(&mut stream).await, *expected);
    }
    let lost = runtime.events().lost();
    assert_eq!(lost.iter().map(|lost| lost.loss).collect::<Vec<_>>(), [Loss::Overflow; 2]);
    assert_eq!(lost[0].container.as_ref().unwrap().as_str(), made[3]);
}

#[tokio::test]
async fn containerd_2_replays_to_the_first_reader_and_then_everyone_gets_everything() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let sandbox = quiet_pod(&runtime);
    let old = create(&runtime, &sandbox, 0..3);
    let mut one = open(&mut client).await;
    let mut two = open(&mut client).await;
    for expected in &old {
        assert_eq!(next(&mut one).await, *expected);
    }
    for expected in create(&runtime, &sandbox, 3..6) {
        assert_eq!(next(&mut one).await, expected);
        assert_eq!(next(&mut two).await, expected);
    }
}

#[tokio::test]
async fn a_dead_stream_eats_what_comes_before_the_next_one_opens() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let sandbox = quiet_pod(&runtime);
    let stream = open(&mut client).await;
    runtime.events().until(|counts| counts.readers == 1).await;
    drop(stream);
    runtime.events().until(|counts| counts.readers == 0).await;
    let made = create(&runtime, &sandbox, 0..2);
    let mut stream = open(&mut client).await;
    assert_eq!(next(&mut stream).await, made[1]);
    assert_eq!(runtime.events().lost()[0].loss, Loss::Swallowed);
    assert_eq!(runtime.events().counts().opened, 2);
}

#[tokio::test]
async fn a_reader_that_stalls_freezes_containerd_2_and_its_end_frees_it() {
    let Served { runtime, client } = serve(Profile::Ctd2).await;
    let sandbox = quiet_pod(&runtime);
    runtime.world(|world| world.add_image("app:1", 1));
    let mut stalled = connect(runtime.socket()).await;
    let stalled = open(&mut stalled).await;
    let mut crictl = Crictl(client);
    let mut n = 0;
    // Whatever fits into buffers on the way fits; sooner or later a call blocks.
    while runtime.events().counts().blocked == 0 {
        n += 1;
        assert!(n < 10_000, "it never blocks");
        let mut config = container_config(&format!("c{n}"), 0);
        config.annotations.insert("large".to_owned(), "x".repeat(20_000));
        tokio::select! {
            result = crictl.create(sandbox.as_str(), config) => { result.unwrap(); }
            () = runtime.events().until(|counts| counts.blocked == 1) => {}
        }
    }
    assert!(n > 100, "not before its buffer of 100 events is full: {n}");
    runtime.events().until(|counts| counts.blocked == 0).await;
    let mut blocked = Crictl(crictl.0.clone());
    let parent = sandbox.to_string();
    let call = tokio::spawn(async move { blocked.create(&parent, container_config("last", 0)).await });
    runtime.events().until(|counts| counts.blocked == 1).await;
    let request = v1::ListContainersRequest::default();
    let listed = crictl.0.list_containers(request).await.unwrap().into_inner().containers.len();
    assert!(listed >= n, "lists still answer");
    assert!(!call.is_finished());
    drop(stalled);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn crio_drops_for_everyone_when_one_reader_stalls() {
    let runtime = SyntheticRuntime::new(Profile::CrioOn)
        .quirks(|quirks| quirks.events = EventSupport::Stream(Delivery::Broadcast { capacity: 5 }));
    let Served { runtime, mut client } = serve_as(runtime).await;
    let sandbox = quiet_pod(&runtime);
    let _stalled = open(&mut client).await;
    let _other = open(&mut connect(runtime.socket()).await).await;
    runtime.events().until(|counts| counts.readers == 2).await;
    let mut n = 0;
    while runtime.events().counts().lost == 0 {
        n += 1;
        assert!(n < 10_000, "it never drops");
        runtime.world(|world| {
            let spec = ContainerSpec::new(format!("c{n}")).annotation("large", "x".repeat(20_000));
            world.create(&sandbox, spec);
        });
        tokio::task::yield_now().await;
    }
    assert_eq!(runtime.events().lost()[0].loss, Loss::Overflow);
    assert_eq!(runtime.events().counts().blocked, 0, "nobody waits on CRI-O");
}

#[tokio::test]
async fn open_streams_are_calls_in_flight_of_their_own_kind() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let stream = open(&mut client).await;
    runtime.calls().until(|calls| calls.of(Op::GetContainerEvents).in_flight == 1).await;
    assert_eq!(runtime.calls().all().in_flight, 0);
    drop(stream);
    runtime.calls().until(|calls| calls.of(Op::GetContainerEvents).in_flight == 0).await;
    runtime.calls().assert_read_only();
}
