//! `RuntimeService`.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use rubelet_cri::OUTPUT_LIMIT;
use rubelet_cri::v1::{self, runtime_service_server::RuntimeService};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::{Service, chunked};
use crate::embedded::runtime::{blocking, unhurried};
use crate::embedded::{filter, stats, view};

type Answer<T> = Result<Response<T>, Status>;
type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn streamed<T: Send + 'static>(messages: Vec<Result<T, Status>>) -> Response<Streamed<T>> {
    Response::new(Box::pin(tokio_stream::iter(messages)))
}

/// Streams events until the subscriber leaves, or falls behind and gets an error that says so.
fn event_stream(
    receiver: tokio::sync::broadcast::Receiver<Arc<v1::ContainerEventResponse>>,
) -> Streamed<v1::ContainerEventResponse> {
    let mut behind = false;
    let events = BroadcastStream::new(receiver).map_while(move |item| match item {
        _ if behind => None,
        Ok(event) => Some(Ok(v1::ContainerEventResponse::clone(&event))),
        Err(BroadcastStreamRecvError::Lagged(missed)) => {
            behind = true;
            let message = format!("{missed} events were not read in time: open a new stream, then list");
            Some(Err(Status::data_loss(message)))
        }
    });
    Box::pin(events)
}

impl Service {
    fn sandbox_items(&self, filter: Option<&v1::PodSandboxFilter>) -> Vec<v1::PodSandbox> {
        let all = self.runtime.registry.sandboxes();
        all.iter()
            .map(|sandbox| view::sandbox_item(sandbox))
            .filter(|item| filter::sandbox(filter, item))
            .collect()
    }

    fn container_items(&self, filter: Option<&v1::ContainerFilter>) -> Vec<v1::Container> {
        let all = match filter {
            // The only filter worth an index: kubelets use it after every event.
            Some(filter) if !filter.pod_sandbox_id.is_empty() => {
                match self.runtime.registry.sandbox(&filter.pod_sandbox_id) {
                    Ok(sandbox) => self.runtime.registry.containers_of(&sandbox.id),
                    Err(_) => Vec::new(),
                }
            }
            _ => self.runtime.registry.containers(),
        };
        let items = all.iter().map(|container| view::container_item(container));
        items.filter(|item| filter::container(filter, item)).collect()
    }

    async fn all_container_stats(
        &self,
        filter: Option<v1::ContainerStatsFilter>,
    ) -> Result<Vec<v1::ContainerStats>, Status> {
        let containers = self.runtime.registry.containers();
        let subjects: Vec<_> = containers
            .iter()
            .filter(|container| container.state().can_exec())
            .filter(|container| {
                filter::container_stats(
                    filter.as_ref(),
                    container.id(),
                    &container.record.sandbox,
                    &container.config.labels,
                )
            })
            .map(|container| self.runtime.stats_subject(container))
            .collect();
        let cgroups = self.runtime.facts.cgroups.clone();
        let stats = blocking(move || {
            Ok(subjects.into_iter().map(|subject| stats::container(subject, &cgroups)).collect())
        });
        Ok(stats.await?)
    }

    async fn sandbox_stats(&self, id: &str) -> Result<v1::PodSandboxStats, Status> {
        let sandbox = self.runtime.registry.sandbox(id)?;
        let containers = self.runtime.registry.containers_of(&sandbox.id);
        let live = containers.iter().filter(|container| container.state().can_exec());
        let subjects: Vec<_> = live.map(|container| self.runtime.stats_subject(container)).collect();
        let cgroups = self.runtime.facts.cgroups.clone();
        let stats = blocking(move || {
            let containers =
                subjects.into_iter().map(|subject| stats::container(subject, &cgroups)).collect();
            Ok(stats::sandbox(&sandbox, containers, &cgroups))
        });
        Ok(stats.await?)
    }

    async fn all_sandbox_stats(
        &self,
        filter: Option<v1::PodSandboxStatsFilter>,
    ) -> Result<Vec<v1::PodSandboxStats>, Status> {
        let mut all = Vec::new();
        for sandbox in self.runtime.registry.sandboxes() {
            if filter::sandbox_stats(filter.as_ref(), &sandbox.id, &sandbox.config.labels) {
                match self.sandbox_stats(&sandbox.id).await {
                    Ok(stats) => all.push(stats),
                    // Removed in the meantime.
                    Err(status) if status.code() == tonic::Code::NotFound => {}
                    Err(status) => return Err(status),
                }
            }
        }
        Ok(all)
    }
}

fn unimplemented(what: &str) -> Status {
    Status::unimplemented(format!("{what} is not supported by the embedded runtime"))
}

#[tonic::async_trait]
impl RuntimeService for Service {
    async fn version(&self, _: Request<v1::VersionRequest>) -> Answer<v1::VersionResponse> {
        Ok(Response::new(v1::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: super::NAME.to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<v1::RunPodSandboxRequest>,
    ) -> Answer<v1::RunPodSandboxResponse> {
        let (runtime, request) = (Arc::clone(&self.runtime), request.into_inner());
        let pod_sandbox_id = unhurried(async move { runtime.run_sandbox(request).await }).await?;
        Ok(Response::new(v1::RunPodSandboxResponse { pod_sandbox_id }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<v1::StopPodSandboxRequest>,
    ) -> Answer<v1::StopPodSandboxResponse> {
        let (runtime, id) = (Arc::clone(&self.runtime), request.into_inner().pod_sandbox_id);
        unhurried(async move { runtime.stop_sandbox(&id).await }).await?;
        Ok(Response::new(v1::StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<v1::RemovePodSandboxRequest>,
    ) -> Answer<v1::RemovePodSandboxResponse> {
        let (runtime, id) = (Arc::clone(&self.runtime), request.into_inner().pod_sandbox_id);
        unhurried(async move { runtime.remove_sandbox(&id).await }).await?;
        Ok(Response::new(v1::RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<v1::PodSandboxStatusRequest>,
    ) -> Answer<v1::PodSandboxStatusResponse> {
        let request = request.into_inner();
        let sandbox = self.runtime.registry.sandbox(&request.pod_sandbox_id)?;
        let mut info = HashMap::new();
        if request.verbose {
            let record = sandbox.record.read().clone();
            info.insert("info".to_owned(), serde_json::to_string(&record).unwrap_or_default());
        }
        let timestamp = crate::embedded::clock::now();
        let containers = self.runtime.registry.containers_of(&sandbox.id);
        Ok(Response::new(v1::PodSandboxStatusResponse {
            status: Some(view::sandbox_status(&sandbox)),
            info,
            containers_statuses: containers
                .iter()
                .map(|container| view::container_status(container))
                .collect(),
            timestamp,
        }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<v1::ListPodSandboxRequest>,
    ) -> Answer<v1::ListPodSandboxResponse> {
        let filter = request.into_inner().filter;
        Ok(Response::new(v1::ListPodSandboxResponse { items: self.sandbox_items(filter.as_ref()) }))
    }

    type StreamPodSandboxesStream = Streamed<v1::StreamPodSandboxesResponse>;

    async fn stream_pod_sandboxes(
        &self,
        request: Request<v1::StreamPodSandboxesRequest>,
    ) -> Answer<Self::StreamPodSandboxesStream> {
        let items = self.sandbox_items(request.into_inner().filter.as_ref());
        Ok(streamed(chunked(items, |pod_sandboxes| v1::StreamPodSandboxesResponse { pod_sandboxes })))
    }

    async fn create_container(
        &self,
        request: Request<v1::CreateContainerRequest>,
    ) -> Answer<v1::CreateContainerResponse> {
        let (runtime, request) = (Arc::clone(&self.runtime), request.into_inner());
        let container_id = unhurried(async move { runtime.create_container(request).await }).await?;
        Ok(Response::new(v1::CreateContainerResponse { container_id }))
    }

    async fn start_container(
        &self,
        request: Request<v1::StartContainerRequest>,
    ) -> Answer<v1::StartContainerResponse> {
        let (runtime, id) = (Arc::clone(&self.runtime), request.into_inner().container_id);
        unhurried(async move { runtime.start_container(&id).await }).await?;
        Ok(Response::new(v1::StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<v1::StopContainerRequest>,
    ) -> Answer<v1::StopContainerResponse> {
        let (runtime, request) = (Arc::clone(&self.runtime), request.into_inner());
        unhurried(async move { runtime.stop_container(&request.container_id, request.timeout).await })
            .await?;
        Ok(Response::new(v1::StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        request: Request<v1::RemoveContainerRequest>,
    ) -> Answer<v1::RemoveContainerResponse> {
        let (runtime, id) = (Arc::clone(&self.runtime), request.into_inner().container_id);
        unhurried(async move { runtime.remove_container(&id).await }).await?;
        Ok(Response::new(v1::RemoveContainerResponse {}))
    }

    async fn list_containers(
        &self,
        request: Request<v1::ListContainersRequest>,
    ) -> Answer<v1::ListContainersResponse> {
        let filter = request.into_inner().filter;
        Ok(Response::new(v1::ListContainersResponse { containers: self.container_items(filter.as_ref()) }))
    }

    type StreamContainersStream = Streamed<v1::StreamContainersResponse>;

    async fn stream_containers(
        &self,
        request: Request<v1::StreamContainersRequest>,
    ) -> Answer<Self::StreamContainersStream> {
        let items = self.container_items(request.into_inner().filter.as_ref());
        Ok(streamed(chunked(items, |containers| v1::StreamContainersResponse { containers })))
    }

    async fn container_status(
        &self,
        request: Request<v1::ContainerStatusRequest>,
    ) -> Answer<v1::ContainerStatusResponse> {
        let request = request.into_inner();
        let container = self.runtime.registry.container(&request.container_id)?;
        let mut info = HashMap::new();
        if request.verbose {
            info = self.runtime.container_info(&container).await?;
        }
        Ok(Response::new(v1::ContainerStatusResponse {
            status: Some(view::container_status(&container)),
            info,
        }))
    }

    async fn update_container_resources(
        &self,
        request: Request<v1::UpdateContainerResourcesRequest>,
    ) -> Answer<v1::UpdateContainerResourcesResponse> {
        let (runtime, request) = (Arc::clone(&self.runtime), request.into_inner());
        unhurried(async move { runtime.update_resources(request).await }).await?;
        Ok(Response::new(v1::UpdateContainerResourcesResponse {}))
    }

    async fn reopen_container_log(
        &self,
        request: Request<v1::ReopenContainerLogRequest>,
    ) -> Answer<v1::ReopenContainerLogResponse> {
        self.runtime.reopen_log(&request.into_inner().container_id).await?;
        Ok(Response::new(v1::ReopenContainerLogResponse {}))
    }

    async fn exec_sync(&self, request: Request<v1::ExecSyncRequest>) -> Answer<v1::ExecSyncResponse> {
        let wanted = request.metadata().get(OUTPUT_LIMIT).and_then(|limit| limit.to_str().ok()?.parse().ok());
        // Not `unhurried`: a caller that disconnects ends the command.
        Ok(Response::new(self.runtime.exec_sync(request.into_inner(), wanted).await?))
    }

    async fn exec(&self, _: Request<v1::ExecRequest>) -> Answer<v1::ExecResponse> {
        Err(unimplemented("Exec"))
    }

    async fn attach(&self, _: Request<v1::AttachRequest>) -> Answer<v1::AttachResponse> {
        Err(unimplemented("Attach"))
    }

    async fn port_forward(&self, _: Request<v1::PortForwardRequest>) -> Answer<v1::PortForwardResponse> {
        Err(unimplemented("PortForward"))
    }

    async fn container_stats(
        &self,
        request: Request<v1::ContainerStatsRequest>,
    ) -> Answer<v1::ContainerStatsResponse> {
        let container = self.runtime.registry.container(&request.into_inner().container_id)?;
        let (subject, cgroups) = (self.runtime.stats_subject(&container), self.runtime.facts.cgroups.clone());
        let stats = blocking(move || Ok(stats::container(subject, &cgroups))).await?;
        Ok(Response::new(v1::ContainerStatsResponse { stats: Some(stats) }))
    }

    async fn list_container_stats(
        &self,
        request: Request<v1::ListContainerStatsRequest>,
    ) -> Answer<v1::ListContainerStatsResponse> {
        let stats = self.all_container_stats(request.into_inner().filter).await?;
        Ok(Response::new(v1::ListContainerStatsResponse { stats }))
    }

    type StreamContainerStatsStream = Streamed<v1::StreamContainerStatsResponse>;

    async fn stream_container_stats(
        &self,
        request: Request<v1::StreamContainerStatsRequest>,
    ) -> Answer<Self::StreamContainerStatsStream> {
        let stats = self.all_container_stats(request.into_inner().filter).await?;
        Ok(streamed(chunked(stats, |container_stats| v1::StreamContainerStatsResponse { container_stats })))
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<v1::PodSandboxStatsRequest>,
    ) -> Answer<v1::PodSandboxStatsResponse> {
        let stats = self.sandbox_stats(&request.into_inner().pod_sandbox_id).await?;
        Ok(Response::new(v1::PodSandboxStatsResponse { stats: Some(stats) }))
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<v1::ListPodSandboxStatsRequest>,
    ) -> Answer<v1::ListPodSandboxStatsResponse> {
        let stats = self.all_sandbox_stats(request.into_inner().filter).await?;
        Ok(Response::new(v1::ListPodSandboxStatsResponse { stats }))
    }

    type StreamPodSandboxStatsStream = Streamed<v1::StreamPodSandboxStatsResponse>;

    async fn stream_pod_sandbox_stats(
        &self,
        request: Request<v1::StreamPodSandboxStatsRequest>,
    ) -> Answer<Self::StreamPodSandboxStatsStream> {
        let stats = self.all_sandbox_stats(request.into_inner().filter).await?;
        Ok(streamed(chunked(stats, |pod_sandbox_stats| v1::StreamPodSandboxStatsResponse {
            pod_sandbox_stats,
        })))
    }

    async fn update_runtime_config(
        &self,
        _: Request<v1::UpdateRuntimeConfigRequest>,
    ) -> Answer<v1::UpdateRuntimeConfigResponse> {
        // The CNI configuration determines the pod CIDR, as in other runtimes that have no template for it.
        Ok(Response::new(v1::UpdateRuntimeConfigResponse {}))
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        Ok(Response::new(self.runtime.status(request.into_inner().verbose).await?))
    }

    async fn checkpoint_container(
        &self,
        _: Request<v1::CheckpointContainerRequest>,
    ) -> Answer<v1::CheckpointContainerResponse> {
        Err(unimplemented("CheckpointContainer"))
    }

    type GetContainerEventsStream = Streamed<v1::ContainerEventResponse>;

    async fn get_container_events(
        &self,
        _: Request<v1::GetEventsRequest>,
    ) -> Answer<Self::GetContainerEventsStream> {
        Ok(Response::new(event_stream(self.runtime.events.subscribe())))
    }

    async fn list_metric_descriptors(
        &self,
        _: Request<v1::ListMetricDescriptorsRequest>,
    ) -> Answer<v1::ListMetricDescriptorsResponse> {
        Ok(Response::new(v1::ListMetricDescriptorsResponse { descriptors: Vec::new() }))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<v1::ListPodSandboxMetricsRequest>,
    ) -> Answer<v1::ListPodSandboxMetricsResponse> {
        Err(unimplemented("ListPodSandboxMetrics"))
    }

    type StreamPodSandboxMetricsStream = Streamed<v1::StreamPodSandboxMetricsResponse>;

    async fn stream_pod_sandbox_metrics(
        &self,
        _: Request<v1::StreamPodSandboxMetricsRequest>,
    ) -> Answer<Self::StreamPodSandboxMetricsStream> {
        Err(unimplemented("StreamPodSandboxMetrics"))
    }

    async fn runtime_config(
        &self,
        _: Request<v1::RuntimeConfigRequest>,
    ) -> Answer<v1::RuntimeConfigResponse> {
        Ok(Response::new(v1::RuntimeConfigResponse {
            linux: Some(v1::LinuxRuntimeConfiguration { cgroup_driver: v1::CgroupDriver::Cgroupfs as i32 }),
        }))
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<v1::UpdatePodSandboxResourcesRequest>,
    ) -> Answer<v1::UpdatePodSandboxResourcesResponse> {
        // The pod's group belongs to whoever named it as the parent; this call only announces that it has changed.
        self.runtime.registry.sandbox(&request.into_inner().pod_sandbox_id)?;
        Ok(Response::new(v1::UpdatePodSandboxResourcesResponse {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::error::Error;
    use crate::embedded::events::Events;

    fn receiver_of(count: usize) -> (Events, Streamed<v1::ContainerEventResponse>) {
        let events = Events::new();
        let stream = event_stream(events.subscribe());
        for number in 0..count {
            events.publish_raw(v1::ContainerEventResponse {
                container_id: number.to_string(),
                ..Default::default()
            });
        }
        (events, stream)
    }

    #[tokio::test]
    async fn a_reader_in_time_gets_everything_in_order() {
        let (_events, mut stream) = receiver_of(3);
        for number in 0..3 {
            assert_eq!(stream.next().await.unwrap().unwrap().container_id, number.to_string());
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_and_its_stream_ends() {
        let (_events, mut stream) = receiver_of(100_000);
        let status = stream.next().await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::DataLoss);
        assert!(stream.next().await.is_none(), "nothing comes after a gap");
    }

    #[tokio::test]
    async fn every_subscriber_gets_every_event() {
        let events = Events::new();
        let (mut one, mut two) = (event_stream(events.subscribe()), event_stream(events.subscribe()));
        events.publish_raw(v1::ContainerEventResponse { container_id: "x".into(), ..Default::default() });
        assert_eq!(one.next().await.unwrap().unwrap().container_id, "x");
        assert_eq!(two.next().await.unwrap().unwrap().container_id, "x");
    }

    #[test]
    fn an_error_keeps_its_code() {
        let status = Status::from(Error::NotFound { kind: "container", id: "x".into() });
        assert_eq!(status.code(), tonic::Code::NotFound);
    }
}
