//! Decides whether this node can admit a pod. Pure: takes the pod, the existing pods and the node; returns yes, or the
//! kubelet's reason.
//!
//! First come, first served: all pods from files and URLs are equally critical, so none is evicted for another. A
//! refused pod is tried again when resources become free.

mod affinity;
mod ports;
mod sysctl;

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod};
use rubelet_cri::v1;

use crate::pod::app_armor::effective_app_armor;
use crate::pod::{Amounts, all_containers, requests};
use crate::resource::Quantity;
use crate::status::ResizePending;

pub(crate) use sysctl::dotted as dotted_sysctl;
pub use sysctl::{BadSysctlPattern, SysctlPattern};

const OS_LABEL: &str = "kubernetes.io/os";
const OS: &str = "linux";

/// How many pods a node admits, as for a kubelet.
pub const MAX_PODS: usize = 110;

/// What a node offers, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name of the node.
    pub name: String,
    /// Its labels, by which pods may select it.
    pub labels: BTreeMap<String, String>,
    /// What its pods may request together, by resource. Unknown resources are not counted.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The maximum number of pods.
    pub max_pods: usize,
    /// The kernel parameters, beyond the safe ones, that pods may set.
    pub unsafe_sysctls: Vec<SysctlPattern>,
    /// Whether the kernel supports `AppArmor`.
    pub app_armor: bool,
    /// The features of the runtime.
    pub runtime: RuntimeFeatures,
}

/// The features that not every runtime has, as it reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeFeatures {
    /// Read-only mounts that also make the mounts inside them read-only.
    pub recursive_read_only: bool,
    /// `supplementalGroupsPolicy: Strict`.
    pub supplemental_groups_policy: bool,
    /// Pods with user namespaces: `hostUsers: false`.
    pub user_namespaces: bool,
}

impl RuntimeFeatures {
    /// Reads the features from a runtime's status. A handler is a way to run pods; the one without a name is used here.
    #[must_use]
    pub fn read(status: &v1::StatusResponse) -> Self {
        let usual = status.runtime_handlers.iter().find(|handler| handler.name.is_empty());
        let of_handler = usual.and_then(|handler| handler.features);
        Self {
            recursive_read_only: of_handler.is_some_and(|features| features.recursive_read_only_mounts),
            supplemental_groups_policy: status
                .features
                .is_some_and(|features| features.supplemental_groups_policy),
            user_namespaces: of_handler.is_some_and(|features| features.user_namespaces),
        }
    }
}

impl Node {
    /// Creates a node of this name about which nothing else is known: it admits whatever needs nothing special.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            allocatable: BTreeMap::new(),
            max_pods: MAX_PODS,
            unsafe_sysctls: Vec::new(),
            app_armor: false,
            runtime: RuntimeFeatures::default(),
        }
    }
}

/// Why a node does not admit a pod. Both the messages and the reasons are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Sysctl(sysctl::Forbidden),
    #[error("Failed to admit pod as the `kubernetes.io/os` label doesn't match node label")]
    OsSelector,
    #[error("Failed to admit pod as the OS field doesn't match node OS")]
    Os,
    #[error(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    )]
    OutOf { resource: String, requested: i64, used: i64, capacity: i64 },
    #[error("Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")]
    NodeAffinity,
    #[error("Predicate NodeName failed: node(s) didn't match the requested node name")]
    NodeName,
    #[error("Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")]
    NodePorts,
    #[error("Cannot enforce AppArmor: AppArmor is not enabled on the host")]
    AppArmor,
    #[error("SupplementalGroupsPolicy=Strict is not supported in this node")]
    SupplementalGroupsPolicy,
}

impl Refusal {
    /// Returns the one-word reason.
    pub(crate) fn reason(&self) -> Cow<'static, str> {
        let word = match self {
            Self::Sysctl(_) => "SysctlForbidden",
            Self::OsSelector => "PodOSSelectorNodeLabelDoesNotMatch",
            Self::Os => "PodOSNotSupported",
            Self::OutOf { resource, .. } => return Cow::Owned(format!("OutOf{resource}")),
            Self::NodeAffinity => "NodeAffinity",
            Self::NodeName => "NodeName",
            Self::NodePorts => "NodePorts",
            Self::AppArmor => "AppArmor",
            Self::SupplementalGroupsPolicy => "SupplementalGroupsPolicyNotSupported",
        };
        Cow::Borrowed(word)
    }
}

/// Pods of which at most one runs at a time, such as the versions of a pod. They share their resources: as much as the
/// most demanding of them needs, and no more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenants<'a>(Vec<&'a Pod>);

impl<'a> Tenants<'a> {
    pub(crate) fn push(&mut self, pod: &'a Pod) {
        self.0.push(pod);
    }

    fn requests(&self) -> Amounts {
        let mut most = Amounts::new();
        for (name, amount) in self.0.iter().flat_map(|pod| requests(pod)) {
            let known = most.entry(name).or_insert(amount);
            *known = amount.max(*known);
        }
        most
    }
}

/// Checks whether a node with the pods `others` can admit a pod. The first reason against it wins, in the kubelet's
/// order.
pub(crate) fn admit(pod: &Pod, others: &[&Tenants<'_>], node: &Node) -> Result<(), Refusal> {
    sysctl::check(pod, &node.unsafe_sysctls).map_err(Refusal::Sysctl)?;
    check_os(pod)?;
    check_runtime(pod, node.runtime)?;
    if !affinity::matches(pod, &node.name, &node.labels) {
        return Err(Refusal::NodeAffinity);
    }
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    if !wanted.is_empty() && wanted != node.name {
        return Err(Refusal::NodeName);
    }
    if !ports::are_free(pod, others.iter().flat_map(|tenants| tenants.0.iter().copied())) {
        return Err(Refusal::NodePorts);
    }
    // All of these pods are critical, and for those a kubelet checks resources only if there is no other reason.
    check_resources(pod, others, node)?;
    if !node.app_armor && wants_app_armor(pod) {
        return Err(Refusal::AppArmor);
    }
    Ok(())
}

fn check_os(pod: &Pod) -> Result<(), Refusal> {
    // Only the pod's own label counts here: its node selector is checked with the affinity.
    let labelled = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    if labelled.is_some_and(|os| os != OS) {
        return Err(Refusal::OsSelector);
    }
    match pod.spec.as_ref().and_then(|spec| spec.os.as_ref()) {
        Some(os) if os.name != OS => Err(Refusal::Os),
        _ => Ok(()),
    }
}

/// Checks whether there is room for new resources of an existing pod, beside the others. Nothing else is checked again.
pub(crate) fn has_room(pod: &Pod, others: &[&Tenants<'_>], node: &Node) -> Result<(), ResizePending> {
    let wanted = requests(pod);
    for name in ["memory", "cpu"] {
        let (Some(asked), Some(capacity)) = (wanted.get(name), node.allocatable.get(name)) else { continue };
        if asked > capacity {
            let (requested, capacity) = (number(name, *asked), number(name, *capacity));
            return Err(ResizePending::Infeasible(format!(
                "Node didn't have enough capacity: {name}, requested: {requested}, capacity: {capacity}"
            )));
        }
    }
    check_amounts(pod, others, node).map_err(|refusal| ResizePending::Deferred(refusal.to_string()))
}

fn check_resources(pod: &Pod, others: &[&Tenants<'_>], node: &Node) -> Result<(), Refusal> {
    if others.len() + 1 > node.max_pods {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        return Err(Refusal::OutOf {
            resource: "pods".to_owned(),
            requested: 1,
            used: count(others.len()),
            capacity: count(node.max_pods),
        });
    }
    check_amounts(pod, others, node)
}

fn check_amounts(pod: &Pod, others: &[&Tenants<'_>], node: &Node) -> Result<(), Refusal> {
    let wanted = requests(pod);
    let usual = ["cpu", "memory", "ephemeral-storage"];
    let huge = wanted.keys().map(String::as_str).filter(|name| name.starts_with("hugepages-"));
    let mut used: Option<Vec<Amounts>> = None;
    for name in usual.into_iter().chain(huge) {
        let Some(asked) = wanted.get(name).filter(|asked| !asked.is_zero()) else { continue };
        let capacity = match node.allocatable.get(name) {
            Some(capacity) => *capacity,
            // Every other resource is present on any node; huge pages of a size may not be.
            None if name.starts_with("hugepages-") => Quantity::ZERO,
            None => continue,
        };
        let used = used.get_or_insert_with(|| others.iter().map(|other| other.requests()).collect());
        let used: Quantity = used.iter().filter_map(|amounts| amounts.get(name)).copied().sum();
        if used + *asked > capacity {
            return Err(Refusal::OutOf {
                resource: name.to_owned(),
                requested: number(name, *asked),
                used: number(name, used),
                capacity: number(name, capacity),
            });
        }
    }
    Ok(())
}

/// Returns the number as the kubelet shows it: millicores, or whole units.
fn number(name: &str, amount: Quantity) -> i64 {
    if name == "cpu" { amount.millis() } else { amount.units() }
}

fn wants_app_armor(pod: &Pod) -> bool {
    let is_profile = |profile: &AppArmorProfile| profile.type_ != "Unconfined";
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    of_pod.and_then(|context| context.app_armor_profile.as_ref()).is_some_and(is_profile)
        || all_containers(pod)
            .filter_map(|container| effective_app_armor(pod, container))
            .any(|profile| is_profile(&profile))
}

/// Checks the runtime's features. What cannot be enforced is refused, not ignored.
fn check_runtime(pod: &Pod, runtime: RuntimeFeatures) -> Result<(), Refusal> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let policy =
        spec.security_context.as_ref().and_then(|context| context.supplemental_groups_policy.as_deref());
    if policy == Some("Strict") && !runtime.supplemental_groups_policy {
        return Err(Refusal::SupplementalGroupsPolicy);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
