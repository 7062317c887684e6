//! The labels and annotations with which the kubelet, and everyone after it, marks sandboxes and containers.

/// Label: the UID of the pod.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label: the name of the pod.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the namespace of the pod.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the name of the container in the pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Annotation: the hash of the container's spec, in hexadecimal.
pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// Annotation of a container: the termination grace period of its pod, in seconds.
pub const POD_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Annotation: how many times the container was restarted.
pub const CONTAINER_RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
