//! A probe in one line: `http-get http://:8080/healthz delay=0s timeout=1s period=10s #success=1 #failure=3`.

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub(super) fn words(probe: &Probe) -> String {
    let seconds = |seconds: Option<i32>, usual: i32| seconds.unwrap_or(usual);
    let timing = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        seconds(probe.initial_delay_seconds, 0),
        seconds(probe.timeout_seconds, 1),
        seconds(probe.period_seconds, 10),
        seconds(probe.success_threshold, 1),
        seconds(probe.failure_threshold, 3),
    );
    format!("{} {timing}", action(probe))
}

fn action(probe: &Probe) -> String {
    let port = |port: &IntOrString| match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    if let Some(exec) = &probe.exec {
        format!("exec [{}]", exec.command.as_deref().unwrap_or_default().join(" "))
    } else if let Some(http) = &probe.http_get {
        let scheme = http.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let host = http.host.as_deref().unwrap_or_default();
        let path = http.path.as_deref().unwrap_or("/");
        format!("http-get {scheme}://{host}:{}{path}", port(&http.port))
    } else if let Some(tcp) = &probe.tcp_socket {
        format!("tcp-socket {}:{}", tcp.host.as_deref().unwrap_or_default(), port(&tcp.port))
    } else if let Some(grpc) = &probe.grpc {
        format!("grpc <pod>:{} {}", grpc.port, grpc.service.as_deref().unwrap_or_default())
            .trim_end()
            .to_owned()
    } else {
        "unknown".to_owned()
    }
}
