//! Containers and init containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, VolumeMount};

use super::report::{Path, Report};
use super::{environment, handlers, names, resources, security};

const MOST_RESTART_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;

/// One container, and its surroundings.
pub(super) struct Check<'a> {
    pub(super) spec: &'a PodSpec,
    /// The volumes of the pod.
    pub(super) volumes: &'a BTreeSet<String>,
    pub(super) container: &'a Container,
    pub(super) is_init: bool,
}

impl Check<'_> {
    pub(super) fn run(&self, path: &Path, report: &mut Report) {
        let container = self.container;
        report.require(&path.field("name"), &container.name, names::dns_label);
        check_image(container, path, report);
        const MESSAGES: &[&str] = &["File", "FallbackToLogsOnError"];
        report.one_of(
            &path.field("terminationMessagePolicy"),
            container.termination_message_policy.as_deref(),
            MESSAGES,
        );
        report.check(
            &path.field("terminationMessagePath"),
            container.termination_message_path.as_deref(),
            names::no_backsteps,
        );

        self.check_ports(path, report);
        environment::check(container, path, report);
        self.check_mounts(path, report);
        if let Some(resources) = &container.resources {
            resources::check(resources, &path.field("resources"), report);
        }
        resources::check_resize(
            container.resize_policy.as_deref().unwrap_or_default(),
            self.spec.restart_policy.as_deref() == Some("Never"),
            &path.field("resizePolicy"),
            report,
        );
        self.check_restarts(path, report);
        self.check_handlers(path, report);
        security::check_container(self.spec, container, &path.field("securityContext"), report);
    }

    fn is_sidecar(&self) -> bool {
        self.is_init && self.container.restart_policy.as_deref() == Some("Always")
    }

    fn check_ports(&self, path: &Path, report: &mut Report) {
        let mut seen = BTreeSet::new();
        for (index, port) in self.container.ports.iter().flatten().enumerate() {
            let path = path.field("ports").index(index);
            if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
                report.check(&path.field("name"), Some(name), names::port_name);
                if !seen.insert(name) {
                    report.duplicate(&path.field("name"), name);
                }
            }
            check_port_numbers(port, &path, report);
            report.one_of(&path.field("protocol"), port.protocol.as_deref(), &["SCTP", "TCP", "UDP"]);
            let host = port.host_port.unwrap_or_default();
            if self.spec.host_network == Some(true) && host != 0 && host != port.container_port {
                report.invalid(
                    &path.field("hostPort"),
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
            if let Some(address) = port.host_ip.as_deref().filter(|address| !address.is_empty()) {
                super::ip(address, &path.field("hostIP"), report);
            }
        }
    }

    fn check_mounts(&self, path: &Path, report: &mut Report) {
        let mut points = BTreeSet::new();
        for (index, mount) in self.container.volume_mounts.iter().flatten().enumerate() {
            let path = path.field("volumeMounts").index(index);
            if mount.name.is_empty() {
                report.required(&path.field("name"), "");
            } else if !self.volumes.contains(&mount.name) {
                report.not_found(&path.field("name"), &mount.name);
            }
            report.require(&path.field("mountPath"), &mount.mount_path, mount_path);
            if !points.insert(mount.mount_path.as_str()) {
                report.invalid_text(&path.field("mountPath"), &mount.mount_path, "must be unique");
            }
            self.check_mount(mount, &path, report);
        }
        if self.container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
            report.forbidden(
                &path.field("volumeDevices"),
                "static pods may not reference persistentvolumeclaims",
            );
        }
    }

    fn check_mount(&self, mount: &VolumeMount, path: &Path, report: &mut Report) {
        let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        report.check(&path.field("subPath"), mount.sub_path.as_deref(), names::relative_path);
        report.check(&path.field("subPathExpr"), mount.sub_path_expr.as_deref(), names::relative_path);
        if let Some(expression) =
            mount.sub_path_expr.as_deref().filter(|_| given(&mount.sub_path) && given(&mount.sub_path_expr))
        {
            report.invalid_text(
                &path.field("subPathExpr"),
                expression,
                "subPathExpr and subPath are mutually exclusive",
            );
        }
        const PROPAGATION: &[&str] = &["None", "HostToContainer", "Bidirectional"];
        report.one_of(&path.field("mountPropagation"), mount.mount_propagation.as_deref(), PROPAGATION);
        let privileged =
            self.container.security_context.as_ref().and_then(|context| context.privileged) == Some(true);
        if mount.mount_propagation.as_deref() == Some("Bidirectional") && !privileged {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            report.forbidden(&path.field("mountPropagation"), detail);
        }
        let path = path.field("recursiveReadOnly");
        report.one_of(&path, mount.recursive_read_only.as_deref(), &["Disabled", "IfPossible", "Enabled"]);
        if matches!(mount.recursive_read_only.as_deref(), Some("IfPossible" | "Enabled")) {
            if mount.read_only != Some(true) {
                report.forbidden(&path, "may only be specified when readOnly is true");
            }
            if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
                report
                    .forbidden(&path, "may only be specified when mountPropagation is None or not specified");
            }
        }
    }

    fn check_restarts(&self, path: &Path, report: &mut Report) {
        let policy = self.container.restart_policy.as_deref();
        report.one_of(&path.field("restartPolicy"), policy, &["Always", "OnFailure", "Never"]);
        let Some(rules) = self.container.restart_policy_rules.as_ref().filter(|rules| !rules.is_empty())
        else {
            return;
        };
        let path = path.field("restartPolicyRules");
        if policy.is_none() {
            report.required(&path, "must specify restartPolicy when restart rules are used");
        }
        if rules.len() > MOST_RESTART_RULES {
            report.too_long(&path, MOST_RESTART_RULES, "items");
        }
        for (index, rule) in rules.iter().enumerate() {
            let path = path.index(index);
            report.one_of(&path.field("action"), Some(&rule.action), &["Restart", "RestartAllContainers"]);
            let Some(codes) = &rule.exit_codes else {
                report.required(&path.field("exitCodes"), "must be specified");
                continue;
            };
            let path = path.field("exitCodes");
            report.one_of(&path.field("operator"), Some(&codes.operator), &["In", "NotIn"]);
            let values = codes.values.as_deref().unwrap_or_default();
            if values.is_empty() {
                report.invalid(&path.field("values"), "[]", "must specify at least one value");
            } else if values.len() > MOST_EXIT_CODES {
                report.too_long(&path.field("values"), MOST_EXIT_CODES, "items");
            }
        }
    }

    fn check_handlers(&self, path: &Path, report: &mut Report) {
        let container = self.container;
        if self.is_init && !self.is_sidecar() {
            for (field, given) in [
                ("lifecycle", container.lifecycle.is_some()),
                ("livenessProbe", container.liveness_probe.is_some()),
                ("readinessProbe", container.readiness_probe.is_some()),
                ("startupProbe", container.startup_probe.is_some()),
            ] {
                if given {
                    report.forbidden(
                        &path.field(field),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
            return;
        }
        handlers::check_probes(container, path, report);
        handlers::check_lifecycle(container, self.spec, path, report);
    }
}

fn check_image(container: &Container, path: &Path, report: &mut Report) {
    let image = container.image.as_deref().unwrap_or_default();
    report.require(&path.field("image"), image, |image| {
        if image.trim() == image { Ok(()) } else { Err("must not have leading or trailing whitespace") }
    });
    let policy = container.image_pull_policy.as_deref();
    report.one_of(&path.field("imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]);
}

fn check_port_numbers(port: &ContainerPort, path: &Path, report: &mut Report) {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    match port.container_port {
        0 => report.required(&path.field("containerPort"), ""),
        1..=65535 => {}
        number => report.invalid(&path.field("containerPort"), number, RANGE),
    }
    if let Some(number) = port.host_port.filter(|number| *number != 0 && !(1..=65535).contains(number)) {
        report.invalid(&path.field("hostPort"), number, RANGE);
    }
}

fn mount_path(path: &str) -> Result<(), &'static str> {
    if path.contains(':') { Err("must not contain ':'") } else { names::no_backsteps(path) }
}

/// Two containers that run at the same time cannot have the same host port.
pub(super) fn check_host_ports(
    container: &Container,
    taken: &mut BTreeSet<String>,
    path: &Path,
    report: &mut Report,
) {
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let Some(host) = port.host_port.filter(|host| *host != 0) else { continue };
        let address = port.host_ip.as_deref().filter(|address| *address != "0.0.0.0").unwrap_or_default();
        let claim = format!("{}/{}/{host}", address, port.protocol.as_deref().unwrap_or("TCP"));
        if !taken.insert(claim.clone()) {
            report.duplicate(&path.field("ports").index(index).field("hostPort"), &claim);
        }
    }
}
