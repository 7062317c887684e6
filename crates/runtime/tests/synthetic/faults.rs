//! Faults of calls.

use std::time::Duration;

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{NewPod, Op, PodSpec, Profile};
use tokio::time::Instant;
use tonic::Code;

use crate::client::{Client, Served, serve};

async fn status(client: &mut Client, id: &str) -> Result<v1::ContainerStatus, tonic::Status> {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    client.container_status(request).await.map(|answer| answer.into_inner().status.unwrap())
}

async fn two_pods() -> (Served, NewPod, NewPod) {
    let served = serve(Profile::Ctd2).await;
    let (one, two) = served.runtime.world(|world| {
        (
            world.add_pod(PodSpec::from("one").container("c")),
            world.add_pod(PodSpec::from("two").container("c")),
        )
    });
    (served, one, two)
}

#[tokio::test]
async fn one_container_hangs_until_released_and_others_do_not() {
    let (Served { runtime, client }, one, two) = two_pods().await;
    let stuck = runtime.faults().on(Op::ContainerStatus).container(&one.containers[0]).hang();
    let mut hanging = client.clone();
    let id = one.containers[0].clone();
    let hanging = tokio::spawn(async move { status(&mut hanging, id.as_str()).await });
    stuck.until_waiting(1).await;
    let mut client = client;
    status(&mut client, two.containers[0].as_str()).await.unwrap();
    assert!(!hanging.is_finished());
    let pending = runtime.calls().pending();
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].target.container.as_ref(), Some(&one.containers[0]));
    assert_eq!(pending[0].target.pod.as_ref(), Some(&one.uid));

    stuck.release();
    assert_eq!(hanging.await.unwrap().unwrap().id, one.containers[0].as_str());
    assert_eq!((stuck.hits(), stuck.waiting()), (1, 0));
    status(&mut client, one.containers[0].as_str()).await.unwrap();
}

#[tokio::test]
async fn a_caller_who_gives_up_no_longer_waits() {
    let (Served { runtime, mut client }, one, _) = two_pods().await;
    let stuck = runtime.faults().on(Op::ContainerStatus).pod(&one.uid).hang();
    {
        let call = status(&mut client, one.containers[0].as_str());
        tokio::select! {
            biased;
            _ = call => panic!("it must hang"),
            () = stuck.until_waiting(1) => {}
        }
    }
    runtime.calls().until(|calls| calls.all().in_flight == 0).await;
    assert_eq!(stuck.waiting(), 0);
    assert_eq!(runtime.calls().of(Op::ContainerStatus).abandoned, 1);
}

#[tokio::test(start_paused = true)]
async fn delays_are_in_tokio_time_and_add_up() {
    let (Served { runtime, mut client }, one, two) = two_pods().await;
    runtime.faults().on(Op::ContainerStatus).pod(&one.uid).delay(Duration::from_secs(3600));
    runtime.faults().on_any().delay(Duration::from_secs(60));
    let start = Instant::now();
    status(&mut client, two.containers[0].as_str()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 60);
    let start = Instant::now();
    status(&mut client, one.containers[0].as_str()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 3660);
    assert_eq!(runtime.calls().of(Op::ContainerStatus).longest.as_secs(), 3660);
}

#[tokio::test]
async fn errors_come_as_often_as_told() {
    let (Served { runtime, mut client }, one, _) = two_pods().await;
    let id = one.containers[0].as_str();
    let fault = runtime.faults().on(Op::ContainerStatus).skip(1).times(2).error(Code::Unavailable, "down");
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(status(&mut client, id).await.map_or_else(|error| error.code(), |_| Code::Ok));
    }
    assert_eq!(codes, [Code::Ok, Code::Unavailable, Code::Unavailable, Code::Ok]);
    assert_eq!(fault.hits(), 2);
    runtime.faults().on(Op::Version).error(Code::Internal, "broken");
    assert_eq!(client.version(v1::VersionRequest::default()).await.unwrap_err().message(), "broken");
    runtime.faults().clear();
    client.version(v1::VersionRequest::default()).await.unwrap();
}

#[tokio::test]
async fn chance_is_repeated_by_the_seed_whatever_the_order_of_calls() {
    let mut runs = Vec::new();
    for backwards in [false, true] {
        let (Served { runtime, mut client }, one, two) = two_pods().await;
        runtime.faults().on(Op::ContainerStatus).probability(0.5).error(Code::Internal, "chance");
        let mut order = [&one, &two];
        if backwards {
            order.reverse();
        }
        let mut failed = Vec::new();
        for pod in order {
            for n in 0..20 {
                if status(&mut client, pod.containers[0].as_str()).await.is_err() {
                    failed.push((pod.uid.clone(), n));
                }
            }
        }
        failed.sort();
        assert!((8..=32).contains(&failed.len()), "{}", failed.len());
        runs.push(failed);
    }
    assert_eq!(runs[0], runs[1]);
}
