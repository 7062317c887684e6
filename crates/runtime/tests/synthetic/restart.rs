//! Restarts of the runtime.

use std::io;

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{
    ContainerState, Exit, Loss, NewPod, PodSpec, Profile, Restart, SandboxState,
};
use tokio::net::UnixStream;
use tonic::Code;

use crate::client::{Client, Running, Served, connect, serve};

async fn counts(client: &mut Client) -> (usize, usize) {
    let sandboxes = client.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await.unwrap();
    let containers = client.list_containers(v1::ListContainersRequest::default()).await.unwrap();
    (sandboxes.into_inner().items.len(), containers.into_inner().containers.len())
}

async fn twenty_pods(profile: Profile) -> (Running, Client, Vec<NewPod>) {
    let Served { runtime, client } = serve(profile).await;
    let pods = runtime.world(|world| {
        let pod = |n| PodSpec::new("ns", format!("p{n}")).container("c");
        (0..20).map(|n| world.add_pod(pod(n))).collect()
    });
    (runtime, client, pods)
}

#[tokio::test]
async fn connections_break_and_new_ones_find_the_same_world() {
    let (runtime, mut client, _) = twenty_pods(Profile::Ctd2).await;
    let stuck = runtime.faults().on_any().hang();
    let mut hanging = client.clone();
    let hanging = tokio::spawn(async move { hanging.version(v1::VersionRequest::default()).await });
    stuck.until_waiting(1).await;
    runtime.go_down().await;
    let error = hanging.await.unwrap().unwrap_err();
    assert!(matches!(error.code(), Code::Unavailable | Code::Unknown | Code::Cancelled), "{error}");
    assert_eq!(runtime.calls().all().in_flight, 0);
    assert_eq!(
        UnixStream::connect(runtime.socket()).await.unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused,
        "the socket is left behind"
    );
    client.version(v1::VersionRequest::default()).await.unwrap_err();
    stuck.release();
    runtime.come_up(Restart::clean()).await.unwrap();
    let mut client = connect(runtime.socket()).await;
    assert_eq!(counts(&mut client).await, (20, 20));
    runtime.restart(Restart::clean()).await.unwrap();
    let mut client = connect(runtime.socket()).await;
    assert_eq!(counts(&mut client).await, (20, 20));
}

#[tokio::test]
async fn the_first_lists_may_be_empty_or_partial() {
    let (runtime, _, _) = twenty_pods(Profile::Ctd2).await;
    runtime.restart(Restart::clean().empty_lists(2)).await.unwrap();
    let mut client = connect(runtime.socket()).await;
    assert_eq!(counts(&mut client).await, (0, 0));
    assert_eq!(counts(&mut client).await, (0, 0));
    assert_eq!(counts(&mut client).await, (20, 20));

    runtime.restart(Restart::clean().partial_lists(2, 0.5)).await.unwrap();
    let mut client = connect(runtime.socket()).await;
    let (sandboxes, containers) = counts(&mut client).await;
    assert!((1..20).contains(&sandboxes) && (1..20).contains(&containers), "{sandboxes} {containers}");
    assert_eq!(counts(&mut client).await, (sandboxes, containers), "the same are missing");
    assert_eq!(counts(&mut client).await, (20, 20));
}

#[tokio::test]
async fn it_may_come_back_confused() {
    let (runtime, _, pods) = twenty_pods(Profile::Ctd2).await;
    let how = Restart::clean()
        .initializing(1)
        .lose_ips()
        .sandboxes_not_ready(1.0)
        .containers_unknown(0.5)
        .containers_unloaded(0.2);
    runtime.restart(how).await.unwrap();
    let mut client = connect(runtime.socket()).await;
    let error = client.version(v1::VersionRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    let (sandboxes, containers) = counts(&mut client).await;
    assert_eq!(sandboxes, 20);
    assert!((10..20).contains(&containers), "{containers}");
    runtime.world(|world| {
        assert!(world.sandboxes().all(|sandbox| sandbox.ips().is_empty()));
        assert!(world.sandboxes().all(|sandbox| sandbox.state() == SandboxState::NotReady));
        let unknown = world.containers().filter(|container| container.state() == ContainerState::Unknown);
        assert!((1..containers).contains(&unknown.count()));
        for pod in &pods {
            world.force_sandbox_state(&pod.sandbox, SandboxState::Ready);
        }
    });
    runtime.restart(Restart::clean()).await.unwrap();
    let mut client = connect(runtime.socket()).await;
    assert_eq!(counts(&mut client).await, (20, 20), "what was not loaded is there again");
}

#[tokio::test]
async fn what_happens_while_it_is_down_is_never_announced() {
    let (runtime, _, pods) = twenty_pods(Profile::Ctd2).await;
    let made = runtime.events().counts().made;
    runtime.go_down().await;
    runtime.world(|world| world.exit(&pods[0].containers[0], Exit::code(255).reason("Unknown")));
    runtime.come_up(Restart::clean()).await.unwrap();
    assert_eq!(runtime.events().counts().made, made);
    runtime.world(|world| {
        let change = world.history().last().unwrap();
        assert_eq!(change.announced, []);
    });
    let mut client = connect(runtime.socket()).await;
    let mut events = client.get_container_events(v1::GetEventsRequest {}).await.unwrap().into_inner();
    runtime.world(|world| world.exit(&pods[1].containers[0], 1));
    let event = events.message().await.unwrap().unwrap();
    assert_eq!(event.container_id, pods[1].containers[0].as_str(), "nothing is replayed from before");
    let lost = runtime.events().lost();
    assert_eq!(lost.len() as u64, made);
    assert!(lost.iter().all(|lost| lost.loss == Loss::Restarted));
}

#[tokio::test]
async fn old_containerd_says_it_otherwise() {
    let (runtime, _, _) = twenty_pods(Profile::Ctd17).await;
    runtime.restart(Restart::clean().initializing(2)).await.unwrap();
    let mut client = connect(runtime.socket()).await;
    for code in [Code::Unknown, Code::Unknown] {
        assert_eq!(client.version(v1::VersionRequest::default()).await.unwrap_err().code(), code);
    }
    client.version(v1::VersionRequest::default()).await.unwrap();
}
