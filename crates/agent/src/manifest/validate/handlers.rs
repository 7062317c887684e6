//! Probes, lifecycle handlers, and their actions.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, LifecycleHandler, PodSpec, Probe, SleepAction,
    TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::names;
use super::report::{Path, Report};
use crate::pod::stop_signal;

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

pub(super) fn check_probes(container: &Container, path: &Path, report: &mut Report) {
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (field, probe) in probes {
        let Some(probe) = probe else { continue };
        let path = path.field(field);
        check_probe(probe, &path, report);
        if field == "readinessProbe" {
            if let Some(grace) = probe.termination_grace_period_seconds {
                report.invalid(
                    &path.field("terminationGracePeriodSeconds"),
                    grace,
                    "must not be set for readinessProbes",
                );
            }
        } else if let Some(threshold) = probe.success_threshold.filter(|threshold| *threshold != 1) {
            report.invalid(&path.field("successThreshold"), threshold, "must be 1");
        }
    }
}

fn check_probe(probe: &Probe, path: &Path, report: &mut Report) {
    for (field, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        report.not_negative(&path.field(field), value);
    }
    if let Some(grace) = probe.termination_grace_period_seconds.filter(|grace| *grace <= 0) {
        report.invalid(&path.field("terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
    let actions = Actions {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    actions.check(path, report);
}

pub(super) fn check_lifecycle(container: &Container, spec: &PodSpec, path: &Path, report: &mut Report) {
    let Some(lifecycle) = &container.lifecycle else { return };
    let path = path.field("lifecycle");
    for (field, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(handler) = handler {
            check_handler(handler, spec, &path.field(field), report);
        }
    }
    if let Some(signal) = &lifecycle.stop_signal {
        let path = path.field("stopSignal");
        if spec.os.is_none() {
            report.forbidden(&path, "may not be set for containers with empty `spec.os.name`");
        } else if stop_signal::read(signal).is_none() {
            let detail = "must be the name of a signal of Linux, such as SIGTERM, SIGUSR1 or SIGRTMIN+3";
            report.invalid(&path, signal, detail);
        }
    }
}

fn check_handler(handler: &LifecycleHandler, spec: &PodSpec, path: &Path, report: &mut Report) {
    if handler.tcp_socket.is_some() {
        report.forbidden(
            &path.field("tcpSocket"),
            "a lifecycle handler cannot be a tcpSocket; use exec, httpGet or sleep",
        );
    }
    if let Some(SleepAction { seconds }) = handler.sleep {
        let grace = spec.termination_grace_period_seconds.unwrap_or_default();
        if seconds < 0 || seconds > grace {
            let detail =
                format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            report.invalid(&path.field("sleep").field("seconds"), seconds, &detail);
        }
    }
    let actions = Actions {
        exec: handler.exec.as_ref(),
        http_get: handler.http_get.as_ref(),
        tcp_socket: handler.tcp_socket.as_ref(),
        grpc: None,
        sleep: handler.sleep.as_ref(),
    };
    actions.check(path, report);
}

/// The possible actions of a probe or handler, of which one must be given.
struct Actions<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl Actions<'_> {
    fn check(&self, path: &Path, report: &mut Report) {
        let given = [
            ("exec", self.exec.is_some()),
            ("httpGet", self.http_get.is_some()),
            ("tcpSocket", self.tcp_socket.is_some()),
            ("grpc", self.grpc.is_some()),
            ("sleep", self.sleep.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, given)| *given).map(|(field, _)| field);
        if given.next().is_none() {
            report.required(path, "must specify a handler type");
        }
        for second in given {
            report.forbidden(&path.field(second), "may not specify more than 1 handler type");
        }
        if self.exec.is_some_and(|action| action.command.as_ref().is_none_or(Vec::is_empty)) {
            report.required(&path.field("exec").field("command"), "");
        }
        if let Some(action) = self.http_get {
            check_http_get(action, &path.field("httpGet"), report);
        }
        if let Some(action) = self.tcp_socket {
            check_port(&action.port, &path.field("tcpSocket").field("port"), report);
        }
        if let Some(action) = self.grpc {
            check_port(&IntOrString::Int(action.port), &path.field("grpc").field("port"), report);
        }
    }
}

fn check_http_get(action: &HTTPGetAction, path: &Path, report: &mut Report) {
    check_port(&action.port, &path.field("port"), report);
    report.one_of(&path.field("scheme"), action.scheme.as_deref(), &["HTTP", "HTTPS"]);
    for (index, header) in action.http_headers.iter().flatten().enumerate() {
        report.require(&path.field("httpHeaders").index(index).field("name"), &header.name, header_name);
    }
}

fn check_port(port: &IntOrString, path: &Path, report: &mut Report) {
    match port {
        IntOrString::Int(number) if !(1..=65535).contains(number) => report.invalid(path, number, PORT_RANGE),
        IntOrString::Int(_) => {}
        IntOrString::String(name) => report.require(path, name, names::port_name),
    }
}

fn header_name(name: &str) -> Result<(), &'static str> {
    let allowed = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if allowed {
        Ok(())
    } else {
        Err("a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name')")
    }
}
