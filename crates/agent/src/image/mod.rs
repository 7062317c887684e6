//! Images for containers: decides whether one must be pulled and with which credentials, and pulls it, a few at a time.

mod credentials;
mod docker_config;
mod keyring;
mod limit;
mod name;
mod policy;
mod puller;

use rubelet_cri::v1;

use crate::runtime::CallError;

pub(crate) use credentials::{Credentials, node_config};
pub(crate) use docker_config::CredentialError;
pub use limit::PullRate;
use name::InvalidName;
pub(crate) use name::full_name;
pub(crate) use policy::PullPolicy;
pub(crate) use puller::{Pulled, Puller};

/// An image that exists on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The reference by which the runtime knows it.
    pub(crate) reference: String,
    /// The user its processes run as, if the image states a number.
    pub(crate) uid: Option<i64>,
    /// The user its processes run as, if the image states a name.
    pub(crate) username: String,
}

/// Why a container has no image, with the reason that its status shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("couldn't parse image name {name:?}: {why}")]
    InvalidName { name: String, why: InvalidName },
    #[error(transparent)]
    Inspect(CallError),
    #[error("Container image {0:?} is not present with pull policy of Never")]
    NeverPull(String),
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("pull QPS exceeded")]
    TooMany,
    #[error("image pull failed for {image} because the registry is unavailable{detail}")]
    RegistryUnavailable { image: String, detail: String },
    #[error("image pull failed for {image} because the signature validation failed{detail}")]
    SignatureValidationFailed { image: String, detail: String },
    #[error(transparent)]
    Pull(CallError),
}

impl ImageError {
    /// Returns the kubelet's reason.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "InvalidImageName",
            Self::Inspect(_) => "ImageInspectError",
            Self::NeverPull(_) => "ErrImageNeverPull",
            Self::RegistryUnavailable { .. } => "RegistryUnavailable",
            Self::SignatureValidationFailed { .. } => "SignatureValidationFailed",
            Self::Credentials(_) | Self::TooMany | Self::Pull(_) => "ErrImagePull",
        }
    }

    /// Converts a runtime's error for a failed pull. Two of its codes appear at the beginning of a message.
    fn of_pull(image: &str, error: CallError) -> Self {
        let after = |word: &str| error.message.strip_prefix(word).map(str::to_owned);
        let image = || image.to_owned();
        if let Some(detail) = after("RegistryUnavailable") {
            return Self::RegistryUnavailable { image: image(), detail };
        }
        match after("SignatureValidationFailed") {
            Some(detail) => Self::SignatureValidationFailed { image: image(), detail },
            None => Self::Pull(error),
        }
    }
}

fn resolved(reference: String, image: &v1::Image) -> Resolved {
    Resolved { reference, uid: image.uid.map(|uid| uid.value), username: image.username.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::CallFailure;

    #[test]
    fn what_a_runtime_says_of_a_pull_is_one_of_three_reasons() {
        let table = [
            ("no such image", "ErrImagePull", "no such image"),
            (
                "RegistryUnavailable: connection refused",
                "RegistryUnavailable",
                "image pull failed for r.io/a:1 because the registry is unavailable: connection refused",
            ),
            (
                "SignatureValidationFailed",
                "SignatureValidationFailed",
                "image pull failed for r.io/a:1 because the signature validation failed",
            ),
            ("it says RegistryUnavailable", "ErrImagePull", "it says RegistryUnavailable"),
        ];
        for (said, reason, message) in table {
            let error = CallError { failure: CallFailure::Refused, message: said.into() };
            let error = ImageError::of_pull("r.io/a:1", error);
            assert_eq!((error.reason(), error.to_string().as_str()), (reason, message), "{said}");
        }
    }
}
