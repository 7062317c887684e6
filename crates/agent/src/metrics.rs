//! The agent's numbers, under the kubelet's names, so that existing dashboards and alerts work.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::pod::ContainerKind;
use crate::probe::ProbeMetrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    container_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabel {
    container_type: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StaticLabel {
    r#static: &'static str,
}

/// The numbers. Clones share their values; [`Default`] is not registered anywhere, which is fine for tests.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    started_pods: Counter,
    failed_pods: Counter,
    started_containers: Family<KindLabel, Counter>,
    failed_containers: Family<FailureLabel, Counter>,
    desired_pods: Family<StaticLabel, Gauge>,
    refused_pods: Family<ReasonLabel, Counter>,
    orphans: Counter,
    lost_actors: Counter,
    pub(crate) probes: ProbeMetrics,
}

impl Metrics {
    /// Shows the numbers in a registry.
    pub fn register(&self, registry: &mut Registry) {
        self.probes.register(registry);
        registry.register(
            "kubelet_started_pods",
            "Cumulative number of pods started",
            self.started_pods.clone(),
        );
        registry.register(
            "kubelet_started_pods_errors",
            "Cumulative number of errors when starting pods",
            self.failed_pods.clone(),
        );
        registry.register(
            "kubelet_started_containers",
            "Cumulative number of containers started",
            self.started_containers.clone(),
        );
        registry.register(
            "kubelet_started_containers_errors",
            "Cumulative number of errors when starting containers",
            self.failed_containers.clone(),
        );
        registry.register(
            "kubelet_desired_pods",
            "The number of pods that should run here",
            self.desired_pods.clone(),
        );
        registry.register(
            "kubelet_admission_rejections",
            "Cumulative number of pods that the node did not take",
            self.refused_pods.clone(),
        );
        registry.register(
            "kubelet_orphaned_runtime_pods",
            "Cumulative number of pods that were found in the runtime although nobody wants them",
            self.orphans.clone(),
        );
        registry.register(
            "rubelet_lost_actors",
            "Cumulative number of pod actors that panicked and were made anew",
            self.lost_actors.clone(),
        );
    }

    pub(crate) fn pod_started(&self) {
        self.started_pods.inc();
    }

    pub(crate) fn pod_failed(&self) {
        self.failed_pods.inc();
    }

    pub(crate) fn container_started(&self, kind: ContainerKind) {
        self.started_containers.get_or_create(&KindLabel { container_type: kind.as_str() }).inc();
    }

    pub(crate) fn container_failed(&self, kind: ContainerKind, code: &'static str) {
        self.failed_containers.get_or_create(&FailureLabel { container_type: kind.as_str(), code }).inc();
    }

    pub(crate) fn desired_pods(&self, count: usize) {
        let gauge = self.desired_pods.get_or_create(&StaticLabel { r#static: "true" });
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn pod_refused(&self, reason: &'static str) {
        self.refused_pods.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn orphan(&self) {
        self.orphans.inc();
    }

    pub(crate) fn actor_lost(&self) {
        self.lost_actors.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_the_kubelets() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        metrics.container_started(ContainerKind::Init);
        metrics.container_failed(ContainerKind::Regular, "ErrImagePull");
        metrics.desired_pods(3);
        metrics.pod_refused("OutOfcpu");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "kubelet_started_containers_total{container_type=\"init_container\"} 1",
            "kubelet_started_containers_errors_total{container_type=\"container\",code=\"ErrImagePull\"} 1",
            "kubelet_desired_pods{static=\"true\"} 3",
            "kubelet_started_pods_total 0",
            "kubelet_admission_rejections_total{reason=\"OutOfcpu\"} 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
