//! `env` and `envFrom`.

use k8s_openapi::api::core::v1::{Container, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};

use super::report::{Path, Report};
use super::{names, resources};
use crate::downward::subscript;

const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels['<KEY>']",
    "metadata.annotations['<KEY>']",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "limits.hugepages-<size>",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.hugepages-<size>",
];

pub(super) fn check(container: &Container, path: &Path, report: &mut Report) {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let path = path.field("env").index(index);
        report.require(&path.field("name"), &variable.name, names::variable);
        if let Some(from) = &variable.value_from {
            let path = path.field("valueFrom");
            if variable.value.as_ref().is_some_and(|value| !value.is_empty()) {
                report.invalid_text(&path, "", "may not be specified when `value` is not empty");
            }
            check_source(from, &path, report);
        }
    }
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        let path = path.field("envFrom").index(index);
        report.check(&path.field("prefix"), source.prefix.as_deref(), names::variable);
        match (&source.config_map_ref, &source.secret_ref) {
            (None, None) => {
                report.invalid_text(&path, "", "must specify one of: `configMapRef` or `secretRef`");
            }
            (Some(_), Some(_)) => {
                report.invalid_text(&path, "", "may not have more than one field specified at a time");
            }
            (Some(map), None) => {
                report.require(&path.field("configMapRef").field("name"), &map.name, names::dns_subdomain);
            }
            (None, Some(secret)) => {
                report.require(&path.field("secretRef").field("name"), &secret.name, names::dns_subdomain);
            }
        }
    }
}

fn check_source(from: &EnvVarSource, path: &Path, report: &mut Report) {
    let given = [
        from.field_ref.is_some(),
        from.resource_field_ref.is_some(),
        from.config_map_key_ref.is_some(),
        from.secret_key_ref.is_some(),
        from.file_key_ref.is_some(),
    ];
    match given.into_iter().filter(|given| *given).count() {
        0 => {
            let detail =
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
            report.invalid_text(path, "", detail);
        }
        1 => {}
        _ => report.invalid_text(path, "", "may not have more than one field specified at a time"),
    }
    if let Some(field) = &from.field_ref {
        check_version(field, &path.field("fieldRef"), report);
        let path = path.field("fieldRef").field("fieldPath");
        if field.field_path.is_empty() {
            report.required(&path, "");
        } else if !is_label_or_annotation(&field.field_path) && !FIELDS.contains(&field.field_path.as_str()) {
            report.unsupported(&path, &field.field_path, FIELDS);
        }
    }
    if let Some(selector) = &from.resource_field_ref {
        check_resource(selector, &path.field("resourceFieldRef"), report);
    }
    if let Some(key) = &from.config_map_key_ref {
        check_key(&key.name, &key.key, &path.field("configMapKeyRef"), report);
    }
    if let Some(key) = &from.secret_key_ref {
        check_key(&key.name, &key.key, &path.field("secretKeyRef"), report);
    }
    if from.file_key_ref.is_some() {
        report.forbidden(&path.field("fileKeyRef"), "variables from files are not supported here");
    }
}

/// Whether the path is that of one label or annotation. The rule ignores the case of annotation keys.
pub(super) fn is_label_or_annotation(path: &str) -> bool {
    match subscript(path) {
        Some(("metadata.labels", key)) => names::qualified(key).is_ok(),
        Some(("metadata.annotations", key)) => names::qualified(&key.to_lowercase()).is_ok(),
        _ => false,
    }
}

/// The version of field paths must be `v1`, the only one.
pub(super) fn check_version(field: &ObjectFieldSelector, path: &Path, report: &mut Report) {
    let version = field.api_version.as_deref().filter(|version| !version.is_empty());
    report.one_of(&path.field("apiVersion"), version, &["v1"]);
}

fn check_key(name: &str, key: &str, path: &Path, report: &mut Report) {
    report.require(&path.field("name"), name, names::dns_subdomain);
    report.require(&path.field("key"), key, names::config_key);
}

/// Checks a selector of a container's resource.
pub(super) fn check_resource(selector: &ResourceFieldSelector, path: &Path, report: &mut Report) {
    let (kind, resource) = selector.resource.split_once('.').unwrap_or_default();
    let known =
        matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resources::is_huge_pages(resource);
    if selector.resource.is_empty() {
        report.required(&path.field("resource"), "");
    } else if !known || !matches!(kind, "limits" | "requests") {
        report.unsupported(&path.field("resource"), &selector.resource, RESOURCES);
    }
    let path = path.field("divisor");
    let Some(text) = &selector.divisor else { return };
    let Some(divisor) = resources::quantity(text, &path, report) else { return };
    const DECIMAL: &[&str] = &["1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let allowed = |texts: &[&str]| texts.iter().any(|text| text.parse() == Ok(divisor));
    let fits = divisor.is_zero()
        || allowed(&["1"])
        || if resource == "cpu" { allowed(&["1m"]) } else { allowed(DECIMAL) };
    if !fits {
        let detail = if resource == "cpu" {
            "only divisor's values 1m and 1 are supported with the cpu resource"
        } else {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with this resource"
        };
        report.invalid_text(&path, &text.0, detail);
    }
}
