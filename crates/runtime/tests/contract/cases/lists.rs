//! Lists and their filters.

use std::collections::{BTreeSet, HashMap};

use rubelet_cri::v1::{self, ContainerState, PodSandboxState};
use tokio_stream::StreamExt as _;

use crate::cri::Cri;

pub(crate) async fn filters_select(cri: Cri) {
    let (pod_a, a, sandbox) = cri.pod_with("exec sleep 3600").await;
    let b = cri.create(&pod_a, &sandbox, &cri.container_config("true")).await.expect("a container");
    let (pod_c, c, _) = cri.pod_with("exec sleep 3600").await;
    cri.start(&a).await.expect("starts");
    cri.stop_pod(&pod_c).await.expect("stops");

    let pods = |filter: v1::PodSandboxFilter| {
        let cri = cri.clone();
        async move { cri.pods(Some(filter)).await.into_iter().map(|pod| pod.id).collect::<BTreeSet<_>>() }
    };
    let set = |ids: &[&String]| ids.iter().map(|id| (*id).clone()).collect::<BTreeSet<String>>();
    let pod_state = |state: PodSandboxState| Some(v1::PodSandboxStateValue { state: state as i32 });
    let number = sandbox.labels["number"].clone();
    let label = HashMap::from([("number".to_owned(), number)]);
    assert_eq!(pods(v1::PodSandboxFilter { id: pod_a.clone(), ..Default::default() }).await, set(&[&pod_a]));
    let ready =
        v1::PodSandboxFilter { state: pod_state(PodSandboxState::SandboxReady), ..Default::default() };
    assert_eq!(pods(ready).await, set(&[&pod_a]));
    let stopped =
        v1::PodSandboxFilter { state: pod_state(PodSandboxState::SandboxNotready), ..Default::default() };
    assert_eq!(pods(stopped).await, set(&[&pod_c]));
    assert_eq!(
        pods(v1::PodSandboxFilter { label_selector: label, ..Default::default() }).await,
        set(&[&pod_a])
    );

    let containers = |filter: v1::ContainerFilter| {
        let cri = cri.clone();
        async move { cri.containers(Some(filter)).await.into_iter().map(|item| item.id).collect::<BTreeSet<_>>() }
    };
    let state = |state: ContainerState| Some(v1::ContainerStateValue { state: state as i32 });
    let in_pod = v1::ContainerFilter { pod_sandbox_id: pod_a.clone(), ..Default::default() };
    assert_eq!(containers(in_pod.clone()).await, set(&[&a, &b]));
    let running =
        v1::ContainerFilter { state: state(ContainerState::ContainerRunning), ..Default::default() };
    assert_eq!(containers(running).await, set(&[&a]));
    let created = v1::ContainerFilter { state: state(ContainerState::ContainerCreated), ..in_pod };
    assert_eq!(containers(created).await, set(&[&b]));
    assert_eq!(containers(v1::ContainerFilter { id: c.clone(), ..Default::default() }).await, set(&[&c]));
    let short = v1::ContainerFilter { id: c[..13].to_owned(), ..Default::default() };
    assert_eq!(containers(short).await, set(&[&c]));
    let nobody = HashMap::from([("number".to_owned(), "none".to_owned())]);
    assert_eq!(
        containers(v1::ContainerFilter { label_selector: nobody, ..Default::default() }).await,
        set(&[])
    );
    let elsewhere = v1::ContainerFilter { pod_sandbox_id: "f".repeat(64), ..Default::default() };
    assert_eq!(containers(elsewhere).await, set(&[]));
}

pub(crate) async fn streaming_lists_equal_the_plain_ones(cri: Cri) {
    let (_, a, _) = cri.pod_with("true").await;
    let (_, b, _) = cri.pod_with("true").await;
    let mut stream = cri
        .runtime()
        .await
        .stream_containers(v1::StreamContainersRequest::default())
        .await
        .expect("a stream")
        .into_inner();
    let mut ids = BTreeSet::new();
    while let Some(part) = stream.next().await {
        ids.extend(part.expect("a part").containers.into_iter().map(|container| container.id));
    }
    assert_eq!(ids, BTreeSet::from([a, b]));
    let mut stream = cri
        .runtime()
        .await
        .stream_pod_sandboxes(v1::StreamPodSandboxesRequest::default())
        .await
        .expect("a stream")
        .into_inner();
    let mut count = 0;
    while let Some(part) = stream.next().await {
        count += part.expect("a part").pod_sandboxes.len();
    }
    assert_eq!(count, cri.pods(None).await.len());
}
