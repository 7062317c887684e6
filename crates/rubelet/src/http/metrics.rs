//! `/metrics`, in the requested format: the Prometheus text format, as a kubelet serves it, or OpenMetrics.

use std::fmt::Write as _;

use axum::extract::State as Extract;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;

use super::State;

const OPEN_METRICS: &str = "application/openmetrics-text";

pub(super) async fn metrics(Extract(state): Extract<State>, headers: HeaderMap) -> Response {
    let mut text = String::new();
    if let Err(error) = encode(&mut text, &state.0.registry) {
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if wants_open_metrics(&accepted.collect::<Vec<_>>().join(",")) {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        ([(header::CONTENT_TYPE, kind)], text).into_response()
    } else {
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], classic(&text)).into_response()
    }
}

/// Whether the client prefers OpenMetrics. A client without a preference gets the Prometheus format, which all
/// understand.
fn wants_open_metrics(accepted: &str) -> bool {
    let weight = |wanted: &str| {
        let of_kind = accepted.split(',').filter_map(|offer| {
            let mut parts = offer.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(wanted));
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
            is_it.then(|| weight.unwrap_or(1.0))
        });
        of_kind.fold(0.0, f32::max)
    };
    let open = weight(OPEN_METRICS);
    open > 0.0 && open >= weight("text/plain")
}

/// Converts to the Prometheus format, in which metrics have the names of their samples, and some types have other
/// names.
fn classic(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        match line.strip_prefix("# ").and_then(|meta| meta.split_once(' ')) {
            Some(("HELP", of_it)) => help = of_it.split_once(' '),
            Some(("TYPE", of_it)) => {
                let (name, kind) = of_it.split_once(' ').unwrap_or((of_it, "unknown"));
                let (ending, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "stateset" => ("", "gauge"),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                if let Some((of_name, words)) = help.take()
                    && of_name == name
                {
                    let _ = writeln!(text, "# HELP {name}{ending} {words}");
                }
                let _ = writeln!(text, "# TYPE {name}{ending} {kind}");
            }
            Some(("UNIT", _)) => {}
            _ if line == "# EOF" => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    #[test]
    fn open_metrics_are_for_those_who_prefer_them() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        let table = [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            (prometheus, true),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("application/json, application/OpenMetrics-text; version=1.0.0", true),
        ];
        for (accepted, wanted) in table {
            assert_eq!(wants_open_metrics(accepted), wanted, "{accepted:?}");
        }
    }

    #[test]
    fn in_the_classic_format_metrics_are_called_as_their_samples_are() {
        let mut registry = Registry::default();
        let counter = Counter::<u64>::default();
        counter.inc();
        registry.register("ended", "How many # HELP ended", counter);
        registry.register_with_unit("age", "How old", Unit::Seconds, Gauge::<i64>::default());
        let took = Histogram::new([1.0]);
        took.observe(0.5);
        registry.register("took", "How long", took);
        registry.register("build", "Which", Info::new([("version", "1\n# EOF")]));
        let mut open = String::new();
        encode(&mut open, &registry).unwrap();
        let wanted = "\
            # HELP ended_total How many # HELP ended.\n# TYPE ended_total counter\nended_total 1\n\
            # HELP age_seconds How old.\n# TYPE age_seconds gauge\nage_seconds 0\n\
            # HELP took How long.\n# TYPE took histogram\ntook_sum 0.5\ntook_count 1\n\
            took_bucket{le=\"1.0\"} 1\ntook_bucket{le=\"+Inf\"} 1\n\
            # HELP build_info Which.\n# TYPE build_info gauge\nbuild_info{version=\"1\\n# EOF\"} 1\n";
        assert_eq!(classic(&open), wanted, "{open}");
    }
}
