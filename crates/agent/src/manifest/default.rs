//! The defaults that the API server would fill in.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, DownwardAPIVolumeFile, EmptyDirVolumeSource, HTTPGetAction, LifecycleHandler,
    ObjectFieldSelector, Pod, PodSecurityContext, Probe, ResourceFieldSelector, ResourceRequirements, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use crate::pod::{limits_of_containers, notation, requests_of_containers};
use crate::resource::{Notation, Quantity, canonical};
use crate::volumes::DEFAULT_FILE_MODE;

/// Fills in everything that is not specified.
pub(super) fn pod(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else { return };
    set(&mut spec.restart_policy, "Always");
    set(&mut spec.dns_policy, "ClusterFirst");
    set(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.enable_service_links.get_or_insert(true);
    spec.security_context.get_or_insert_with(PodSecurityContext::default);

    let host_network = spec.host_network == Some(true);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        self::container(container, host_network);
    }
    for volume in spec.volumes.iter_mut().flatten() {
        self::volume(volume);
    }
    spec.resources.iter_mut().for_each(resources);
    spec.overhead.iter_mut().for_each(amounts);
    pod_huge_pages(pod);
    pod_resources(pod);
}

fn container(container: &mut Container, host_network: bool) {
    let pull_policy =
        if is_latest(container.image.as_deref().unwrap_or_default()) { "Always" } else { "IfNotPresent" };
    set(&mut container.image_pull_policy, pull_policy);
    set(&mut container.termination_message_path, "/dev/termination-log");
    set(&mut container.termination_message_policy, "File");
    if let Some(context) = &mut container.security_context {
        set(&mut context.proc_mount, "Default");
    }
    for port in container.ports.iter_mut().flatten() {
        self::port(port, host_network);
    }
    for variable in container.env.iter_mut().flatten() {
        let Some(from) = &mut variable.value_from else { continue };
        from.field_ref.iter_mut().for_each(field);
        from.resource_field_ref.iter_mut().for_each(resource_field);
    }
    for probe in [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe]
    {
        probe.iter_mut().for_each(self::probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop] {
            handler.iter_mut().for_each(self::handler);
        }
    }
    if let Some(resources) = &mut container.resources {
        self::resources(resources);
        requests_from_limits(resources);
    }
}

fn port(port: &mut ContainerPort, host_network: bool) {
    set(&mut port.protocol, "TCP");
    if host_network && port.host_port.is_none_or(|host| host == 0) {
        port.host_port = Some(port.container_port);
    }
}

fn probe(probe: &mut Probe) {
    set_number(&mut probe.timeout_seconds, 1);
    set_number(&mut probe.period_seconds, 10);
    set_number(&mut probe.success_threshold, 1);
    set_number(&mut probe.failure_threshold, 3);
    probe.http_get.iter_mut().for_each(http_get);
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_with(String::new);
    }
}

fn handler(handler: &mut LifecycleHandler) {
    handler.http_get.iter_mut().for_each(http_get);
}

fn http_get(action: &mut HTTPGetAction) {
    set(&mut action.path, "/");
    set(&mut action.scheme, "HTTP");
}

fn field(field: &mut ObjectFieldSelector) {
    set(&mut field.api_version, "v1");
}

fn volume(volume: &mut Volume) {
    if crate::volumes::given_kinds(volume).next().is_none() {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(limit) = volume.empty_dir.as_mut().and_then(|source| source.size_limit.as_mut()) {
        *limit = canonical(limit);
    }
    if let Some(source) = &mut volume.host_path {
        source.type_.get_or_insert_with(String::new);
    }
    if let Some(source) = &mut volume.config_map {
        source.default_mode.get_or_insert(DEFAULT_FILE_MODE);
    }
    if let Some(source) = &mut volume.secret {
        source.default_mode.get_or_insert(DEFAULT_FILE_MODE);
    }
    if let Some(source) = &mut volume.downward_api {
        source.default_mode.get_or_insert(DEFAULT_FILE_MODE);
        downward(source.items.as_mut());
    }
    if let Some(source) = &mut volume.projected {
        source.default_mode.get_or_insert(DEFAULT_FILE_MODE);
        for projection in source.sources.iter_mut().flatten() {
            downward(projection.downward_api.as_mut().and_then(|source| source.items.as_mut()));
        }
    }
}

fn downward(items: Option<&mut Vec<DownwardAPIVolumeFile>>) {
    for item in items.into_iter().flatten() {
        item.field_ref.iter_mut().for_each(field);
        item.resource_field_ref.iter_mut().for_each(resource_field);
    }
}

fn resource_field(field: &mut ResourceFieldSelector) {
    field.divisor.iter_mut().for_each(|divisor| *divisor = canonical(divisor));
}

/// Rewrites quantities in the canonical form of the API: `0.5` becomes `500m`.
fn resources(resources: &mut ResourceRequirements) {
    resources.requests.iter_mut().chain(&mut resources.limits).for_each(amounts);
}

/// In lists of resources, nothing is finer than a thousandth.
fn amounts(list: &mut BTreeMap<String, WireQuantity>) {
    for wire in list.values_mut() {
        *wire = match Quantity::of(wire) {
            Ok(amount) if amount.to_millis() != amount => Notation::of(&wire.0).write(amount.to_millis()),
            _ => canonical(wire),
        };
    }
}

/// A limit is also the request, unless there is an explicit one.
fn requests_from_limits(resources: &mut ResourceRequirements) {
    let limits = resources.limits.clone().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// Gives a pod that has any resources of its own the huge pages that its containers may use, unless it specifies its
/// own.
fn pod_huge_pages(pod: &mut Pod) {
    let of_containers = limits_of_containers(pod).into_iter();
    let pages = of_containers.filter(|(name, _)| name.starts_with("hugepages-")).map(|(name, amount)| {
        let text = notation(pod, |resources| resources.limits.as_ref(), &name).write(amount);
        (name, text)
    });
    let pages: Vec<_> = pages.collect();
    let Some(resources) = pod.spec.as_mut().and_then(|spec| spec.resources.as_mut()) else { return };
    let says = |list: &Option<BTreeMap<_, _>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if !says(&resources.limits) && !says(&resources.requests) {
        return;
    }
    for (name, amount) in pages {
        if !resources.requests.as_ref().is_some_and(|requests| requests.contains_key(&name)) {
            resources.limits.get_or_insert_default().entry(name).or_insert(amount);
        }
    }
}

/// Does the same for the pod as a whole, if it has limits: it requests the sum of what its containers request, and its
/// limit of whatever none of them requests.
fn pod_resources(pod: &mut Pod) {
    let asked = requests_of_containers(pod);
    let written = |(name, amount): (String, _)| {
        let text = notation(pod, |resources| resources.requests.as_ref(), &name).write(amount);
        (name, text)
    };
    let mut asked: BTreeMap<_, _> = asked.into_iter().map(written).collect();
    let Some(resources) = pod.spec.as_mut().and_then(|spec| spec.resources.as_mut()) else { return };
    let limits = resources.limits.clone().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = resources.requests.get_or_insert_default();
    for name in OVERCOMMITTED {
        if let Some(amount) = asked.remove(name) {
            requests.entry(name.to_owned()).or_insert(amount);
        }
    }
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// The resources whose limit may be higher than the request.
const OVERCOMMITTED: [&str; 2] = ["cpu", "memory"];

/// An image without a tag has the tag `latest`, unless a digest identifies it.
fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    match name.rsplit('/').next().and_then(|last| last.split_once(':')) {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none(),
    }
}

fn set(field: &mut Option<String>, value: &str) {
    if field.as_ref().is_none_or(String::is_empty) {
        *field = Some(value.to_owned());
    }
}

fn set_number(field: &mut Option<i32>, value: i32) {
    if field.is_none_or(|number| number == 0) {
        *field = Some(value);
    }
}

#[cfg(test)]
mod tests;
