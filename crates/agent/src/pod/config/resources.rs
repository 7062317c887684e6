//! What a container may use, in the runtime's units.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use rubelet_cri::v1;

use crate::pod::spec;
use crate::resource::Quantity;

const CPU_PERIOD: i64 = 100_000;
const LEAST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;
const LEAST_QUOTA: i64 = 1_000;

/// How much a pod can count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl QosClass {
    /// The API's word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

type Amounts = BTreeMap<String, WireQuantity>;

fn amount(amounts: Option<&Amounts>, name: &str) -> Option<Quantity> {
    // A quantity that cannot be read was refused with its manifest.
    amounts?.get(name).and_then(|wire| Quantity::of(wire).ok())
}

fn limit(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    amount(resources?.limits.as_ref(), name).filter(|amount| !amount.is_zero())
}

fn request(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    amount(resources?.requests.as_ref(), name).filter(|amount| !amount.is_zero())
}

/// The class of a pod, by what its containers ask for.
pub(crate) fn qos_class(pod: &Pod) -> QosClass {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let all: Vec<Option<&ResourceRequirements>> = match of_pod {
        Some(resources) => vec![Some(resources)],
        None => spec::all_containers(pod).map(|container| container.resources.as_ref()).collect(),
    };
    let mut asks_for_anything = false;
    let mut is_guaranteed = !all.is_empty();
    for resources in all {
        for name in ["cpu", "memory"] {
            let (request, limit) = (request(resources, name), limit(resources, name));
            asks_for_anything |= request.is_some() || limit.is_some();
            is_guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (asks_for_anything, is_guaranteed) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

/// Who the kernel ends first when memory is short.
fn oom_score(pod: &Pod, container: &Container, node_memory: i64) -> i64 {
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    if class == Some("system-node-critical") {
        return -997;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => -997,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let asked = request(container.resources.as_ref(), "memory").map_or(0, Quantity::units);
            let score = 1000 - 1000_i64.saturating_mul(asked) / node_memory.max(1);
            match score.max(3) {
                1000 => 999,
                score => score,
            }
        }
    }
}

fn shares(milli: i64) -> i64 {
    if milli <= 0 { LEAST_SHARES } else { (milli * 1024 / 1000).clamp(LEAST_SHARES, MOST_SHARES) }
}

fn quota(milli: i64) -> i64 {
    if milli <= 0 { 0 } else { (milli * CPU_PERIOD / 1000).max(LEAST_QUOTA) }
}

/// What the limits of containers depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// In bytes.
    pub(crate) memory: i64,
    /// Whether it has one hierarchy of control groups, the second version.
    pub(crate) unified_cgroups: bool,
}

/// The resources of one container.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    machine: Machine,
) -> v1::LinuxContainerResources {
    let resources = container.resources.as_ref();
    let cpu_limit = limit(resources, "cpu").map_or(0, Quantity::millis);
    let cpu_request = request(resources, "cpu").map_or(cpu_limit, Quantity::millis);
    v1::LinuxContainerResources {
        cpu_period: CPU_PERIOD,
        cpu_quota: quota(cpu_limit),
        cpu_shares: shares(cpu_request),
        memory_limit_in_bytes: limit(resources, "memory").map_or(0, Quantity::units),
        oom_score_adj: oom_score(pod, container, machine.memory),
        // What belongs together ends together.
        unified: if machine.unified_cgroups {
            HashMap::from([("memory.oom.group".to_owned(), "1".to_owned())])
        } else {
            HashMap::new()
        },
        ..v1::LinuxContainerResources::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit;

    const MACHINE: Machine = Machine { memory: 8 << 30, unified_cgroups: true };

    type Named<'a> = &'a [(&'a str, &'a str)];

    fn resources(requests: Named<'_>, limits: Named<'_>) -> ResourceRequirements {
        let amounts = |named: Named<'_>| {
            let wire = |(name, value): &(&str, &str)| ((*name).to_owned(), WireQuantity((*value).to_owned()));
            Some(named.iter().map(wire).collect())
        };
        ResourceRequirements { requests: amounts(requests), limits: amounts(limits), claims: None }
    }

    fn pod_with(resources: &[ResourceRequirements]) -> Pod {
        let names: Vec<String> = (0..resources.len()).map(|index| format!("c{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut pod = testkit::pod("Always", &[], &names);
        for (container, resources) in pod.spec.as_mut().unwrap().containers.iter_mut().zip(resources) {
            container.resources = Some(resources.clone());
        }
        pod
    }

    #[test]
    fn classes_follow_requests_and_limits() {
        let both: Named<'_> = &[("cpu", "1"), ("memory", "1Gi")];
        let table = [
            (vec![resources(&[], &[])], QosClass::BestEffort),
            (vec![resources(&[("cpu", "0")], &[])], QosClass::BestEffort),
            (vec![resources(both, both)], QosClass::Guaranteed),
            (vec![resources(&[], both)], QosClass::Guaranteed),
            (vec![resources(both, both), resources(&[], &[])], QosClass::Burstable),
            (vec![resources(&[("cpu", "1")], &[])], QosClass::Burstable),
            (vec![resources(&[("cpu", "500m"), ("memory", "1Gi")], both)], QosClass::Burstable),
        ];
        for (resources, wanted) in table {
            assert_eq!(qos_class(&pod_with(&resources)), wanted, "{resources:?}");
        }
    }

    #[test]
    fn amounts_become_shares_quota_and_bytes() {
        // requests, limits → shares, quota, bytes
        let table: [(Named<'_>, Named<'_>, i64, i64, i64); 6] = [
            (&[], &[], 2, 0, 0),
            (&[("cpu", "100m")], &[], 102, 0, 0),
            (&[("cpu", "1")], &[("cpu", "2"), ("memory", "64Mi")], 1024, 200_000, 64 << 20),
            (&[], &[("cpu", "500m")], 512, 50_000, 0),
            (&[], &[("cpu", "1m")], 2, 1_000, 0),
            (&[("cpu", "1000")], &[], 262_144, 0, 0),
        ];
        for (requests, limits, shares, quota, bytes) in table {
            let pod = pod_with(&[resources(requests, limits)]);
            let got = of_container(&pod, &spec::containers(&pod)[0], MACHINE);
            let got = (got.cpu_shares, got.cpu_quota, got.memory_limit_in_bytes);
            assert_eq!(got, (shares, quota, bytes), "{requests:?} {limits:?}");
        }
    }

    #[test]
    fn the_kernel_ends_first_what_asked_for_least() {
        let node = 10_000_000_000;
        let score = |memory: &str| {
            let pod = pod_with(&[resources(&[("memory", memory)], &[])]);
            oom_score(&pod, &spec::containers(&pod)[0], node)
        };
        assert_eq!(score("5G"), 500);
        assert_eq!(score("1k"), 999);
        assert_eq!(score("100G"), 3);
        let best_effort = pod_with(&[resources(&[], &[])]);
        assert_eq!(oom_score(&best_effort, &spec::containers(&best_effort)[0], node), 1000);
    }
}
