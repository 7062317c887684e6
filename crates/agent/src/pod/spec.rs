//! What the agent reads from a pod spec, in its own terms.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use rubelet_model::{PodRef, PodUid};

/// The kind of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerKind {
    Init,
    Regular,
}

impl ContainerKind {
    /// The kubelet's name for it in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init_container",
            Self::Regular => "container",
        }
    }
}

/// When a container that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    /// An unknown word counts as the default: validation has rejected it long before.
    fn read(word: Option<&str>) -> Self {
        match word {
            Some("OnFailure") => Self::OnFailure,
            Some("Never") => Self::Never,
            _ => Self::Always,
        }
    }

    pub(crate) fn of_pod(pod: &Pod) -> Self {
        Self::read(pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()))
    }

    /// The container's own policy, if it has one.
    pub(crate) fn of_container(container: &Container) -> Option<Self> {
        container.restart_policy.as_deref().map(|word| Self::read(Some(word)))
    }

    /// The policy that holds for a container of a pod.
    pub(crate) fn effective(pod: &Pod, container: &Container) -> Self {
        Self::of_container(container).unwrap_or_else(|| Self::of_pod(pod))
    }

    /// Whether a process that ended with `exit_code` is started again.
    pub(crate) fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

pub(crate) fn uid(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

pub(crate) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn pod_ref(pod: &Pod) -> PodRef {
    PodRef::new(uid(pod), namespace(pod), name(pod))
}

/// A name that at most one static pod may have at a time.
pub(crate) fn full_name(pod: &Pod) -> Arc<str> {
    format!("{}_{}", name(pod), namespace(pod)).into()
}

/// Displays a pod as the kubelet writes it in messages: `name_namespace(uid)`.
pub(crate) struct Described<'a>(pub(crate) &'a Pod);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}({})", name(self.0), namespace(self.0), uid(self.0))
    }
}

pub(crate) fn containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().map_or(&[], |spec| &spec.containers)
}

pub(crate) fn init_containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
}

/// Init containers and containers, in the order in which they start.
pub(crate) fn all_containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    init_containers(pod).iter().chain(containers(pod))
}

/// Whether an init container is a sidecar: it starts in its turn and keeps running beside the containers.
pub(crate) fn is_sidecar(init_container: &Container) -> bool {
    RestartPolicy::of_container(init_container) == Some(RestartPolicy::Always)
}

pub(crate) fn uses_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
}

/// Whether the pod has user ids of its own instead of those of the host.
pub(crate) fn has_own_users(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_users) == Some(false)
}

/// The addresses of a pod, given those of its sandbox and of the host.
pub(crate) fn ips(pod: &Pod, of_sandbox: &[IpAddr], of_host: &[IpAddr]) -> Vec<IpAddr> {
    if uses_host_network(pod) { of_host.to_vec() } else { of_sandbox.to_vec() }
}

/// Where a pod can be reached from this node. On a host without addresses that is still its loopback address.
pub(crate) fn reachable_ips(pod: &Pod, of_sandbox: &[IpAddr], of_host: &[IpAddr]) -> Vec<IpAddr> {
    let ips = ips(pod, of_sandbox, of_host);
    if ips.is_empty() && uses_host_network(pod) { vec![Ipv4Addr::LOCALHOST.into()] } else { ips }
}

pub(crate) fn is_being_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether only the runtime knows the pod: any other pod has containers.
pub(crate) fn is_orphan(pod: &Pod) -> bool {
    pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty())
}

/// The grace period of an orphan in seconds: what it would need is unknown.
const ORPHAN_GRACE: i64 = 1;

/// Returns a pod that only the runtime knows: it can only be ended.
pub(crate) fn orphan(found: &PodRef) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(found.uid.to_string());
    pod.metadata.namespace = Some(found.namespace.to_string());
    pod.metadata.name = Some(found.name.to_string());
    pod.spec = Some(PodSpec { termination_grace_period_seconds: Some(ORPHAN_GRACE), ..PodSpec::default() });
    pod
}
