//! Answers that cannot be decoded, or are odd, or lack someone.

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{Corruption, Op, Part, PodSpec, Profile};
use tonic::Code;

use crate::client::{Client, Served, serve};

async fn list(client: &mut Client) -> Result<Vec<v1::Container>, tonic::Status> {
    let request = v1::ListContainersRequest::default();
    client.list_containers(request).await.map(|answer| answer.into_inner().containers)
}

#[tokio::test]
async fn one_entry_spoils_a_list_for_a_strict_client() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let pod = runtime.world(|world| {
        world.add_pod(PodSpec::from("good").container("c"));
        world.add_pod(PodSpec::from("bad").container("c"))
    });
    for corruption in [
        Corruption::BadUtf8(Part::Labels),
        Corruption::BadUtf8(Part::Annotations),
        Corruption::BadUtf8(Part::Metadata),
        Corruption::BadUtf8(Part::Id),
        Corruption::BrokenMetadata,
        Corruption::Truncated,
        Corruption::Garbage,
    ] {
        let fault = runtime.faults().on(Op::ListContainers).container(&pod.containers[0]).corrupt(corruption);
        let error = list(&mut client).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{corruption:?}: {error}");
        fault.remove();
        assert_eq!(fault.hits(), 1);
        assert_eq!(list(&mut client).await.unwrap().len(), 2, "the entry itself is as it was");
    }
}

#[tokio::test]
async fn odd_entries_of_lists() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let pod = runtime.world(|world| {
        world.add_pod(PodSpec::from("good").container("c"));
        world.add_pod(PodSpec::from("odd").container("c"))
    });
    let faults = runtime.faults();
    faults.on(Op::ListContainers).pod(&pod.uid).times(1).corrupt(Corruption::UnknownState(42));
    let mut states: Vec<i32> =
        list(&mut client).await.unwrap().iter().map(|container| container.state).collect();
    states.sort_unstable();
    assert_eq!(states, [1, 42]);

    faults.on(Op::ListContainers).pod(&pod.uid).times(1).corrupt(Corruption::NoMetadata);
    let without = list(&mut client).await.unwrap();
    assert_eq!(without.iter().filter(|container| container.metadata.is_none()).count(), 1);

    faults.on(Op::ListContainers).pod(&pod.uid).times(1).omit();
    let missing = list(&mut client).await.unwrap();
    assert!(missing.iter().all(|container| container.id != pod.containers[0].as_str()));
    assert_eq!((missing.len(), list(&mut client).await.unwrap().len()), (1, 2));

    faults.on(Op::ListPodSandbox).pod(&pod.uid).times(1).corrupt(Corruption::NoId);
    let request = v1::ListPodSandboxRequest::default();
    let sandboxes = client.list_pod_sandbox(request).await.unwrap().into_inner().items;
    assert_eq!(sandboxes.iter().filter(|sandbox| sandbox.id.is_empty()).count(), 1);
}

#[tokio::test]
async fn statuses_can_be_spoiled_too() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let pod = runtime.world(|world| world.add_pod(PodSpec::from("bad").container("c")));
    let id = pod.containers[0].as_str();
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    let faults = runtime.faults();
    faults.on(Op::ContainerStatus).times(1).corrupt(Corruption::BadUtf8(Part::Labels));
    assert_eq!(client.container_status(request.clone()).await.unwrap_err().code(), Code::Internal);
    faults.on(Op::ContainerStatus).times(1).corrupt(Corruption::NoMetadata);
    let status = client.container_status(request).await.unwrap().into_inner().status.unwrap();
    assert_eq!((status.metadata, &*status.id), (None, id));
}
