//! The operations of CRI v1, by name.

use std::fmt;

macro_rules! operations {
    ($( $service:literal { $( $op:ident $kind:ident, )* } )*) => {
        /// A call of CRI v1.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Op {
            $($(
                #[doc = concat!("`", $service, "/", stringify!($op), "`")]
                $op,
            )*)*
        }

        impl Op {
            /// Every operation, runtime service first.
            pub const ALL: &[Self] = &[$($(Self::$op,)*)*];

            /// Its name in the protocol.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$op => stringify!($op),)*)* }
            }

            /// Whether a caller that only reads would never use it.
            #[must_use]
            pub const fn is_mutating(self) -> bool {
                match self { $($(Self::$op => operations!(@mutating $kind),)*)* }
            }

            /// Finds the operation for an HTTP/2 path.
            pub(crate) fn from_path(path: &str) -> Option<Self> {
                match path {
                    $($(concat!("/runtime.v1.", $service, "/", stringify!($op)) => Some(Self::$op),)*)*
                    _ => None,
                }
            }
        }
    };
    (@mutating reads) => { false };
    (@mutating changes) => { true };
}

operations! {
    "RuntimeService" {
        Version reads,
        RunPodSandbox changes,
        StopPodSandbox changes,
        RemovePodSandbox changes,
        PodSandboxStatus reads,
        ListPodSandbox reads,
        StreamPodSandboxes reads,
        CreateContainer changes,
        StartContainer changes,
        StopContainer changes,
        RemoveContainer changes,
        ListContainers reads,
        StreamContainers reads,
        ContainerStatus reads,
        UpdateContainerResources changes,
        ReopenContainerLog changes,
        ExecSync changes,
        Exec changes,
        Attach changes,
        PortForward changes,
        ContainerStats reads,
        ListContainerStats reads,
        StreamContainerStats reads,
        PodSandboxStats reads,
        ListPodSandboxStats reads,
        StreamPodSandboxStats reads,
        UpdateRuntimeConfig changes,
        Status reads,
        CheckpointContainer changes,
        GetContainerEvents reads,
        ListMetricDescriptors reads,
        ListPodSandboxMetrics reads,
        StreamPodSandboxMetrics reads,
        RuntimeConfig reads,
        UpdatePodSandboxResources changes,
    }
    "ImageService" {
        ListImages reads,
        StreamImages reads,
        ImageStatus reads,
        PullImage changes,
        RemoveImage changes,
        ImageFsInfo reads,
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_operations() {
        assert_eq!(Op::from_path("/runtime.v1.RuntimeService/ListContainers"), Some(Op::ListContainers));
        assert_eq!(Op::from_path("/runtime.v1.ImageService/ListImages"), Some(Op::ListImages));
        assert_eq!(Op::from_path("/runtime.v1.ImageService/ListContainers"), None);
        assert_eq!(Op::from_path("/runtime.v1alpha2.RuntimeService/Version"), None);
        assert_eq!(Op::ALL.len(), 41);
    }
}
