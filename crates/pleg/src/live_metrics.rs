//! Numbers that are worked out when somebody asks for them, and so grow while a call hangs.

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
            "How long ago the last list of all pods that succeeded was asked for",
            seconds,
            health.last_list.unwrap_or_else(|| now.since_start()).as_secs_f64(),
        )?;
        gauge(
            "pleg_list_in_flight",
            "For how long the list of all pods under way has been waited for; zero if there is none",
            seconds,
            oldest(|stage| matches!(stage, Stage::List)).as_secs_f64(),
        )?;
        gauge(
            "pleg_look_in_flight",
            "For how long the oldest look at a single pod under way has been waited for; zero if there is none",
            seconds,
            oldest(|stage| matches!(stage, Stage::Look(_))).as_secs_f64(),
        )?;
        gauge(
            "pleg_inspection_in_flight",
            "For how long the oldest status call under way has been waited for; zero if there is none",
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
            "Pods that wait for their inspection to begin for longer than that should take",
            None,
            health.waiting_pods as f64,
        )
    }
}
