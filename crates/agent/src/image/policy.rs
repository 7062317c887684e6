//! The pull policy of images.

use k8s_openapi::api::core::v1::Container;

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// Returns the policy of a container. Defaulting has filled it in, and validation has refused unknown words.
    pub(crate) fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}
