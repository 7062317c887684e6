//! Counts and durations of the calls, under the kubelet's metric names, so that its dashboards and alerts keep working.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::Operation;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    operation_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByHandler {
    runtime_handler: String,
}

/// Counters and histograms of calls. Clones share their values.
///
/// One set may serve any number of clients.
#[derive(Clone, Debug)]
pub struct Metrics {
    operations: Family<ByOperation, Counter>,
    durations: Family<ByOperation, Histogram, fn() -> Histogram>,
    errors: Family<ByOperation, Counter>,
    sandbox_durations: Family<ByHandler, Histogram, fn() -> Histogram>,
    sandbox_errors: Family<ByHandler, Counter>,
}

fn operation_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.5, 14))
}

fn sandbox_buckets() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

impl Default for Metrics {
    /// Creates metrics that are not registered anywhere.
    fn default() -> Self {
        Self {
            operations: Family::default(),
            durations: Family::new_with_constructor(operation_buckets),
            errors: Family::default(),
            sandbox_durations: Family::new_with_constructor(sandbox_buckets),
            sandbox_errors: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers the metric families, under the kubelet's names.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "kubelet_runtime_operations",
            "[ALPHA] Calls to the container runtime, by operation type",
            self.operations.clone(),
        );
        registry.register(
            "kubelet_runtime_operations_duration_seconds",
            "[ALPHA] How long calls to the container runtime take, by operation type",
            self.durations.clone(),
        );
        registry.register(
            "kubelet_runtime_operations_errors",
            "[ALPHA] Calls to the container runtime that failed, by operation type",
            self.errors.clone(),
        );
        registry.register(
            "kubelet_run_podsandbox_duration_seconds",
            "[ALPHA] How long it takes to make and start a sandbox, by runtime handler",
            self.sandbox_durations.clone(),
        );
        registry.register(
            "kubelet_run_podsandbox_errors",
            "[ALPHA] Sandboxes that could not be made or started, by runtime handler",
            self.sandbox_errors.clone(),
        );
    }

    /// The number of calls of `operation`.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        read(&self.operations, operation)
    }

    /// The number of calls of `operation` that failed.
    #[must_use]
    pub fn errors(&self, operation: Operation) -> u64 {
        read(&self.errors, operation)
    }

    pub(crate) fn started(&self, operation: Operation) {
        self.operations.get_or_create(&label(operation)).inc();
    }

    pub(crate) fn finished(&self, operation: Operation, took: Duration, failed: bool) {
        self.durations.get_or_create(&label(operation)).observe(took.as_secs_f64());
        if failed {
            self.errors.get_or_create(&label(operation)).inc();
        }
    }

    pub(crate) fn sandbox_run(&self, handler: &str, took: Duration, failed: bool) {
        let label = ByHandler { runtime_handler: handler.to_owned() };
        self.sandbox_durations.get_or_create(&label).observe(took.as_secs_f64());
        if failed {
            self.sandbox_errors.get_or_create(&label).inc();
        }
    }
}

fn label(operation: Operation) -> ByOperation {
    ByOperation { operation_type: operation.as_str() }
}

fn read(family: &Family<ByOperation, Counter>, operation: Operation) -> u64 {
    family.get(&label(operation)).map_or(0, |counter| counter.get())
}
