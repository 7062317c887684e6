//! Metrics that are computed on demand, so that they grow while a call hangs.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::progress::Stage;
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct LiveMetrics(pub(crate) Weak<Shared>);

impl Collector for LiveMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let now = shared.clock.stamp();
        let calls = shared.board.calls();
        let oldest = |is_it: fn(&Stage) -> bool| -> Duration {
            let ages = calls.iter().filter(|(stage, _)| is_it(stage)).map(|(_, call)| call.since.until(now));
            ages.max().unwrap_or_default()
        };
        let health = shared.health();
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: f64| {
            let gauge = ConstGauge::new(value);
            let encoder =
                encoder.encode_descriptor(name, help, unit, prometheus_client::metrics::MetricType::Gauge)?;
            gauge.encode(encoder)
        };
        let seconds = Some(&Unit::Seconds);
        gauge(
            "pleg_list_age",
            "How long ago the last successful list of all pods was requested",
            seconds,
            health.last_list.unwrap_or_else(|| now.since_start()).as_secs_f64(),
        )?;
        gauge(
            "pleg_list_in_flight",
            "How long the current list of all pods has been in flight; zero if there is none",
            seconds,
            oldest(|stage| matches!(stage, Stage::List)).as_secs_f64(),
        )?;
        gauge(
            "pleg_look_in_flight",
            "How long the oldest list of a single pod has been in flight; zero if there is none",
            seconds,
            oldest(|stage| matches!(stage, Stage::Look(_))).as_secs_f64(),
        )?;
        gauge(
            "pleg_inspection_in_flight",
            "How long the oldest status call has been in flight; zero if there is none",
            seconds,
            oldest(|stage| matches!(stage, Stage::Inspect(_))).as_secs_f64(),
        )?;
        gauge(
            "rubelet_pleg_stuck_pods",
            "Pods that cannot be inspected: their status calls hang or fail",
            None,
            health.stuck_pods.len() as f64,
        )?;
        gauge(
            "rubelet_pleg_waiting_pods",
            "Pods that have waited too long for their inspection to begin",
            None,
            health.waiting_pods as f64,
        )
    }
}
