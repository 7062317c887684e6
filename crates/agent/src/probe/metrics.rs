//! The metrics of probes, under the kubelet's names where it has them.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use rubelet_model::PodRef;

use super::course::{Kind, Verdict};
use super::delays::{Delays, ProbeDelays};
use crate::under_way::Held;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    probe_type: &'static str,
    result: &'static str,
    container: String,
    pod: String,
    namespace: String,
    pod_uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    probe_type: &'static str,
    container: String,
    pod: String,
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    probe_type: &'static str,
}

const RESULTS: [&str; 3] = ["successful", "failed", "unknown"];

/// The metrics of probes. Clones share their values.
#[derive(Clone, Debug)]
pub(crate) struct ProbeMetrics {
    results: Family<ResultLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    lateness: Family<KindLabel, Histogram, fn() -> Histogram>,
    waiting: Gauge,
    running: Gauge,
    delays: Delays,
}

fn duration_buckets() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

fn lateness_buckets() -> Histogram {
    Histogram::new([0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0])
}

impl Default for ProbeMetrics {
    fn default() -> Self {
        Self {
            results: Family::default(),
            durations: Family::new_with_constructor(duration_buckets),
            lateness: Family::new_with_constructor(lateness_buckets),
            waiting: Gauge::default(),
            running: Gauge::default(),
            delays: Delays::default(),
        }
    }
}

impl ProbeMetrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "prober_probe",
            "Cumulative number of a liveness, readiness or startup probe for a container by result",
            self.results.clone(),
        );
        registry.register(
            "prober_probe_duration_seconds",
            "Time until a container answered a probe",
            self.durations.clone(),
        );
        registry.register("rubelet_probe_lateness_seconds", "How late probes ran", self.lateness.clone());
        registry.register(
            "rubelet_exec_probes_waiting",
            "Exec probes that are due but queued",
            self.waiting.clone(),
        );
        registry.register(
            "rubelet_exec_probes_running",
            "Exec probes that are running",
            self.running.clone(),
        );
    }

    /// Records how late a due probe was asked.
    pub(super) fn late(&self, kind: Kind, by: Duration) {
        self.delays.note_lateness(by);
        let label = KindLabel { probe_type: kind.as_str() };
        self.lateness.get_or_create(&label).observe(by.as_secs_f64());
    }

    /// Records that a probe was answered, or could not be asked.
    pub(super) fn answered(
        &self,
        kind: Kind,
        pod: &PodRef,
        container: &str,
        answer: Option<Verdict>,
        took: Duration,
    ) {
        let result = match answer {
            Some(Verdict::Success) => RESULTS[0],
            Some(Verdict::Failure) => RESULTS[1],
            None => RESULTS[2],
        };
        self.results.get_or_create(&result_labels(kind, pod, container, result)).inc();
        if answer.is_some() {
            self.durations.get_or_create(&duration_labels(kind, pod, container)).observe(took.as_secs_f64());
        }
    }

    /// Removes the metrics of a container that is gone; they would only pile up.
    pub(super) fn forget(&self, kind: Kind, pod: &PodRef, container: &str) {
        for result in RESULTS {
            self.results.remove(&result_labels(kind, pod, container, result));
        }
        self.durations.remove(&duration_labels(kind, pod, container));
    }

    /// Records that a command waits, for as long as the returned value lives.
    pub(super) fn command_waits(&self) -> impl Drop + use<> {
        self.waiting.inc();
        Counted { waiting: self.waiting.clone(), _waits: self.delays.waits() }
    }

    /// Returns how late probes are.
    pub(crate) fn delays(&self) -> ProbeDelays {
        self.delays.now()
    }

    pub(super) fn command_begins(&self) {
        self.running.inc();
    }

    pub(super) fn command_ended(&self) {
        self.running.dec();
    }
}

struct Counted {
    waiting: Gauge,
    _waits: Held<tokio::time::Instant>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.waiting.dec();
    }
}

fn result_labels(kind: Kind, pod: &PodRef, container: &str, result: &'static str) -> ResultLabels {
    ResultLabels {
        probe_type: kind.as_str(),
        result,
        container: container.to_owned(),
        pod: pod.name.to_string(),
        namespace: pod.namespace.to_string(),
        pod_uid: pod.uid.to_string(),
    }
}

fn duration_labels(kind: Kind, pod: &PodRef, container: &str) -> DurationLabels {
    DurationLabels {
        probe_type: kind.as_str(),
        container: container.to_owned(),
        pod: pod.name.to_string(),
        namespace: pod.namespace.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn names_and_labels_are_the_kubelets_and_go_with_the_pod() {
        let (metrics, mut registry) = (ProbeMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let pod = PodRef::new("1", "default", "web");
        metrics.answered(Kind::Readiness, &pod, "c", Some(Verdict::Failure), Duration::from_millis(20));
        metrics.answered(Kind::Readiness, &pod, "c", None, Duration::from_millis(20));
        metrics.late(Kind::Liveness, Duration::from_secs(3));
        let shown = text(&registry);
        for line in [
            "prober_probe_total{probe_type=\"Readiness\",result=\"failed\",container=\"c\",pod=\"web\",namespace=\"default\",pod_uid=\"1\"} 1",
            "prober_probe_duration_seconds_count{probe_type=\"Readiness\",container=\"c\",pod=\"web\",namespace=\"default\"} 1",
            "rubelet_probe_lateness_seconds_bucket{le=\"5.0\",probe_type=\"Liveness\"} 1",
            "rubelet_exec_probes_running 0",
        ] {
            assert!(shown.contains(line), "{line}\n{shown}");
        }
        metrics.forget(Kind::Readiness, &pod, "c");
        assert!(!text(&registry).contains("pod=\"web\""));
    }
}
