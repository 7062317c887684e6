//! The metrics of the PLEG, under the kubelet's names, so that existing dashboards and alerts work.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use rubelet_model::{ContainerState, UnixNanos};

use crate::core::Measure;

/// The kubelet's histogram buckets for these durations, in seconds.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    container_state: &'static str,
}

/// The metrics of a PLEG. Clones share their values. The [`Default`] is not registered anywhere, which suits tests.
#[derive(Clone, Debug)]
pub struct Metrics {
    relist_duration: Histogram,
    relist_interval: Histogram,
    pod_relist_duration: Histogram,
    pub(crate) last_seen: Gauge<f64, AtomicU64>,
    running_pods: Gauge,
    running_containers: Family<StateLabel, Gauge>,
    pub(crate) inspections_in_flight: Gauge,
    unannounced: Counter,
    short_lives: Counter,
    pub(crate) period: Gauge<f64, AtomicU64>,
    recording: Gauge,
    left_out: Counter,
    /// No event is ever lost, so this stays zero.
    discarded: Count,
    pub(crate) streams_failed: Count,
    pub(crate) streams_opened: Count,
    stream_latency: Histogram,
}

/// A counter. Some of the kubelet's names lack the suffix that this format adds to counters, so they are encoded by
/// hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicU64>);

impl Count {
    pub(crate) fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl TypedMetric for Count {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for Count {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        encoder.encode_gauge(&self.0.load(Ordering::Relaxed))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            relist_duration: Histogram::new(SECONDS),
            relist_interval: Histogram::new(SECONDS),
            pod_relist_duration: Histogram::new(SECONDS),
            last_seen: Gauge::default(),
            running_pods: Gauge::default(),
            running_containers: Family::default(),
            inspections_in_flight: Gauge::default(),
            unannounced: Counter::default(),
            short_lives: Counter::default(),
            period: Gauge::default(),
            recording: Gauge::default(),
            left_out: Counter::default(),
            discarded: Count::default(),
            streams_failed: Count::default(),
            streams_opened: Count::default(),
            stream_latency: Histogram::new(SECONDS),
        }
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "kubelet_pleg_relist_duration_seconds",
            "[ALPHA] Duration in seconds for relisting pods in PLEG",
            self.relist_duration.clone(),
        );
        registry.register(
            "kubelet_pleg_relist_interval_seconds",
            "[ALPHA] Interval in seconds between relisting in PLEG",
            self.relist_interval.clone(),
        );
        registry.register(
            "kubelet_pleg_pod_relist_duration_seconds",
            "[ALPHA] Duration in seconds for relisting a single pod in PLEG",
            self.pod_relist_duration.clone(),
        );
        registry.register(
            "kubelet_pleg_last_seen_seconds",
            "[ALPHA] Timestamp in seconds when PLEG was last seen active",
            self.last_seen.clone(),
        );
        registry.register(
            "kubelet_pleg_discard_events",
            "[ALPHA] The number of discard events in PLEG; always zero here",
            self.discarded.clone(),
        );
        registry.register(
            "kubelet_evented_pleg_connection_error_count",
            "[ALPHA] The number of errors encountered during the establishment of streaming connection with the CRI runtime",
            self.streams_failed.clone(),
        );
        registry.register(
            "kubelet_evented_pleg_connection_success_count",
            "[ALPHA] The number of times a streaming client was obtained to receive CRI Events",
            self.streams_opened.clone(),
        );
        registry.register(
            "kubelet_evented_pleg_connection_latency_seconds",
            "[ALPHA] The latency of streaming connection with the CRI runtime, measured in seconds",
            self.stream_latency.clone(),
        );
        registry.register(
            "kubelet_running_pods",
            "[ALPHA] Number of pods that have a running pod sandbox",
            self.running_pods.clone(),
        );
        registry.register(
            "kubelet_running_containers",
            "[ALPHA] Number of containers currently running",
            self.running_containers.clone(),
        );
        registry.register(
            "pleg_unannounced_transitions",
            "Changes found by a list that the runtime had not announced while its event stream was open",
            self.unannounced.clone(),
        );
        registry.register(
            "pleg_short_lives",
            "Containers and sandboxes that were gone before any list showed them, known from events alone",
            self.short_lives.clone(),
        );
        registry.register(
            "pleg_relist_period_seconds",
            "Current time from the end of one list of all pods to the start of the next",
            self.period.clone(),
        );
        registry.register(
            "pleg_recording",
            "Whether the last input of the PLEG was recorded: 1 if it was, 0 if it was not or nobody records",
            self.recording.clone(),
        );
        registry.register(
            "pleg_recording_left_out",
            "Inputs of the PLEG that are not in its recording: the disk was too slow, too small, or failed",
            self.left_out.clone(),
        );
        registry.register(
            "rubelet_pleg_inspections_in_flight",
            "Pods that are being inspected right now",
            self.inspections_in_flight.clone(),
        );
    }

    /// Observes the latency of an announcement that the runtime made at `made`, by its clock, and that was received at
    /// `heard`, by ours.
    pub(crate) fn announced(&self, made: UnixNanos, heard: UnixNanos) {
        let nanos = u64::try_from(heard.0.saturating_sub(made.0)).unwrap_or(0);
        self.stream_latency.observe(Duration::from_nanos(nanos).as_secs_f64());
    }

    #[cfg(feature = "record")]
    pub(crate) fn recorded(&self, noted: crate::record::Noted) {
        let is_taken = noted == crate::record::Noted::Taken;
        self.recording.set(i64::from(is_taken));
        if !is_taken {
            self.left_out.inc();
        }
    }

    pub(crate) fn observe(&self, measure: Measure) {
        match measure {
            Measure::RelistInterval(interval) => self.relist_interval.observe(interval.as_secs_f64()),
            Measure::Relist { took, .. } => self.relist_duration.observe(took.as_secs_f64()),
            Measure::Look(duration) => self.pod_relist_duration.observe(duration.as_secs_f64()),
            Measure::Unannounced(count) => {
                self.unannounced.inc_by(count);
            }
            Measure::ShortLife => {
                self.short_lives.inc();
            }
            Measure::Period { period, .. } => {
                self.period.set(period.as_secs_f64());
            }
            Measure::Running(tally) => {
                self.running_pods.set(tally.running_pods.into());
                for (state, count) in ContainerState::ALL.into_iter().zip(tally.containers) {
                    let label = StateLabel { container_state: state.as_str() };
                    self.running_containers.get_or_create(&label).set(count.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Tally;

    #[test]
    fn the_names_are_the_kubelets() {
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        metrics.observe(Measure::Running(Tally { running_pods: 2, containers: [0, 1, 1, 2] }));
        metrics.observe(Measure::Relist { took: Duration::from_millis(30), asked: None });
        metrics.streams_opened.inc();
        metrics.streams_failed.inc();
        metrics.streams_failed.inc();
        metrics.announced(UnixNanos(1_000_000_000), UnixNanos(1_020_000_000));
        metrics.announced(UnixNanos(2_000_000_000), UnixNanos(1_000_000_000));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        for line in [
            "kubelet_pleg_relist_duration_seconds_bucket{le=\"0.05\"} 1",
            "kubelet_pleg_relist_duration_seconds_count 1",
            "kubelet_pleg_relist_interval_seconds_count 0",
            "kubelet_pleg_pod_relist_duration_seconds_count 0",
            "kubelet_pleg_last_seen_seconds 0.0",
            "kubelet_pleg_discard_events 0",
            "kubelet_evented_pleg_connection_error_count 2",
            "kubelet_evented_pleg_connection_success_count 1",
            "kubelet_evented_pleg_connection_latency_seconds_bucket{le=\"0.025\"} 2",
            "kubelet_evented_pleg_connection_latency_seconds_sum 0.02",
            "kubelet_running_pods 2",
            "kubelet_running_containers{container_state=\"created\"} 0",
            "kubelet_running_containers{container_state=\"running\"} 1",
            "kubelet_running_containers{container_state=\"exited\"} 1",
            "kubelet_running_containers{container_state=\"unknown\"} 2",
        ] {
            assert!(text.lines().any(|has| has == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn a_state_that_falls_to_zero_says_so() {
        let metrics = Metrics::default();
        metrics.observe(Measure::Running(Tally { running_pods: 1, containers: [0, 1, 0, 0] }));
        metrics.observe(Measure::Running(Tally::default()));
        let running = StateLabel { container_state: "running" };
        assert_eq!(metrics.running_containers.get_or_create(&running).get(), 0);
        assert_eq!(metrics.running_pods.get(), 0);
    }
}
