//! The requests and limits of a pod as a whole, and how those of its containers fit into them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::report::{Path, Report};
use super::resources;
use crate::pod::{notation, requests_of_containers};
use crate::resource::Quantity;

type Amounts = BTreeMap<String, WireQuantity>;

/// Checks the requests and limits of a pod, if it has any.
pub(super) fn check(spec: &PodSpec, path: &Path, report: &mut Report) {
    let Some(own) = &spec.resources else { return };
    let pod_path = path;
    let path = path.field("resources");
    resources::check(own, &path, report);
    for (field, list) in [("limits", &own.limits), ("requests", &own.requests)] {
        for name in list.iter().flatten().map(|(name, _)| name) {
            if !matches!(name.as_str(), "cpu" | "memory") && !name.starts_with("hugepages-") {
                report.unsupported(
                    &path.field(field).key(name),
                    name,
                    &["cpu", "memory", "hugepages-<size>"],
                );
            }
        }
    }
    check_requests(spec, own.requests.as_ref(), &path.field("requests"), report);
    for (name, limit, text) in read(own.limits.as_ref()) {
        for (index, container) in spec.containers.iter().enumerate() {
            if let Some((_, shown)) = limit_of(container, name).filter(|(own, _)| *own > limit) {
                let path =
                    pod_path.field("containers").index(index).field("resources").field("limits").key(name);
                report.invalid_text(
                    &path,
                    shown,
                    &format!("must be less than or equal to pod limits of {text}"),
                );
            }
        }
        if name.starts_with("hugepages-") {
            check_huge_pages(spec, name, limit, &path.field("limits").key(name), report);
        }
    }
}

/// A pod must request at least what its containers request together.
fn check_requests(spec: &PodSpec, own: Option<&Amounts>, path: &Path, report: &mut Report) {
    let pod = Pod { spec: Some(spec.clone()), ..Pod::default() };
    let together = requests_of_containers(&pod);
    for (name, request, text) in read(own) {
        if let Some(asked) = together.get(name).filter(|asked| **asked > request) {
            let least = notation(&pod, |resources| resources.requests.as_ref(), name).write(*asked).0;
            let detail = format!("must be greater than or equal to aggregate container requests of {least}");
            report.invalid_text(&path.key(name), text, &detail);
        }
    }
}

/// Only the cgroups of the containers limit huge pages, so together the containers must not have more than the pod.
fn check_huge_pages(spec: &PodSpec, name: &str, limit: Quantity, path: &Path, report: &mut Report) {
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    // A container without its own limit has that of the pod.
    let own = |container: &Container| limit_of(container, name).map_or(limit, |(own, _)| own);
    let together: Quantity = spec.containers.iter().chain(sidecars).map(own).sum();
    if together > limit {
        let detail = "not enforceable: give each container a limit, together within the pod's";
        report.forbidden(path, detail);
    }
}

fn limit_of<'a>(container: &'a Container, name: &str) -> Option<(Quantity, &'a str)> {
    let text = container.resources.as_ref()?.limits.as_ref()?.get(name)?;
    Some((Quantity::of(text).ok()?, text.0.as_str()))
}

/// Returns the valid quantities, with their texts; [`resources::check`] reports the others.
fn read(list: Option<&Amounts>) -> impl Iterator<Item = (&str, Quantity, &str)> {
    let amount = |(name, text)| {
        let (name, text): (&String, &WireQuantity) = (name, text);
        Some((name.as_str(), Quantity::of(text).ok()?, text.0.as_str()))
    };
    list.into_iter().flatten().filter_map(amount)
}
