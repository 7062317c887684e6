//! The resources of a container, in the runtime's units.

use std::cmp::max;
use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use rubelet_cri::v1;
use serde::{Deserialize, Serialize};

use crate::pod::resize::Resource;
use crate::pod::{demand, spec};
use crate::resource::{self, Quantity};

/// The priority class of pods that a node cannot do without.
pub(crate) const NODE_CRITICAL: &str = "system-node-critical";

const LEAST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;
const LEAST_QUOTA: i64 = 1_000;

/// What the limits of containers depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// All memory, in bytes.
    pub memory: i64,
    /// Whether it has the unified hierarchy of control groups (version 2).
    pub unified_cgroups: bool,
    /// Whether its control groups can limit swap.
    pub swap_accounting: bool,
    /// The sizes of huge pages that its control groups count, in bytes.
    pub huge_page_sizes: Vec<i64>,
    /// Whether cpu limits hold even while nothing else needs the cpu.
    pub cpu_quota: bool,
    /// The period of such a limit, in microseconds.
    pub cpu_period: i64,
    /// Whether the kernel ends a single process when a container runs out of memory, not the whole container.
    pub single_process_oom_kill: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            memory: i64::MAX,
            unified_cgroups: true,
            swap_accounting: false,
            huge_page_sizes: Vec::new(),
            cpu_quota: true,
            cpu_period: 100_000,
            single_process_oom_kill: false,
        }
    }
}

/// The quality of service class of a pod: how much it can count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl QosClass {
    /// The API's name for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// Returns a limit; a limit of zero is none.
fn limit(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    resource::limit(resources, name).filter(|amount| !amount.is_zero())
}

fn request(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    resource::request(resources, name).filter(|amount| !amount.is_zero())
}

/// Returns how much of a resource a container may use: its own limit, else that of its pod, which always limits the pod
/// as a whole.
fn effective_limit(pod: &Pod, container: &Container, name: &str) -> Option<Quantity> {
    limit(container.resources.as_ref(), name).or_else(|| limit(demand::own(pod), name))
}

/// Returns the class of a pod, by what it requests itself, else by what its containers request. A missing request does
/// not stand for the limit here: the defaults of a manifest have already copied limits to missing requests.
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
            is_guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (asks_for_anything, is_guaranteed) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

/// Returns the OOM score, which decides what the kernel ends first when memory is short.
fn oom_score(pod: &Pod, container: &Container, node_memory: i64) -> i64 {
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    if class == Some(NODE_CRITICAL) {
        return -997;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => -997,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let share = unclaimed_memory(pod);
            let score =
                |asked: i64| 1000 - 1000_i64.saturating_mul(asked.saturating_add(share)) / node_memory.max(1);
            let own = score(memory_request(container));
            let is_sidecar = spec::init_containers(pod)
                .iter()
                .any(|init| init.name == container.name && spec::is_sidecar(init));
            let score = if is_sidecar {
                // The containers that it serves must not outlive it.
                let least = spec::containers(pod).iter().map(memory_request).min().unwrap_or(0);
                own.min(score(least))
            } else {
                own
            };
            match score.max(3) {
                1000 => 999,
                score => score,
            }
        }
    }
}

fn memory_request(container: &Container) -> i64 {
    request(container.resources.as_ref(), "memory").map_or(0, Quantity::units)
}

/// What the pod requests beyond its containers, divided among all of them: even those that end before others start.
fn unclaimed_memory(pod: &Pod) -> i64 {
    let Some(of_pod) = request(demand::own(pod), "memory") else { return 0 };
    let claimed = demand::requests_of_containers(pod).get("memory").map_or(0, |amount| amount.units());
    let count = i64::try_from(spec::all_containers(pod).count()).unwrap_or(i64::MAX).max(1);
    (of_pod.units() - claimed).max(0) / count
}

/// Returns the weight of this many millicores relative to others.
pub(crate) fn shares(milli: i64) -> i64 {
    if milli <= 0 {
        LEAST_SHARES
    } else {
        (milli.saturating_mul(1024) / 1000).clamp(LEAST_SHARES, MOST_SHARES)
    }
}

/// Returns the cpu time in a period that this many millicores are; `None` where there is no limit.
fn quota(milli: i64, machine: &Machine) -> Option<i64> {
    let time = milli.saturating_mul(machine.cpu_period) / 1000;
    (milli > 0 && machine.cpu_quota).then(|| time.max(LEAST_QUOTA))
}

/// The resources of one container.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    machine: &Machine,
) -> v1::LinuxContainerResources {
    let cpu_limit = effective_limit(pod, container, "cpu").map_or(0, Quantity::millis);
    // A container that explicitly requests zero gets the minimum; one without a request is taken to request its limit.
    let cpu_request = resource::request(container.resources.as_ref(), "cpu");
    let memory = effective_limit(pod, container, "memory").map_or(0, Quantity::units);
    v1::LinuxContainerResources {
        cpu_period: machine.cpu_period,
        cpu_quota: quota(cpu_limit, machine).unwrap_or(if machine.cpu_quota { 0 } else { NO_QUOTA }),
        cpu_shares: shares(cpu_request.map_or(cpu_limit, Quantity::millis)),
        memory_limit_in_bytes: memory,
        // In version 1, swap is limited together with memory, so without a limit for memory there is none for both.
        memory_swap_limit_in_bytes: match machine {
            Machine { swap_accounting: true, unified_cgroups: false, .. } => memory,
            _ => 0,
        },
        oom_score_adj: oom_score(pod, container, machine.memory),
        hugepage_limits: huge_pages(pod, container, machine),
        unified: unified(machine),
        ..v1::LinuxContainerResources::default()
    }
}

const NO_QUOTA: i64 = -1;
const NO_LIMIT: i64 = -1;

/// Returns the update of one resource for a running container. Omitted values stay as they are, so a limit that was
/// removed is set explicitly.
pub(crate) fn resized(
    pod: &Pod,
    container: &Container,
    resource: Resource,
    had_limit: bool,
    machine: &Machine,
) -> v1::LinuxContainerResources {
    let all = of_container(pod, container, machine);
    let or_none = |limit: i64, none: i64| if limit == 0 && had_limit { none } else { limit };
    match resource {
        Resource::Memory => v1::LinuxContainerResources {
            memory_limit_in_bytes: or_none(all.memory_limit_in_bytes, NO_LIMIT),
            memory_swap_limit_in_bytes: match machine {
                Machine { swap_accounting: true, unified_cgroups: false, .. } => {
                    or_none(all.memory_swap_limit_in_bytes, NO_LIMIT)
                }
                _ => 0,
            },
            oom_score_adj: all.oom_score_adj,
            ..v1::LinuxContainerResources::default()
        },
        Resource::Cpu => v1::LinuxContainerResources {
            cpu_period: all.cpu_period,
            cpu_quota: or_none(all.cpu_quota, NO_QUOTA),
            cpu_shares: all.cpu_shares,
            ..v1::LinuxContainerResources::default()
        },
    }
}

fn unified(machine: &Machine) -> HashMap<String, String> {
    let mut files = HashMap::new();
    if machine.unified_cgroups && !machine.single_process_oom_kill {
        // What belongs together ends together.
        files.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    if machine.unified_cgroups && machine.swap_accounting {
        // As under a kubelet: pods from files are critical, and critical pods do not swap.
        files.insert("memory.swap.max".to_owned(), "0".to_owned());
    }
    files
}

/// Returns every page size that the machine counts, with zero pages where neither the container nor its pod has a
/// limit.
fn huge_pages(pod: &Pod, container: &Container, machine: &Machine) -> Vec<v1::HugepageLimit> {
    let limits = [demand::own(pod), container.resources.as_ref()];
    let limits = limits.into_iter().filter_map(|resources| resources?.limits.as_ref());
    let mut pages: BTreeMap<i64, i64> = machine.huge_page_sizes.iter().map(|size| (*size, 0)).collect();
    for (name, wire) in limits.flatten() {
        let Some(size) = name.strip_prefix("hugepages-") else { continue };
        // Amounts and sizes that cannot be read were rejected with their manifest.
        if let (Ok(size), Ok(amount)) = (size.parse::<Quantity>(), Quantity::of(wire)) {
            pages.insert(size.units(), amount.units());
        }
    }
    let limit = |(size, amount): (i64, i64)| v1::HugepageLimit {
        page_size: page_size(size),
        limit: u64::try_from(amount).unwrap_or(0),
    };
    pages.into_iter().map(limit).collect()
}

/// Formats the size of a page as the kernel writes it: `64KB`, `2MB`, `1GB`.
fn page_size(bytes: i64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes % unit == 0);
    unit.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// The resources of a pod as a whole: the values of its control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PodAmounts {
    pub(crate) cpu_shares: i64,
    /// The cpu time in a period, in microseconds.
    pub(crate) cpu_quota: Option<i64>,
    pub(crate) memory: Option<i64>,
}

impl PodAmounts {
    /// Returns the larger value of each; no limit is the largest.
    pub(crate) fn or_more(&self, other: &Self) -> Self {
        let larger = |one: Option<i64>, other: Option<i64>| Some(max(one?, other?));
        Self {
            cpu_shares: max(self.cpu_shares, other.cpu_shares),
            cpu_quota: larger(self.cpu_quota, other.cpu_quota),
            memory: larger(self.memory, other.memory),
        }
    }
}

/// Returns the resources of a pod as a whole.
pub(crate) fn of_pod(pod: &Pod, machine: &Machine) -> PodAmounts {
    let (requests, limits) = (demand::requests(pod), demand::limits(pod));
    let of = |amounts: &demand::Amounts, name: &str| amounts.get(name).copied().unwrap_or(Quantity::ZERO);
    let class = qos_class(pod);
    // Limits of only some of its containers do not limit the pod.
    let holds = |name: &str| match class {
        QosClass::Guaranteed => true,
        QosClass::Burstable => demand::declares_limit(pod, name),
        QosClass::BestEffort => false,
    };
    PodAmounts {
        cpu_shares: match class {
            QosClass::BestEffort => LEAST_SHARES,
            QosClass::Guaranteed | QosClass::Burstable => shares(of(&requests, "cpu").millis()),
        },
        cpu_quota: quota(of(&limits, "cpu").millis(), machine).filter(|_| holds("cpu")),
        memory: Some(of(&limits, "memory").units()).filter(|memory| *memory > 0 && holds("memory")),
    }
}

/// Returns what a sandbox is told about its pod: what its containers may use together, and its overhead.
pub(crate) fn of_sandbox(
    pod: &Pod,
    machine: &Machine,
) -> (v1::LinuxContainerResources, Option<v1::LinuxContainerResources>) {
    let convert = |requests: &demand::Amounts, limits: &demand::Amounts| {
        let millis =
            |amounts: &demand::Amounts| amounts.get("cpu").copied().unwrap_or(Quantity::ZERO).millis();
        v1::LinuxContainerResources {
            cpu_period: machine.cpu_period,
            cpu_quota: quota(millis(limits), machine).unwrap_or(0),
            cpu_shares: shares(millis(requests)),
            memory_limit_in_bytes: limits.get("memory").map_or(0, |memory| memory.units()),
            ..v1::LinuxContainerResources::default()
        }
    };
    let together = convert(&demand::requests_without_overhead(pod), &demand::limits_without_overhead(pod));
    let overhead = demand::overhead(pod);
    (together, (!overhead.is_empty()).then(|| convert(&overhead, &overhead)))
}

#[cfg(test)]
mod tests;
