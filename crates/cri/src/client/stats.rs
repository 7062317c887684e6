//! Resource usage of sandboxes and containers.

use rubelet_model::{ContainerId, SandboxId};

use super::{NO_TIME, RuntimeClient, method};
use crate::{Error, Operation, v1};

impl RuntimeClient {
    /// Returns the resource usage of a container.
    pub async fn container_stats(&self, id: &ContainerId) -> Result<v1::ContainerStats, Error> {
        let request = v1::ContainerStatsRequest { container_id: id.to_string() };
        let answer: v1::ContainerStatsResponse =
            self.0.unary(Operation::ContainerStats, method!("ContainerStats"), NO_TIME, &request).await?;
        answer.stats.ok_or_else(|| self.missing(Operation::ContainerStats, "stats"))
    }

    /// Returns the resource usage of the containers that match the filter. It is read as a stream if it does not fit
    /// into one answer.
    pub async fn list_container_stats(
        &self,
        filter: Option<v1::ContainerStatsFilter>,
    ) -> Result<Vec<v1::ContainerStats>, Error> {
        let request = v1::ListContainerStatsRequest { filter };
        self.0
            .list(
                Operation::ListContainerStats,
                (method!("ListContainerStats"), |answer: v1::ListContainerStatsResponse| answer.stats),
                (method!("StreamContainerStats"), |part: v1::StreamContainerStatsResponse| {
                    part.container_stats
                }),
                &request,
            )
            .await
    }

    /// Returns the resource usage of a sandbox.
    pub async fn pod_sandbox_stats(&self, id: &SandboxId) -> Result<v1::PodSandboxStats, Error> {
        let request = v1::PodSandboxStatsRequest { pod_sandbox_id: id.to_string() };
        let answer: v1::PodSandboxStatsResponse =
            self.0.unary(Operation::PodSandboxStats, method!("PodSandboxStats"), NO_TIME, &request).await?;
        answer.stats.ok_or_else(|| self.missing(Operation::PodSandboxStats, "stats"))
    }

    /// Returns the resource usage of the sandboxes that match the filter. It is read as a stream if it does not fit
    /// into one answer.
    pub async fn list_pod_sandbox_stats(
        &self,
        filter: Option<v1::PodSandboxStatsFilter>,
    ) -> Result<Vec<v1::PodSandboxStats>, Error> {
        let request = v1::ListPodSandboxStatsRequest { filter };
        self.0
            .list(
                Operation::ListPodSandboxStats,
                (method!("ListPodSandboxStats"), |answer: v1::ListPodSandboxStatsResponse| answer.stats),
                (method!("StreamPodSandboxStats"), |part: v1::StreamPodSandboxStatsResponse| {
                    part.pod_sandbox_stats
                }),
                &request,
            )
            .await
    }

    /// Returns the descriptors of the metrics that the runtime provides.
    pub async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>, Error> {
        let request = v1::ListMetricDescriptorsRequest {};
        let path = method!("ListMetricDescriptors");
        let answer: v1::ListMetricDescriptorsResponse =
            self.0.unary(Operation::ListMetricDescriptors, path, NO_TIME, &request).await?;
        Ok(answer.descriptors)
    }

    /// Returns the runtime's metrics of all sandboxes. They are read as a stream if they do not fit into one answer.
    pub async fn list_pod_sandbox_metrics(&self) -> Result<Vec<v1::PodSandboxMetrics>, Error> {
        let request = v1::ListPodSandboxMetricsRequest {};
        self.0
            .list(
                Operation::ListPodSandboxMetrics,
                (method!("ListPodSandboxMetrics"), |answer: v1::ListPodSandboxMetricsResponse| {
                    answer.pod_metrics
                }),
                (method!("StreamPodSandboxMetrics"), |part: v1::StreamPodSandboxMetricsResponse| {
                    part.pod_sandbox_metrics
                }),
                &request,
            )
            .await
    }
}
