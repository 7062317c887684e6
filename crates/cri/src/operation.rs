//! The calls of the CRI, under the names that the kubelet's metrics give them.

use std::fmt;

macro_rules! operations {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// A call of the runtime or image service.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Operation {
            $(#[doc = $doc] $variant,)*
        }

        impl Operation {
            /// All operations.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The value of the kubelet's metric label `operation_type`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

operations! {
    Version = "version", "Get the name and version of the runtime.";
    Status = "status", "Get whether the runtime and its network are ready.";
    RuntimeConfig = "runtime_config", "Get the configuration of the runtime.";
    UpdateRuntimeConfig = "update_runtime_config", "Configure the runtime.";
    RunPodSandbox = "run_podsandbox", "Create and start a sandbox.";
    StopPodSandbox = "stop_podsandbox", "Stop a sandbox and what is running in it.";
    RemovePodSandbox = "remove_podsandbox", "Remove a sandbox and what is in it.";
    PodSandboxStatus = "podsandbox_status", "Inspect a sandbox.";
    ListPodSandbox = "list_podsandbox", "List sandboxes.";
    UpdatePodSandboxResources = "update_podsandbox_resources", "Change the resources that a sandbox may use.";
    PortForward = "port_forward", "Prepare to forward ports into a sandbox.";
    CreateContainer = "create_container", "Create a container.";
    StartContainer = "start_container", "Start a container.";
    StopContainer = "stop_container", "Stop a container.";
    RemoveContainer = "remove_container", "Remove a container.";
    ListContainers = "list_containers", "List containers.";
    ContainerStatus = "container_status", "Inspect a container.";
    UpdateContainer = "update_container", "Change the resources that a container may use.";
    ReopenContainerLog = "reopen_container_log", "Reopen the log of a container.";
    CheckpointContainer = "checkpoint_container", "Save a running container.";
    ExecSync = "exec_sync", "Run a command in a container and wait for it.";
    Exec = "exec", "Prepare to run a command in a container.";
    Attach = "attach", "Prepare to attach to a container.";
    ContainerStats = "container_stats", "Get the resource usage of a container.";
    ListContainerStats = "list_container_stats", "Get the resource usage of containers.";
    PodSandboxStats = "podsandbox_stats", "Get the resource usage of a sandbox.";
    ListPodSandboxStats = "list_podsandbox_stats", "Get the resource usage of sandboxes.";
    ListMetricDescriptors = "list_metric_descriptors", "List the metrics that the runtime provides.";
    ListPodSandboxMetrics = "list_podsandbox_metrics", "Get the runtime's metrics of sandboxes.";
    GetContainerEvents = "get_container_events", "Follow the events of sandboxes and containers.";
    ListImages = "list_images", "List images.";
    ImageStatus = "image_status", "Inspect an image.";
    PullImage = "pull_image", "Pull an image.";
    RemoveImage = "remove_image", "Remove an image.";
    ImageFsInfo = "image_fs_info", "Get where images are stored and how much space they use.";
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_names_are_the_kubelets() {
        let kubelet = "version, status, create_container, start_container, stop_container, remove_container, \
             list_containers, container_status, update_container, reopen_container_log, exec_sync, exec, attach, \
             run_podsandbox, stop_podsandbox, remove_podsandbox, podsandbox_status, list_podsandbox, container_stats, \
             list_container_stats, podsandbox_stats, list_podsandbox_stats, port_forward, \
             update_podsandbox_resources, update_runtime_config, list_images, image_status, pull_image, \
             remove_image, image_fs_info, checkpoint_container, get_container_events, list_metric_descriptors, \
             list_podsandbox_metrics, runtime_config";
        let kubelet: BTreeSet<&str> = kubelet.split(", ").map(str::trim).collect();
        let ours: BTreeSet<&str> = Operation::ALL.iter().map(|operation| operation.as_str()).collect();
        assert_eq!(ours, kubelet);
        assert_eq!(ours.len(), Operation::ALL.len());
    }
}
