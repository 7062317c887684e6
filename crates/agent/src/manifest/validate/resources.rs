//! Requests and limits.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerResizePolicy, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::names;
use super::report::{Path, Report};
use crate::resource::Quantity;

/// Checks the requests and limits of one container.
pub(super) fn check(resources: &ResourceRequirements, path: &Path, report: &mut Report) {
    let limits = amounts(resources.limits.as_ref(), &path.field("limits"), report);
    let requests = amounts(resources.requests.as_ref(), &path.field("requests"), report);
    for (name, request) in &requests {
        let path = path.field("requests").key(name);
        let text = shown(resources.requests.as_ref(), name);
        let huge = name.starts_with("hugepages-");
        match limits.get(name) {
            Some(limit) if request > limit => {
                let limit = shown(resources.limits.as_ref(), name);
                report.invalid_text(
                    &path,
                    text,
                    &format!("must be less than or equal to {name} limit of {limit}"),
                );
            }
            Some(limit) if request != limit && (huge || is_extended(name)) => {
                let limit = shown(resources.limits.as_ref(), name);
                report.invalid_text(&path, text, &format!("must be equal to {name} limit of {limit}"));
            }
            None if huge || is_extended(name) => {
                report.required(&path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    let is_given = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| wanted(name));
    if is_given(is_huge_pages) && !is_given(|name| matches!(name, "cpu" | "memory")) {
        report.forbidden(path, "HugePages require cpu or memory");
    }
    if resources.claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        report.forbidden(&path.field("claims"), "static pods may not reference resourceclaims");
    }
}

/// Checks a container's resize policy.
pub(super) fn check_resize(
    policies: &[ContainerResizePolicy],
    never_restarts: bool,
    path: &Path,
    report: &mut Report,
) {
    let mut seen = BTreeSet::new();
    for (index, ContainerResizePolicy { resource_name, restart_policy }) in policies.iter().enumerate() {
        let path = path.index(index);
        let required =
            |field: &str, value: &str, supported: &'static [&'static str], report: &mut Report| match value {
                "" => report.required(&path.field(field), ""),
                _ => report.one_of(&path.field(field), Some(value), supported),
            };
        required("resourceName", resource_name, &["cpu", "memory"], report);
        required("restartPolicy", restart_policy, &["NotRequired", "RestartContainer"], report);
        if !seen.insert(resource_name) {
            report.duplicate(&path, resource_name);
        }
        if never_restarts && restart_policy == "RestartContainer" {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            report.invalid_text(&path.field("restartPolicy"), restart_policy, detail);
        }
    }
}

/// Whether it is a device or the like: `example.com/gpu`. Only whole ones can be used, and no more than there are.
fn is_extended(name: &str) -> bool {
    name.contains('/')
}

fn shown<'a>(list: Option<&'a BTreeMap<String, WireQuantity>>, name: &str) -> &'a str {
    list.and_then(|list| list.get(name)).map_or("", |amount| amount.0.as_str())
}

/// Whether it is `hugepages-2Mi`, with any page size. The name appears in many places, so it must be plain.
pub(super) fn is_huge_pages(name: &str) -> bool {
    page_size(name).is_some()
}

fn page_size(name: &str) -> Option<Quantity> {
    let size = name.strip_prefix("hugepages-")?.parse::<Quantity>().ok()?;
    (size > Quantity::ZERO && names::qualified(name).is_ok()).then_some(size)
}

/// Returns the valid quantities in a list; reports what is wrong with the others.
pub(super) fn amounts<'a>(
    list: Option<&'a BTreeMap<String, WireQuantity>>,
    path: &Path,
    report: &mut Report,
) -> BTreeMap<&'a str, Quantity> {
    let mut amounts = BTreeMap::new();
    for (name, text) in list.into_iter().flatten() {
        let path = path.key(name);
        if name.starts_with("hugepages-") && !is_huge_pages(name) {
            let detail = "must be hugepages-<size> with a size of pages (e.g. hugepages-2Mi)";
            report.invalid_text(&path, name, detail);
            continue;
        }
        let standard = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name);
        if !standard && !is_extended(name) {
            report.invalid_text(&path, name, "must be a standard resource for containers (cpu, memory, ephemeral-storage, hugepages-<size>) or fully qualified (e.g. example.com/gpu)");
        } else if !standard {
            report.check(&path, Some(name), names::qualified);
        }
        let Some(amount) = quantity(text, &path, report) else { continue };
        if is_extended(name) && !amount.is_whole() {
            report.invalid_text(&path, &text.0, "must be an integer");
        }
        if page_size(name).is_some_and(|size| !amount.is_multiple_of(size)) {
            let detail = format!("{} is not positive integer multiple of {name}", text.0);
            report.invalid_text(&path, &text.0, &detail);
        }
        amounts.insert(name.as_str(), amount);
    }
    amounts
}

/// Parses a quantity, which must be valid and not negative.
pub(super) fn quantity(text: &WireQuantity, path: &Path, report: &mut Report) -> Option<Quantity> {
    match Quantity::of(text) {
        Ok(amount) if amount.is_negative() => {
            report.invalid_text(path, &text.0, "must be greater than or equal to 0");
            None
        }
        Ok(amount) => Some(amount),
        Err(error) => {
            report.invalid_text(path, &text.0, &error.to_string());
            None
        }
    }
}
