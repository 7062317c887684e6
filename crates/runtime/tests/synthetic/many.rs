//! A node with ten thousand of everything.

use std::time::Duration;

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{Config, Population, Profile, SyntheticRuntime, serve_forever};
use tokio::net::UnixStream;

use crate::client::{Served, connect, serve_as};

#[tokio::test]
async fn ten_thousand_pods_fit_in_two_lists() {
    let population = Population { pods: 10_000, running: 1, exited: 0 };
    let Served { runtime, mut client } =
        serve_as(SyntheticRuntime::new(Profile::Ctd2).populate(population)).await;
    assert_eq!(runtime.events().counts().made, 0, "what was there before is not announced");
    let sandboxes = client.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await.unwrap().into_inner();
    assert_eq!(sandboxes.items.len(), 10_000);
    let containers = client.list_containers(v1::ListContainersRequest::default()).await.unwrap().into_inner();
    assert_eq!(containers.containers.len(), 10_000);
}

#[tokio::test]
async fn a_server_of_its_own_is_ready_when_it_can_be_reached() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("own.sock");
    let mut config = Config::new(&socket);
    config.population = Population { pods: 5, running: 2, exited: 1 };
    // It ends with the test's process.
    std::thread::spawn(move || serve_forever(config));
    while UnixStream::connect(&socket).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut client = connect(&socket).await;
    let containers = client.list_containers(v1::ListContainersRequest::default()).await.unwrap().into_inner();
    assert_eq!(containers.containers.len(), 15);
}
