//! The agent's metrics, under the kubelet's names so that existing dashboards and alerts work.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::pod::ContainerKind;
pub use crate::probe::ProbeDelays;
use crate::probe::ProbeMetrics;

/// The buckets for work on a pod, in seconds.
const WORK: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The buckets for starting a pod, in seconds.
const START: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// The buckets for the number of containers in a pod.
const CONTAINERS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

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
struct EndLabel {
    container_type: &'static str,
    exit_code: i64,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StaticLabel {
    r#static: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct WorkerLabel {
    lifecycle: &'static str,
    config: &'static str,
    r#static: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabel {
    node: String,
}

/// What an actor does to its pod, in the kubelet's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Sync,
    Kill,
    Terminated,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Sync => "sync",
            Self::Kill => "kill",
            Self::Terminated => "terminated",
        }
    }
}

/// Whether a pod is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    BySource,
    /// No source wants it any more.
    NoLonger,
    /// Only the runtime has ever known it.
    NotKnown,
}

/// A pod that has an actor, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedPod {
    pub(crate) lifecycle: &'static str,
    pub(crate) wanted: Wanted,
    /// Whether it came from a file or a URL.
    pub(crate) is_static: bool,
    /// Whether it may still be running.
    pub(crate) is_active: bool,
}

/// The agent's metrics. Clones share their values; [`Default`] is not registered anywhere, which is fine for tests.
#[derive(Clone, Debug)]
pub struct Metrics {
    started_pods: Counter,
    failed_pods: Counter,
    started_containers: Family<KindLabel, Counter>,
    failed_containers: Family<FailureLabel, Counter>,
    ended_containers: Family<EndLabel, Counter>,
    desired_pods: Family<StaticLabel, Gauge>,
    active_pods: Family<StaticLabel, Gauge>,
    /// Always zero, as long as there is no API server to mirror pods in.
    mirror_pods: Gauge,
    node_name: Family<NodeLabel, Gauge>,
    working_pods: Family<WorkerLabel, Gauge>,
    restarted_pods: Family<StaticLabel, Counter>,
    rejected_pods: Family<ReasonLabel, Counter>,
    collected_images: Family<ReasonLabel, Counter>,
    orphans: Counter,
    lost_actors: Counter,
    pub(crate) probes: ProbeMetrics,
    work: Family<OperationLabel, Histogram, fn() -> Histogram>,
    work_start: Histogram,
    pod_start: Histogram,
    pod_start_total: Histogram,
    pod_start_sli: Histogram,
    containers_per_pod: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            started_pods: Counter::default(),
            failed_pods: Counter::default(),
            started_containers: Family::default(),
            failed_containers: Family::default(),
            ended_containers: Family::default(),
            desired_pods: Family::default(),
            active_pods: Family::default(),
            mirror_pods: Gauge::default(),
            node_name: Family::default(),
            working_pods: Family::default(),
            restarted_pods: Family::default(),
            rejected_pods: Family::default(),
            collected_images: Family::default(),
            orphans: Counter::default(),
            lost_actors: Counter::default(),
            probes: ProbeMetrics::default(),
            work: Family::new_with_constructor(|| Histogram::new(WORK)),
            work_start: Histogram::new(WORK),
            pod_start: Histogram::new(START),
            pod_start_total: Histogram::new(START),
            pod_start_sli: Histogram::new(START),
            containers_per_pod: Histogram::new(CONTAINERS),
        }
    }
}

fn of_source(is_static: bool) -> StaticLabel {
    StaticLabel { r#static: if is_static { "true" } else { "" } }
}

impl Metrics {
    /// Returns how late probes currently are.
    #[must_use]
    pub fn probe_delays(&self) -> ProbeDelays {
        self.probes.delays()
    }

    /// Exposes the name of the node, with which alerts join other series.
    pub fn of_node(&self, name: &str) {
        self.node_name.get_or_create(&NodeLabel { node: name.to_owned() }).set(1);
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.probes.register(registry);
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter("kubelet_started_pods", "[ALPHA] Cumulative number of pods started", &self.started_pods);
        counter(
            "kubelet_started_pods_errors",
            "[ALPHA] Cumulative number of errors when starting pods",
            &self.failed_pods,
        );
        counter(
            "kubelet_orphaned_runtime_pods",
            "[ALPHA] Cumulative number of pods found in the runtime that no source wants",
            &self.orphans,
        );
        counter(
            "rubelet_lost_actors",
            "Cumulative number of pod actors that panicked and were restarted",
            &self.lost_actors,
        );
        self.register_containers(registry);
        self.register_pods(registry);
        self.register_times(registry);
    }

    fn register_containers(&self, registry: &mut Registry) {
        registry.register(
            "kubelet_started_containers",
            "[ALPHA] Cumulative number of containers started",
            self.started_containers.clone(),
        );
        registry.register(
            "kubelet_started_containers_errors",
            "[ALPHA] Cumulative number of errors when starting containers",
            self.failed_containers.clone(),
        );
        registry.register(
            "kubelet_terminated_containers",
            "[ALPHA] Cumulative number of containers that terminated, by how they did",
            self.ended_containers.clone(),
        );
    }

    fn register_pods(&self, registry: &mut Registry) {
        registry.register(
            "kubelet_desired_pods",
            "[ALPHA] The number of pods that should run here",
            self.desired_pods.clone(),
        );
        registry.register(
            "kubelet_active_pods",
            "[ALPHA] The number of pods that may still run",
            self.active_pods.clone(),
        );
        registry.register(
            "kubelet_mirror_pods",
            "[ALPHA] The number of mirror pods the kubelet will try to create (one per admitted static pod); always zero here",
            self.mirror_pods.clone(),
        );
        registry.register(
            "kubelet_node_name",
            "[ALPHA] The node's name. The count is always 1.",
            self.node_name.clone(),
        );
        registry.register(
            "kubelet_working_pods",
            "[ALPHA] The number of pods that have an actor, by lifecycle stage",
            self.working_pods.clone(),
        );
        registry.register(
            "kubelet_restarted_pods",
            "[ALPHA] Cumulative number of pods that were removed and added again with the same UID before they were \
             gone",
            self.restarted_pods.clone(),
        );
        registry.register(
            "kubelet_admission_rejections",
            "[ALPHA] Cumulative number of pods that this node rejected, by reason",
            self.rejected_pods.clone(),
        );
        registry.register(
            "kubelet_image_garbage_collected",
            "[ALPHA] Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
            self.collected_images.clone(),
        );
    }

    fn register_times(&self, registry: &mut Registry) {
        registry.register(
            "kubelet_pod_worker_duration_seconds",
            "[ALPHA] Duration of one round of bringing a pod to its desired state",
            self.work.clone(),
        );
        let mut histogram = |name: &str, help: &str, histogram: &Histogram| {
            registry.register(name, help, histogram.clone());
        };
        histogram(
            "kubelet_pod_worker_start_duration_seconds",
            "[ALPHA] Time from when a pod was first seen until work on it began",
            &self.work_start,
        );
        histogram(
            "kubelet_pod_start_duration_seconds",
            "[ALPHA] Time from when a pod was first seen until it was observed running",
            &self.pod_start,
        );
        histogram(
            "kubelet_pod_start_total_duration_seconds",
            "[ALPHA] Time from when a pod was first seen until it was reported running, including image pulls",
            &self.pod_start_total,
        );
        histogram(
            "kubelet_pod_start_sli_duration_seconds",
            "[ALPHA] Time from when a pod was first seen until it was reported running, excluding image pulls",
            &self.pod_start_sli,
        );
        histogram(
            "kubelet_containers_per_pod_count",
            "[ALPHA] The number of containers of a pod",
            &self.containers_per_pod,
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

    pub(crate) fn container_ended(&self, kind: ContainerKind, exit_code: i32, reason: &str) {
        let label = EndLabel {
            container_type: kind.as_str(),
            exit_code: exit_code.into(),
            reason: reason.to_owned(),
        };
        self.ended_containers.get_or_create(&label).inc();
    }

    pub(crate) fn desired_pods(&self, count: usize) {
        self.desired_pods.get_or_create(&of_source(true)).set(i64::try_from(count).unwrap_or(i64::MAX));
        // As long as there is no API server, there are no others.
        self.desired_pods.get_or_create(&of_source(false)).set(0);
    }

    /// Sets the number of pods in each state.
    pub(crate) fn pods(&self, pods: impl Iterator<Item = CountedPod>) {
        let mut working: BTreeMap<WorkerLabel, i64> = BTreeMap::new();
        let mut active = [0_i64; 2];
        for pod in pods {
            let label = WorkerLabel {
                lifecycle: pod.lifecycle,
                config: match pod.wanted {
                    Wanted::BySource => "desired",
                    Wanted::NoLonger => "orphan",
                    Wanted::NotKnown => "runtime_only",
                },
                r#static: match pod.wanted {
                    Wanted::NotKnown => "unknown",
                    Wanted::BySource | Wanted::NoLonger => of_source(pod.is_static).r#static,
                },
            };
            *working.entry(label).or_default() += 1;
            active[usize::from(pod.is_static)] += i64::from(pod.is_active);
        }
        // Series of what no longer exists must disappear as well.
        self.working_pods.clear();
        for (label, count) in working {
            self.working_pods.get_or_create(&label).set(count);
        }
        for is_static in [false, true] {
            self.active_pods.get_or_create(&of_source(is_static)).set(active[usize::from(is_static)]);
        }
    }

    pub(crate) fn pod_restarted(&self, is_static: bool) {
        self.restarted_pods.get_or_create(&of_source(is_static)).inc();
    }

    pub(crate) fn pod_rejected(&self, reason: &str) {
        self.rejected_pods.get_or_create(&ReasonLabel { reason: reason.to_owned() }).inc();
    }

    /// Counts an image that was removed to free disk space.
    pub(crate) fn image_collected(&self) {
        self.collected_images.get_or_create(&ReasonLabel { reason: "space".to_owned() }).inc();
    }

    pub(crate) fn orphan(&self) {
        self.orphans.inc();
    }

    pub(crate) fn actor_lost(&self) {
        self.lost_actors.inc();
    }

    pub(crate) fn worked(&self, operation: Operation, took: Duration) {
        let label = OperationLabel { operation_type: operation.as_str() };
        self.work.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// Records how long after a pod was first seen the work on it began.
    pub(crate) fn work_begins(&self, after: Duration, containers: usize) {
        self.work_start.observe(after.as_secs_f64());
        self.containers_per_pod.observe(u32::try_from(containers).map_or(f64::MAX, f64::from));
    }

    /// Records how long after it was first seen a pod was running, and how much of that its image pulls took.
    pub(crate) fn pod_runs(&self, after: Duration, pulling: Duration) {
        self.pod_start.observe(after.as_secs_f64());
        self.pod_start_total.observe(after.as_secs_f64());
        self.pod_start_sli.observe(after.saturating_sub(pulling).as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_the_kubelets() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.of_node("node1");
        metrics.register(&mut registry);
        metrics.container_started(ContainerKind::Init);
        metrics.container_failed(ContainerKind::Regular, "ErrImagePull");
        metrics.container_ended(ContainerKind::Regular, 137, "OOMKilled");
        metrics.desired_pods(3);
        metrics.pod_restarted(true);
        metrics.pod_rejected("OutOfcpu");
        metrics.worked(Operation::Create, Duration::from_millis(20));
        metrics.work_begins(Duration::from_millis(2), 3);
        metrics.pod_runs(Duration::from_secs(7), Duration::from_secs(5));
        let pod =
            CountedPod { lifecycle: "sync", wanted: Wanted::BySource, is_static: true, is_active: true };
        let ended = CountedPod { lifecycle: "terminated", is_active: false, ..pod };
        let unwanted = CountedPod { lifecycle: "terminating", wanted: Wanted::NoLonger, ..pod };
        let orphan = CountedPod { wanted: Wanted::NotKnown, is_static: false, ..unwanted };
        metrics.pods([ended, ended].into_iter());
        metrics.pods([pod, pod, ended, unwanted, orphan].into_iter());
        metrics.image_collected();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "kubelet_started_containers_total{container_type=\"init_container\"} 1",
            "kubelet_started_containers_errors_total{container_type=\"container\",code=\"ErrImagePull\"} 1",
            "kubelet_terminated_containers_total{container_type=\"container\",exit_code=\"137\",reason=\"OOMKilled\"} 1",
            "kubelet_desired_pods{static=\"true\"} 3",
            "kubelet_desired_pods{static=\"\"} 0",
            "kubelet_active_pods{static=\"true\"} 3",
            "kubelet_active_pods{static=\"\"} 1",
            "kubelet_mirror_pods 0",
            "kubelet_node_name{node=\"node1\"} 1",
            "kubelet_working_pods{lifecycle=\"terminating\",config=\"orphan\",static=\"true\"} 1",
            "kubelet_working_pods{lifecycle=\"terminating\",config=\"runtime_only\",static=\"unknown\"} 1",
            "kubelet_image_garbage_collected_total{reason=\"space\"} 1",
            "# HELP kubelet_started_pods [ALPHA] Cumulative number of pods started",
            "kubelet_working_pods{lifecycle=\"sync\",config=\"desired\",static=\"true\"} 2",
            "kubelet_working_pods{lifecycle=\"terminated\",config=\"desired\",static=\"true\"} 1",
            "kubelet_restarted_pods_total{static=\"true\"} 1",
            "kubelet_admission_rejections_total{reason=\"OutOfcpu\"} 1",
            "kubelet_pod_worker_duration_seconds_bucket{le=\"0.025\",operation_type=\"create\"} 1",
            "kubelet_pod_worker_start_duration_seconds_count 1",
            "kubelet_containers_per_pod_count_bucket{le=\"2.0\"} 0",
            "kubelet_containers_per_pod_count_bucket{le=\"4.0\"} 1",
            "kubelet_pod_start_duration_seconds_bucket{le=\"8.0\"} 1",
            "kubelet_pod_start_total_duration_seconds_sum 7.0",
            "kubelet_pod_start_sli_duration_seconds_sum 2.0",
            "kubelet_started_pods_total 0",
            "kubelet_admission_rejections_total{reason=\"OutOfcpu\"} 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
