//! Checks what the API server would refuse, in its words, as well as what makes no sense on a node without one. All
//! mistakes in an object are found, not only the first.

mod containers;
mod environment;
mod handlers;
mod metadata;
mod names;
mod node;
mod objects;
mod pod_resources;
mod report;
mod resources;
mod security;
mod volumes;

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::FieldError;
use super::bounded::Bounded;
pub use names::check_node_name;
pub(super) use objects::{config_map, secret};
use report::{Path, Report};

/// The maximum number of containers in a pod, for each kind. The API server limits only the size of the object.
const MOST_CONTAINERS: usize = 500;
/// The maximum size of an object in the API server's store.
const LARGEST_POD: usize = 3 << 19;
/// Linux does not accept longer ones.
const LONGEST_HOST_NAME: usize = 64;

/// Returns everything that is wrong with a pod, which must have its defaults and its name.
pub(super) fn pod(pod: &Pod) -> Bounded<FieldError> {
    let mut report = Report::default();
    metadata::check(&pod.metadata, "invalid pod: name is needed for the pod", &mut report);
    metadata::check_log_folder(&pod.metadata, &mut report);
    security::check_annotations(pod, &mut report);
    match &pod.spec {
        None => report.required(&Path::root("spec"), ""),
        Some(spec) => check_spec(spec, &Path::root("spec"), &mut report),
    }
    let size = serde_json::to_vec(pod).map_or(0, |json| json.len());
    if size > LARGEST_POD {
        report.too_long(&Path::root("spec"), LARGEST_POD, "bytes, with everything in the pod");
    }
    report.into_errors()
}

fn check_spec(spec: &PodSpec, path: &Path, report: &mut Report) {
    report.one_of(
        &path.field("restartPolicy"),
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
    );
    report.not_negative(&path.field("terminationGracePeriodSeconds"), spec.termination_grace_period_seconds);
    if let Some(deadline) =
        spec.active_deadline_seconds.filter(|deadline| !(1..=i64::from(i32::MAX)).contains(deadline))
    {
        report.invalid(
            &path.field("activeDeadlineSeconds"),
            deadline,
            "must be between 1 and 2147483647, inclusive",
        );
    }
    let volumes = volumes::check(spec, &path.field("volumes"), report);
    check_containers(spec, &volumes, path, report);
    pod_resources::check(spec, path, report);
    resources::amounts(spec.overhead.as_ref(), &path.field("overhead"), report);
    security::check_pod(spec, path, report);
    check_hosts(spec, path, report);
    check_dns(spec, path, report);
    node::check(spec, path, report);
    check_cluster_references(spec, path, report);
}

fn check_containers(spec: &PodSpec, volumes: &BTreeSet<String>, path: &Path, report: &mut Report) {
    if spec.containers.is_empty() {
        report.required(&path.field("containers"), "");
    }
    let mut names = BTreeSet::new();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (field, containers, is_init) in
        [("initContainers", init, true), ("containers", &spec.containers[..], false)]
    {
        let path = path.field(field);
        if containers.len() > MOST_CONTAINERS {
            report.too_long(&path, MOST_CONTAINERS, "items");
        }
        let mut host_ports = BTreeSet::new();
        for (index, container) in containers.iter().take(MOST_CONTAINERS).enumerate() {
            let path = path.index(index);
            if is_init {
                // They run one after another.
                host_ports.clear();
            }
            containers::check_host_ports(container, &mut host_ports, &path, report);
            if !names.insert(container.name.as_str()) && !container.name.is_empty() {
                report.duplicate(&path.field("name"), &container.name);
            }
            containers::Check { spec, volumes, container, is_init }.run(&path, report);
        }
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|containers| !containers.is_empty()) {
        report.forbidden(
            &path.field("ephemeralContainers"),
            "ephemeral containers are added to a running pod through the API server; add a container to the manifest \
             instead",
        );
    }
}

fn check_hosts(spec: &PodSpec, path: &Path, report: &mut Report) {
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        // An empty name counts as none.
        let name = name.as_deref().filter(|name| !name.is_empty());
        report.check(&path.field(field), name, names::dns_label);
    }
    check_hostname_override(spec, &path.field("hostnameOverride"), report);
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = path.field("hostAliases").index(index);
        ip(&alias.ip, &path.field("ip"), report);
        for (index, name) in alias.hostnames.iter().flatten().enumerate() {
            report.check(&path.field("hostnames").index(index), Some(name), names::dns_subdomain);
        }
    }
}

fn check_hostname_override(spec: &PodSpec, path: &Path, report: &mut Report) {
    let Some(name) = &spec.hostname_override else { return };
    report.check(path, Some(name), names::dns_subdomain);
    if name.len() > LONGEST_HOST_NAME {
        report.too_long(path, LONGEST_HOST_NAME, "characters");
    }
    if spec.host_network == Some(true) {
        report.forbidden(
            path,
            "may not be set together with `hostNetwork`, with which a pod has the host name of its node",
        );
    }
    if spec.set_hostname_as_fqdn == Some(true) {
        report.forbidden(path, "may not be set together with `setHostnameAsFQDN`; set the full name here");
    }
}

fn check_dns(spec: &PodSpec, path: &Path, report: &mut Report) {
    const POLICIES: &[&str] = &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    report.one_of(&path.field("dnsPolicy"), spec.dns_policy.as_deref(), POLICIES);
    let config = spec.dns_config.clone().unwrap_or_default();
    let path = path.field("dnsConfig");
    let servers = config.nameservers.unwrap_or_default();
    if spec.dns_policy.as_deref() == Some("None") && servers.is_empty() {
        report.required(
            &path.field("nameservers"),
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        );
    }
    if servers.len() > 3 {
        report.invalid(&path.field("nameservers"), servers.len(), "must not have more than 3 nameservers");
    }
    for (index, server) in servers.iter().enumerate() {
        ip(server, &path.field("nameservers").index(index), report);
    }
    let searches = config.searches.unwrap_or_default();
    if searches.len() > 32 {
        report.invalid(&path.field("searches"), searches.len(), "must not have more than 32 search paths");
    }
    for (index, search) in searches.iter().enumerate() {
        let name = search.strip_suffix('.').unwrap_or(search);
        report.check(
            &path.field("searches").index(index),
            Some(name).filter(|name| !name.is_empty()),
            names::search_path,
        );
    }
    for (index, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_ref().is_none_or(String::is_empty) {
            report.required(&path.field("options").index(index).field("name"), "must not be empty");
        }
        for (field, text) in [("name", &option.name), ("value", &option.value)] {
            let path = path.field("options").index(index).field(field);
            report.check(&path, text.as_deref(), names::one_line);
        }
    }
}

/// Checks for objects that only an API server can have, and for what others do to a pod through one.
fn check_cluster_references(spec: &PodSpec, path: &Path, report: &mut Report) {
    let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    for (field, given, what) in [
        ("serviceAccountName", given(&spec.service_account_name), "serviceaccounts"),
        ("serviceAccount", given(&spec.service_account), "serviceaccounts"),
        (
            "resourceClaims",
            spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
            "resourceclaims",
        ),
        ("runtimeClassName", given(&spec.runtime_class_name), "runtimeclasses"),
    ] {
        if given {
            report.forbidden(&path.field(field), &format!("static pods may not reference {what}"));
        }
    }
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let path = path.field("readinessGates").index(index).field("conditionType");
        report.check(&path, Some(&gate.condition_type), names::qualified);
    }
    if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
        report.forbidden(&path.field("schedulingGates"), "nothing here could ever remove a gate");
    }
    if let Some(os) = &spec.os {
        report.one_of(&path.field("os").field("name"), Some(&os.name), &["linux", "windows"]);
    }
}

fn ip(text: &str, path: &Path, report: &mut Report) {
    if text.parse::<IpAddr>().is_err() {
        report.invalid_text(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

#[cfg(test)]
mod tests;
