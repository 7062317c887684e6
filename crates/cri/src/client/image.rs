//! The client of the image service.

use std::sync::Arc;

use super::NO_TIME;
use crate::call::Caller;
use crate::{Endpoint, Error, ErrorKind, Metrics, Operation, Options, v1};

/// A client for the images of a runtime.
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
    /// Creates a client for the images of the runtime at `endpoint`. If you already have a `RuntimeClient`, use
    /// [`RuntimeClient::images`](crate::RuntimeClient::images): it shares the connection.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: Options, metrics: Metrics) -> Self {
        Self(Arc::new(Caller::new(endpoint, options, metrics)))
    }

    /// The endpoint of the runtime.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.0.link().endpoint()
    }

    /// Returns the images that match the filter. They are read as a stream if they do not fit into one answer.
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

    /// Returns an image, or `None` if the runtime does not have it.
    pub async fn image_status(&self, image: v1::ImageSpec) -> Result<Option<v1::Image>, Error> {
        Ok(self.describe_image(image, false).await?.image)
    }

    /// Returns everything that the runtime reports about an image, unconverted.
    pub async fn describe_image(
        &self,
        image: v1::ImageSpec,
        verbose: bool,
    ) -> Result<v1::ImageStatusResponse, Error> {
        let request = v1::ImageStatusRequest { image: Some(image), verbose };
        self.0.unary(Operation::ImageStatus, method!("ImageStatus"), NO_TIME, &request).await
    }

    /// Pulls an image, however long that takes, and returns the reference under which the runtime knows it.
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

    /// Removes an image. It is no error if the image is gone.
    pub async fn remove_image(&self, image: v1::ImageSpec) -> Result<(), Error> {
        let request = v1::RemoveImageRequest { image: Some(image) };
        let _: v1::RemoveImageResponse =
            self.0.unary(Operation::RemoveImage, method!("RemoveImage"), NO_TIME, &request).await?;
        Ok(())
    }

    /// Returns where images are stored and how much space they use.
    pub async fn image_fs_info(&self) -> Result<v1::ImageFsInfoResponse, Error> {
        let request = v1::ImageFsInfoRequest {};
        self.0.unary(Operation::ImageFsInfo, method!("ImageFsInfo"), NO_TIME, &request).await
    }
}
