//! The annotations that have a meaning for the agent, and what they say about a pod.

use k8s_openapi::api::core::v1::Pod;

use crate::source::SourceKind;

/// The kind of the source: `file`, `http` or `api`.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// When the agent first saw the pod.
pub const SEEN: &str = "kubernetes.io/config.seen";
/// The hash of a pod that did not come from the API server. It serves as the pod's UID.
pub const HASH: &str = "kubernetes.io/config.hash";
/// The hash of a static pod, on its copy in the API server.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Names the container for commands that do not name one.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Pods with this priority or a higher one are critical to the node.
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Returns the value of one annotation.
#[must_use]
pub fn value<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Whether the pod came from a file or a URL.
#[must_use]
pub fn is_static(pod: &Pod) -> bool {
    value(pod, SOURCE).is_some_and(|source| source != SourceKind::Api.as_str())
}

/// Whether the pod is the API server's copy of a static pod.
#[must_use]
pub fn is_mirror(pod: &Pod) -> bool {
    value(pod, MIRROR).is_some()
}

/// Whether the pod is critical to the node.
#[must_use]
pub fn is_critical(pod: &Pod) -> bool {
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static(pod) || is_mirror(pod) || priority.is_some_and(|priority| priority >= CRITICAL_PRIORITY)
}
