//! The client of the image service.

use std::sync::Arc;

use super::NO_TIME;
use crate::call::Caller;
use crate::{Endpoint, Error, ErrorKind, Metrics, Operation, Options, v1};

/// A client of a runtime's images.
///
/// It connects, waits and fails as a [`RuntimeClient`](crate::RuntimeClient) does.
#[derive(Clone, Debug)]
pub struct ImageClient(pub(super) Arc<Caller>);

macro_rules! method {
    ($method:literal) => {
        concat!("/runtime.v1.ImageService/", $method)
    };
}

impl ImageClient {
    /// A client of the images of the runtime at `endpoint`. For those of a runtime that there is a client of,
    /// [`RuntimeClient::images`](crate::RuntimeClient::images) saves a connection.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: Options, metrics: Metrics) -> Self {
        Self(Arc::new(Caller::new(endpoint, options, metrics)))
    }

    /// Where the runtime is.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.0.link().endpoint()
    }

    /// The images that the filter lets through. Read as a stream if they are too many for one answer.
    pub async fn list_images(&self, filter: Option<v1::ImageFilter>) -> Result<Vec<v1::Image>, Error> {
        let request = v1::ListImagesRequest { filter };
        self.0
            .list(
                Operation::ListImages,
                (method!("ListImages"), |answer: v1::ListImagesResponse| answer.images),
                (method!("StreamImages"), |part: v1::StreamImagesResponse| part.images),
                &request,
            )
            .await
    }

    /// An image; `None` if the runtime does not have it.
    pub async fn image_status(&self, image: v1::ImageSpec) -> Result<Option<v1::Image>, Error> {
        Ok(self.describe_image(image, false).await?.image)
    }

    /// All that the runtime tells about an image, as it tells it.
    pub async fn describe_image(
        &self,
        image: v1::ImageSpec,
        verbose: bool,
    ) -> Result<v1::ImageStatusResponse, Error> {
        let request = v1::ImageStatusRequest { image: Some(image), verbose };
        self.0.unary(Operation::ImageStatus, method!("ImageStatus"), NO_TIME, &request).await
    }

    /// Fetches an image, for as long as it takes, and gives the reference by which the runtime knows it.
    pub async fn pull_image(
        &self,
        image: v1::ImageSpec,
        auth: Option<v1::AuthConfig>,
        sandbox_config: Option<v1::PodSandboxConfig>,
    ) -> Result<String, Error> {
        let request = v1::PullImageRequest { image: Some(image), auth, sandbox_config };
        let answer: v1::PullImageResponse =
            self.0.unary(Operation::PullImage, method!("PullImage"), NO_TIME, &request).await?;
        if answer.image_ref.is_empty() {
            let kind = ErrorKind::Invalid("image_ref");
            return Err(Error::new(Operation::PullImage, kind, self.endpoint(), "missing"));
        }
        Ok(answer.image_ref)
    }

    /// Removes an image. An image that is gone is no error.
    pub async fn remove_image(&self, image: v1::ImageSpec) -> Result<(), Error> {
        let request = v1::RemoveImageRequest { image: Some(image) };
        let _: v1::RemoveImageResponse =
            self.0.unary(Operation::RemoveImage, method!("RemoveImage"), NO_TIME, &request).await?;
        Ok(())
    }

    /// Where images are kept and how much they use.
    pub async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse, Error> {
        let request = v1::ImageFsInfoRequest {};
        self.0.unary(Operation::ImageFsInfo, method!("ImageFsInfo"), NO_TIME, &request).await
    }
}
