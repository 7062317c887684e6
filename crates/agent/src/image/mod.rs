//! Images for containers: whether one must be fetched, and fetching it, a few at a time.

mod name;
mod policy;

use std::sync::Arc;

use rubelet_cri::v1;
use tokio::sync::Semaphore;

use crate::runtime::{CallError, ImageStore};

pub(crate) use name::full_name;
pub(crate) use policy::PullPolicy;

/// An image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The reference by which the runtime knows it.
    pub(crate) reference: String,
    /// Who its processes run as, if it says so with a number.
    pub(crate) uid: Option<i64>,
    /// Who its processes run as, if it says so with a name.
    pub(crate) username: String,
}

/// Why a container has no image, with the reason that its status shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("couldn't parse image name {0:?}: invalid reference format")]
    InvalidName(String),
    #[error("{0}")]
    Inspect(CallError),
    #[error("Container image {0:?} is not present with pull policy of Never")]
    NeverPull(String),
    #[error("{0}")]
    Pull(CallError),
}

impl ImageError {
    /// The kubelet's word for it.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName(_) => "InvalidImageName",
            Self::Inspect(_) => "ImageInspectError",
            Self::NeverPull(_) => "ErrImageNeverPull",
            Self::Pull(error) if error.message.starts_with("RegistryUnavailable") => "RegistryUnavailable",
            Self::Pull(error) if error.message.starts_with("SignatureValidationFailed") => {
                "SignatureValidationFailed"
            }
            Self::Pull(_) => "ErrImagePull",
        }
    }
}

/// Fetches images, a bounded number at a time.
#[derive(Debug)]
pub(crate) struct Puller<S> {
    store: Arc<S>,
    at_once: Semaphore,
}

impl<S: ImageStore> Puller<S> {
    pub(crate) fn new(store: Arc<S>, at_once: usize) -> Self {
        Self { store, at_once: Semaphore::new(at_once.max(1)) }
    }

    /// The image of that name, if it is there.
    pub(crate) async fn present(&self, name: &str) -> Result<Option<Resolved>, ImageError> {
        let image = self.store.image(name).await.map_err(ImageError::Inspect)?;
        Ok(image.map(|image| resolved(image.id.clone(), &image)))
    }

    /// Fetches an image when it is its turn.
    pub(crate) async fn pull(
        &self,
        name: &str,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<Resolved, ImageError> {
        // Nobody closes it.
        let _turn = self.at_once.acquire().await;
        let reference = self.store.pull(name, sandbox_config).await.map_err(ImageError::Pull)?;
        let image = self.store.image(&reference).await.map_err(ImageError::Inspect)?.unwrap_or_default();
        Ok(resolved(reference, &image))
    }
}

fn resolved(reference: String, image: &v1::Image) -> Resolved {
    Resolved { reference, uid: image.uid.map(|uid| uid.value), username: image.username.clone() }
}
