//! What sandboxes and containers use.

use rubelet_model::{ContainerId, SandboxId};

use super::{NO_TIME, RuntimeClient, method};
use crate::{Error, Operation, v1};

impl RuntimeClient {
    /// What a container uses.
    pub async fn container_stats(&self, id: &ContainerId) -> Result<v1::ContainerStats, Error> {
        let request = v1::ContainerStatsRequest { container_id: id.to_string() };
        let answer: v1::ContainerStatsResponse =
            self.0.unary(Operation::ContainerStats, method!("ContainerStats"), NO_TIME, &request).await?;
        answer.stats.ok_or_else(|| self.missing(Operation::ContainerStats, "stats"))
    }

    /// What the containers use that the filter lets through. Read as a stream if it is too large for one answer.
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

    /// What a sandbox uses.
    pub async fn pod_sandbox_stats(&self, id: &SandboxId) -> Result<v1::PodSandboxStats, Error> {
        let request = v1::PodSandboxStatsRequest { pod_sandbox_id: id.to_string() };
        let answer: v1::PodSandboxStatsResponse =
            self.0.unary(Operation::PodSandboxStats, method!("PodSandboxStats"), NO_TIME, &request).await?;
        answer.stats.ok_or_else(|| self.missing(Operation::PodSandboxStats, "stats"))
    }

    /// What the sandboxes use that the filter lets through. Read as a stream if it is too large for one answer.
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

    /// Which metrics the runtime has.
    pub async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>, Error> {
        let request = v1::ListMetricDescriptorsRequest {};
        let path = method!("ListMetricDescriptors");
        let answer: v1::ListMetricDescriptorsResponse =
            self.0.unary(Operation::ListMetricDescriptors, path, NO_TIME, &request).await?;
        Ok(answer.descriptors)
    }

    /// The runtime's metrics of every sandbox. Read as a stream if they are too large for one answer.
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
