//! `ImageService`, on top of the image store.

use std::pin::Pin;

use rubelet_cri::v1::{self, image_service_server::ImageService};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{Service, chunked};
use crate::embedded::clock;
use crate::embedded::error::Error;
use crate::embedded::runtime::blocking;
use crate::image::{
    Auth, Image, ImageName, ImageStore, NameError, Progress, PullError, PullOptions, PullReason, StoreError,
};

type Answer<T> = Result<Response<T>, Status>;

fn describe(image: &Image) -> v1::Image {
    let (user, _) = image.config.user.split_once(':').unwrap_or((&image.config.user, ""));
    let uid = user.parse::<i64>().ok();
    v1::Image {
        id: image.id.to_string(),
        repo_tags: image.repo_tags.clone(),
        repo_digests: image.repo_digests.clone(),
        // A kubelet takes an image of zero bytes for a missing one; the built-in and empty images have zero bytes.
        size: image.size.max(1),
        uid: uid.map(|value| v1::Int64Value { value }),
        username: if uid.is_some() { String::new() } else { user.to_owned() },
        spec: None,
        pinned: image.is_built_in(),
    }
}

fn failed(error: &StoreError) -> Error {
    Error::Image(error.to_string())
}

fn pull_status(error: PullError) -> Status {
    let message = error.to_string();
    match error.reason {
        PullReason::NotFound => Status::not_found(message),
        PullReason::Unauthorized => Status::permission_denied(message),
        reason if reason.is_transient() => Status::unavailable(message),
        _ => Status::unknown(message),
    }
}

/// Finds an image; `None` for an unknown name, and for an invalid one.
fn find(images: &ImageStore, name: &str) -> Result<Option<Image>, Error> {
    match images.resolve(name) {
        Ok(image) => Ok(Some(image)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(StoreError::Name(_)) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

impl Service {
    async fn images(&self, filter: Option<v1::ImageFilter>) -> Result<Vec<v1::Image>, Status> {
        let images = self.runtime.images.clone();
        let wanted = filter.and_then(|filter| filter.image).map(|image| image.image).unwrap_or_default();
        let found = blocking(move || {
            if wanted.is_empty() {
                images.list().map_err(|error| failed(&error))
            } else {
                Ok(find(&images, &wanted)?.into_iter().collect())
            }
        });
        Ok(found.await?.iter().map(describe).collect())
    }
}

#[tonic::async_trait]
impl ImageService for Service {
    async fn list_images(&self, request: Request<v1::ListImagesRequest>) -> Answer<v1::ListImagesResponse> {
        let images = self.images(request.into_inner().filter).await?;
        Ok(Response::new(v1::ListImagesResponse { images }))
    }

    type StreamImagesStream = Pin<Box<dyn Stream<Item = Result<v1::StreamImagesResponse, Status>> + Send>>;

    async fn stream_images(
        &self,
        request: Request<v1::StreamImagesRequest>,
    ) -> Answer<Self::StreamImagesStream> {
        let images = self.images(request.into_inner().filter).await?;
        let messages = chunked(images, |images| v1::StreamImagesResponse { images });
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn image_status(
        &self,
        request: Request<v1::ImageStatusRequest>,
    ) -> Answer<v1::ImageStatusResponse> {
        let name = request.into_inner().image.unwrap_or_default().image;
        let images = self.runtime.images.clone();
        let found = blocking(move || find(&images, &name)).await?;
        Ok(Response::new(v1::ImageStatusResponse {
            image: found.as_ref().map(describe),
            info: Default::default(),
        }))
    }

    async fn pull_image(&self, request: Request<v1::PullImageRequest>) -> Answer<v1::PullImageResponse> {
        let request = request.into_inner();
        let wanted = request.image.unwrap_or_default().image;
        let name: ImageName =
            wanted.parse().map_err(|error: NameError| Error::invalid("image.image", error.to_string()))?;
        let auth = match &request.auth {
            Some(config) => {
                Auth::from_cri(config, &name).map_err(|error| Error::invalid("auth", error.to_string()))?
            }
            None => Auth::Anonymous,
        };
        let options = PullOptions { auth, ..PullOptions::default() };
        // Not `unhurried`: a caller that disconnects does not want the image any more, and the next attempt continues.
        let image =
            self.runtime.images.pull(&name, &options, &Progress::none()).await.map_err(pull_status)?;
        let image_ref = image.repo_digests.first().cloned().unwrap_or_else(|| image.id.to_string());
        Ok(Response::new(v1::PullImageResponse { image_ref }))
    }

    async fn remove_image(
        &self,
        request: Request<v1::RemoveImageRequest>,
    ) -> Answer<v1::RemoveImageResponse> {
        let name = request.into_inner().image.unwrap_or_default().image;
        let images = self.runtime.images.clone();
        blocking(move || match images.remove(&name) {
            Ok(_) => Ok(()),
            // It should be gone, and it is.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(failed(&error)),
        })
        .await?;
        Ok(Response::new(v1::RemoveImageResponse {}))
    }

    async fn image_fs_info(&self, _: Request<v1::ImageFsInfoRequest>) -> Answer<v1::ImageFsInfoResponse> {
        let images = self.runtime.images.clone();
        let containers = self.runtime.layout.containers();
        let usage = blocking(move || images.fs_usage().map_err(|error| failed(&error))).await?;
        let entry = |path: &std::path::Path, bytes: Option<u64>, inodes: Option<u64>| v1::FilesystemUsage {
            timestamp: clock::now(),
            fs_id: Some(v1::FilesystemIdentifier { mountpoint: path.to_string_lossy().into_owned() }),
            used_bytes: bytes.map(|value| v1::UInt64Value { value }),
            inodes_used: inodes.map(|value| v1::UInt64Value { value }),
        };
        Ok(Response::new(v1::ImageFsInfoResponse {
            image_filesystems: vec![entry(&usage.path, Some(usage.used_bytes), Some(usage.inodes_used))],
            // Only the mount point: what each container wrote is in its own statistics.
            container_filesystems: vec![entry(&containers, None, None)],
        }))
    }
}
