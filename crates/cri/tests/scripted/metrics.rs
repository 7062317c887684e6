//! Metrics, as a scrape shows them.

use crate::support::{Place, Reply, Server};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rubelet_cri::{ListFilter, Metrics, Operation, Options, RuntimeClient, v1};
use tonic::Code;

#[tokio::test(start_paused = true)]
async fn calls_are_counted_under_the_kubelets_names() {
    let place = Place::new();
    let _server = Server::start(&place, |call| match call.method.as_str() {
        "ListContainers" => Reply::message(&v1::ListContainersResponse::default()),
        "RunPodSandbox" => Reply::fail(Code::Unknown, "no"),
        _ => Reply::unimplemented(),
    })
    .await;
    let metrics = Metrics::default();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let client = RuntimeClient::new(place.endpoint.clone(), Options::default(), metrics.clone());
    client.list_containers(&ListFilter::All).await.unwrap();
    client.list_containers(&ListFilter::All).await.unwrap();
    client.run_pod_sandbox(v1::PodSandboxConfig::default(), "kata").await.unwrap_err();
    assert_eq!((metrics.calls(Operation::ListContainers), metrics.errors(Operation::ListContainers)), (2, 0));
    assert_eq!((metrics.calls(Operation::RunPodSandbox), metrics.errors(Operation::RunPodSandbox)), (1, 1));

    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains("_bucket{")).collect();
    lines.sort_unstable();
    let wanted = [
        "# EOF",
        "# HELP kubelet_run_podsandbox_duration_seconds [ALPHA] How long it takes to make and start a sandbox, by runtime handler.",
        "# HELP kubelet_run_podsandbox_errors [ALPHA] Sandboxes that could not be made or started, by runtime handler.",
        "# HELP kubelet_runtime_operations [ALPHA] Calls to the container runtime, by operation type.",
        "# HELP kubelet_runtime_operations_duration_seconds [ALPHA] How long calls to the container runtime take, by operation type.",
        "# HELP kubelet_runtime_operations_errors [ALPHA] Calls to the container runtime that failed, by operation type.",
        "# TYPE kubelet_run_podsandbox_duration_seconds histogram",
        "# TYPE kubelet_run_podsandbox_errors counter",
        "# TYPE kubelet_runtime_operations counter",
        "# TYPE kubelet_runtime_operations_duration_seconds histogram",
        "# TYPE kubelet_runtime_operations_errors counter",
        "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"kata\"} 1",
        "kubelet_run_podsandbox_duration_seconds_sum{runtime_handler=\"kata\"} 0.0",
        "kubelet_run_podsandbox_errors_total{runtime_handler=\"kata\"} 1",
        "kubelet_runtime_operations_duration_seconds_count{operation_type=\"list_containers\"} 2",
        "kubelet_runtime_operations_duration_seconds_count{operation_type=\"run_podsandbox\"} 1",
        "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"list_containers\"} 0.0",
        "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"run_podsandbox\"} 0.0",
        "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 1",
        "kubelet_runtime_operations_total{operation_type=\"list_containers\"} 2",
        "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 1",
    ];
    assert_eq!(lines, wanted);

    let buckets = |family: &str| -> Vec<f64> {
        let of = text.lines().filter(|line| line.starts_with(family) && !line.contains("list_containers"));
        of.filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()?.parse().ok())
            .filter(|bound: &f64| bound.is_finite() && *bound < f64::MAX)
            .collect()
    };
    let operations = buckets("kubelet_runtime_operations_duration_seconds_bucket");
    assert_eq!(operations.len(), 14);
    assert!((operations[0] - 0.005).abs() < 1e-9 && (operations[13] - 0.005 * 2.5f64.powi(13)).abs() < 1e-6);
    let sandboxes = buckets("kubelet_run_podsandbox_duration_seconds_bucket");
    assert_eq!(sandboxes, [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
}

#[tokio::test]
async fn a_stream_of_events_counts_once_and_fails_once() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::unimplemented()).await;
    let metrics = Metrics::default();
    let client = RuntimeClient::new(place.endpoint.clone(), Options::default(), metrics.clone());
    let mut events = client.get_container_events().await.unwrap();
    assert_eq!(
        (metrics.calls(Operation::GetContainerEvents), metrics.errors(Operation::GetContainerEvents)),
        (1, 0)
    );
    while events.next().await.is_some() {}
    drop(events);
    assert_eq!(
        (metrics.calls(Operation::GetContainerEvents), metrics.errors(Operation::GetContainerEvents)),
        (1, 1)
    );
}
