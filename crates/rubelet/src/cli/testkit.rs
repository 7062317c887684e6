//! Pods that no agent has created, for the tests of commands.

use rubelet_cri::{Metrics, Options, RuntimeClient, v1};
use rubelet_model::ContainerId;
use rubelet_runtime::synthetic::Handle;

/// Creates a pod `shop/hand` with a running container `c`, without labels, as if made by hand.
pub(super) async fn pod_by_hand(runtime: &Handle) -> (RuntimeClient, ContainerId) {
    runtime.world(|world| world.add_image("i", 1));
    let endpoint = runtime.endpoint().parse().expect("an endpoint");
    let client = RuntimeClient::new(endpoint, Options::default(), Metrics::default());
    let metadata = v1::PodSandboxMetadata {
        name: "hand".to_owned(),
        namespace: "shop".to_owned(),
        uid: "1".to_owned(),
        attempt: 0,
    };
    let of_pod = v1::PodSandboxConfig { metadata: Some(metadata), ..v1::PodSandboxConfig::default() };
    let sandbox = client.run_pod_sandbox(of_pod.clone(), "").await.expect("a sandbox");
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: "i".to_owned(), ..v1::ImageSpec::default() }),
        ..v1::ContainerConfig::default()
    };
    let container = client.create_container(&sandbox, config, of_pod).await.expect("a container");
    client.start_container(&container).await.expect("started");
    (client, container)
}
