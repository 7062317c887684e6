//! When an image is fetched.

use k8s_openapi::api::core::v1::Container;

/// When an image is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// The policy of a container. Defaulting has filled it in; an unknown word was refused.
    pub(crate) fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}
