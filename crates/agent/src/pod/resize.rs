//! Whether the resources of a running container differ from its manifest, and what that calls for. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use serde::Serialize;

use super::config::PodAmounts;
use super::demand::{Amounts, List, own, requests};
use super::grants::Grants;
use super::spec::{all_containers, containers, init_containers};
use crate::resource::{self, Quantity};

/// The resources that can be changed while a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Memory,
    Cpu,
}

impl Resource {
    /// All of them, in the order in which they are changed.
    pub(crate) const ALL: [Self; 2] = [Self::Memory, Self::Cpu];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }
}

/// The request and the limit of a container for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    request: Quantity,
    /// `None` is no limit.
    pub(crate) limit: Option<Quantity>,
}

impl Size {
    pub(crate) fn of(resources: Option<&ResourceRequirements>, resource: Resource) -> Self {
        Self {
            request: resource::request(resources, resource.name()).unwrap_or(Quantity::ZERO),
            limit: resource::limit(resources, resource.name()).filter(|limit| !limit.is_zero()),
        }
    }

    /// Compares by limit or, where the limits are the same, by request.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        let limits = match (self.limit, other.limit) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(own), Some(other)) => own.cmp(&other),
        };
        limits.then(self.request.cmp(&other.request))
    }
}

/// What a running container needs in order to have what its manifest says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// The runtime changes its limits while it runs.
    InPlace,
    /// It must be restarted.
    Restart,
}

/// Whether a container, or a pod, now has other amounts than these of the resources that can be changed.
pub(crate) fn is_resized(wanted: Option<&ResourceRequirements>, given: &ResourceRequirements) -> bool {
    Resource::ALL.into_iter().any(|resource| Size::of(wanted, resource) != Size::of(Some(given), resource))
}

/// Returns what holds for a container: its own resources, plus the limits of its pod where it has none.
pub(crate) fn holding(
    resources: Option<&ResourceRequirements>,
    of_pod: Option<&ResourceRequirements>,
) -> ResourceRequirements {
    let mut all = resources.cloned().unwrap_or_default();
    for resource in Resource::ALL {
        let name = resource.name();
        let passed_on = of_pod.and_then(|own| own.limits.as_ref()?.get(name));
        if let Some(limit) = passed_on.filter(|_| Size::of(resources, resource).limit.is_none()) {
            all.limits.get_or_insert_default().insert(name.to_owned(), limit.clone());
        }
    }
    all
}

/// Returns what a running container of a pod with these resources needs, given what holds for it now. If that is
/// unknown, the container counts as up to date.
pub(crate) fn need(
    container: &Container,
    of_pod: Option<&ResourceRequirements>,
    given: Option<&ResourceRequirements>,
) -> Need {
    let Some(given) = given else { return Need::Nothing };
    let wanted = holding(container.resources.as_ref(), of_pod);
    let mut need = Need::Nothing;
    for resource in Resource::ALL {
        if Size::of(Some(&wanted), resource) == Size::of(Some(given), resource) {
            continue;
        }
        if wants_restart(container, resource) {
            return Need::Restart;
        }
        need = Need::InPlace;
    }
    need
}

fn wants_restart(container: &Container, resource: Resource) -> bool {
    let policies = container.resize_policy.iter().flatten();
    let mut of_resource = policies.filter(|policy| policy.resource_name == resource.name());
    of_resource.any(|policy| policy.restart_policy == "RestartContainer")
}

/// Whether the control group of the pod differs from what is wanted.
pub(crate) fn changes_group(wanted: &PodAmounts, grants: &Grants) -> bool {
    grants.pod.as_ref().is_some_and(|given| given.amounts != *wanted)
}

/// Whether a pod requests more of anything than another.
pub(crate) fn asks_for_more(pod: &Pod, than: &Pod) -> bool {
    let had = requests(than);
    let amount = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or(Quantity::ZERO);
    requests(pod).iter().any(|(name, asked)| *asked > amount(&had, name))
}

/// Returns the first amount that differs between two versions of a pod and cannot be changed while it runs: its control
/// group and its containers got it when they were made. Containers that only one version has do not count.
pub(crate) fn changed_for_good(wanted: &Pod, has: &Pod) -> Option<String> {
    let had: BTreeMap<&str, &Container> =
        all_containers(has).map(|container| (container.name.as_str(), container)).collect();
    let of_list = |list: &'static str, containers: &[Container]| {
        containers.iter().find_map(|now| {
            let then = had.get(now.name.as_str())?.resources.as_ref();
            let amount = fixed_change(now.resources.as_ref(), then)?;
            Some(format!("spec.{list}[{}].resources.{amount}", now.name))
        })
    };
    let of_pod = || fixed_change(own(wanted), own(has)).map(|amount| format!("spec.resources.{amount}"));
    of_list("initContainers", init_containers(wanted))
        .or_else(|| of_list("containers", containers(wanted)))
        .or_else(of_pod)
}

fn fixed_change(now: Option<&ResourceRequirements>, then: Option<&ResourceRequirements>) -> Option<String> {
    let is_fixed = |name: &&String| Resource::ALL.iter().all(|changeable| changeable.name() != **name);
    [("limits", List::Limits), ("requests", List::Requests)].into_iter().find_map(|(word, list)| {
        let (now, then) = (list.of(now), list.of(then));
        let mut names = now.keys().chain(then.keys()).filter(is_fixed);
        names.find(|name| now.get(*name) != then.get(*name)).map(|name| format!("{word}[{name}]"))
    })
}

/// Returns a pod whose containers have what another's have: a change that waits.
pub(crate) fn with_sizes_of(pod: &Pod, other: &Pod) -> Pod {
    let all: BTreeMap<&str, &Container> =
        all_containers(other).map(|container| (container.name.as_str(), container)).collect();
    let mut pod = with_sizes(pod, |name| Some(all.get(name)?.resources.clone().unwrap_or_default()));
    if let (Some(spec), Some(other)) = (&mut pod.spec, &other.spec) {
        spec.resources.clone_from(&other.resources);
    }
    pod
}

/// Returns a pod whose containers have these resources, where `sizes` has any for them.
pub(crate) fn with_sizes(pod: &Pod, sizes: impl Fn(&str) -> Option<ResourceRequirements>) -> Pod {
    let mut pod = pod.clone();
    let Some(spec) = &mut pod.spec else { return pod };
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if let Some(size) = sizes(&container.name) {
            container.resources = Some(size);
        }
    }
    pod
}

/// The resources of a pod in an event, in the kubelet's words and order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourceRequirements>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<OfContainer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<OfContainer<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct OfContainer<'a> {
    name: &'a str,
    resources: ResourceRequirements,
}

/// Returns the message of an event about a resize: what the pod is to have, and what went wrong.
pub(crate) fn resize_message(pod: &Pod, how: &str, error: Option<&str>) -> String {
    fn of(containers: &[Container]) -> Vec<OfContainer<'_>> {
        let has = |one: &Container| one.resources.as_ref().and_then(resource::written).unwrap_or_default();
        containers.iter().map(|one| OfContainer { name: &one.name, resources: has(one) }).collect()
    }
    let summary = Summary {
        resources: own(pod).and_then(resource::written),
        init_containers: of(init_containers(pod)),
        containers: of(containers(pod)),
        generation: pod.metadata.generation.unwrap_or_default(),
        error,
    };
    match serde_json::to_string(&summary) {
        Ok(summary) => format!("Pod resize {how}: {summary}"),
        Err(_) => format!("Pod resize {how}"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerResizePolicy;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

    use super::*;
    use crate::pod::testkit::{container, resources};

    #[test]
    fn an_event_says_what_the_pod_shall_have() {
        let mut pod = crate::pod::testkit::pod("Always", &["i"], &["a"]);
        pod.metadata.generation = Some(2);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[0].resources = Some(resources("0.5", "65536Ki"));
        let bare = r#""initContainers":[{"name":"i","resources":{}}]"#;
        let sized = r#"{"limits":{"cpu":"500m","memory":"64Mi"},"requests":{"cpu":"500m","memory":"64Mi"}}"#;
        let of = format!(r#"{bare},"containers":[{{"name":"a","resources":{sized}}}],"generation":2"#);
        assert_eq!(resize_message(&pod, "started", None), format!("Pod resize started: {{{of}}}"));
        assert_eq!(
            resize_message(&pod, "Deferred", Some("no room")),
            format!(r#"Pod resize Deferred: {{{of},"error":"no room"}}"#)
        );
        pod.spec.as_mut().unwrap().resources = Some(resources("1", "1Gi"));
        assert!(resize_message(&pod, "error", None).starts_with(r#"Pod resize error: {"resources":{"#));
    }

    #[test]
    fn what_a_change_calls_for() {
        let given = resources("100m", "64Mi");
        let table = [
            ("the same", resources("100m", "64Mi"), Need::Nothing),
            ("the same in other words", resources("0.1", "65536Ki"), Need::Nothing),
            ("more cpu", resources("200m", "64Mi"), Need::InPlace),
            ("less memory", resources("100m", "32Mi"), Need::Restart),
            ("both", resources("200m", "32Mi"), Need::Restart),
            ("no limits", ResourceRequirements { limits: None, ..given.clone() }, Need::Restart),
        ];
        for (what, wanted, need_of_it) in table {
            let mut container = container("c");
            container.resources = Some(wanted);
            let policy = |resource: &str, policy: &str| ContainerResizePolicy {
                resource_name: resource.to_owned(),
                restart_policy: policy.to_owned(),
            };
            container.resize_policy =
                Some(vec![policy("cpu", "NotRequired"), policy("memory", "RestartContainer")]);
            assert_eq!(need(&container, None, Some(&given)), need_of_it, "{what}");
            assert_eq!(need(&container, None, None), Need::Nothing, "{what}, of one that is not known");
            container.resize_policy = None;
            let without_policy = if need_of_it == Need::Nothing { Need::Nothing } else { Need::InPlace };
            assert_eq!(need(&container, None, Some(&given)), without_policy, "{what}, without a policy");
        }
    }

    #[test]
    fn only_cpu_and_memory_can_change_while_a_pod_runs() {
        let with = |pairs: &[(&str, &str)]| {
            let amounts =
                pairs.iter().map(|(name, amount)| ((*name).to_owned(), WireQuantity((*amount).to_owned())));
            let amounts: BTreeMap<String, WireQuantity> = amounts.collect();
            ResourceRequirements {
                limits: Some(amounts.clone()),
                requests: Some(amounts),
                ..ResourceRequirements::default()
            }
        };
        let pod = |init: &[(&str, &str)], main: &[(&str, &str)], own: &[(&str, &str)]| {
            let mut pod = crate::pod::testkit::pod("Always", &["i"], &["a"]);
            let spec = pod.spec.as_mut().unwrap();
            spec.init_containers.as_mut().unwrap()[0].resources = Some(with(init));
            spec.containers[0].resources = Some(with(main));
            spec.resources = Some(with(own));
            pod
        };
        let huge = "hugepages-2Mi";
        let has = pod(&[], &[("cpu", "1"), (huge, "4Mi")], &[]);
        let mut more = has.clone();
        more.spec.as_mut().unwrap().containers[0].name = "b".to_owned();
        let of_main = "spec.containers[a].resources.limits[hugepages-2Mi]";
        let table = [
            ("nothing", has.clone(), None),
            ("cpu and memory", pod(&[], &[("cpu", "2"), ("memory", "1Gi"), (huge, "4Mi")], &[]), None),
            ("other words", pod(&[], &[("cpu", "1"), (huge, "4096Ki")], &[]), None),
            ("more", pod(&[], &[("cpu", "1"), (huge, "8Mi")], &[]), Some(of_main)),
            ("none", pod(&[], &[("cpu", "1")], &[]), Some(of_main)),
            (
                "of an init container",
                pod(&[("ephemeral-storage", "1Gi")], &[(huge, "4Mi")], &[]),
                Some("spec.initContainers[i].resources.limits[ephemeral-storage]"),
            ),
            (
                "of the pod",
                pod(&[], &[(huge, "4Mi")], &[("example.com/gpu", "1")]),
                Some("spec.resources.limits[example.com/gpu]"),
            ),
            ("another container", more, None),
        ];
        for (what, wanted, change) in table {
            assert_eq!(changed_for_good(&wanted, &has).as_deref(), change, "{what}");
        }
        let mut asked = has.clone();
        asked.spec.as_mut().unwrap().containers[0].resources.as_mut().unwrap().requests = None;
        let change = changed_for_good(&asked, &has);
        assert_eq!(change.as_deref(), Some("spec.containers[a].resources.requests[hugepages-2Mi]"));
    }

    #[test]
    fn less_is_a_lower_limit_and_else_a_lower_request() {
        let size = |request: i64, limit: Option<i64>| Size {
            request: Quantity::from_units(request),
            limit: limit.map(Quantity::from_units),
        };
        let table = [
            (size(1, Some(2)), size(1, Some(2)), Ordering::Equal),
            (size(1, Some(1)), size(1, Some(2)), Ordering::Less),
            (size(2, Some(2)), size(1, Some(2)), Ordering::Greater),
            (size(2, Some(2)), size(1, Some(3)), Ordering::Less),
            (size(1, None), size(1, Some(9)), Ordering::Greater),
            (size(1, Some(9)), size(1, None), Ordering::Less),
            (size(1, None), size(2, None), Ordering::Less),
        ];
        for (one, other, wanted) in table {
            assert_eq!(one.compare(other), wanted, "{one:?} {other:?}");
        }
    }
}
