//! The image service: names without content. Every pull succeeds, unless a fault says otherwise.

use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::lists::batch;
use super::shared::Shared;
use crate::synthetic::op::Op;
use crate::synthetic::world::World;

/// The size of an image whose size was not specified.
const PULLED_BYTES: u64 = 32 << 20;

pub(super) fn list(shared: &Shared, request: &v1::ListImagesRequest) -> Result<Answer, Status> {
    let images = shared.look(|world| filtered(world, request.filter.as_ref()));
    Ok(Answer::of(&v1::ListImagesResponse { images }))
}

pub(super) fn stream(shared: &Shared, request: &v1::StreamImagesRequest) -> Result<Answer, Status> {
    let batch = batch(shared, Op::StreamImages)?;
    let images = shared.look(|world| filtered(world, request.filter.as_ref()));
    let entries: Vec<_> = images.iter().map(|image| prost::Message::encode_to_vec(image).into()).collect();
    Ok(Answer::batches(1, &entries, batch))
}

/// A missing image is an answer without an image rather than an error.
pub(super) fn status(shared: &Shared, request: &v1::ImageStatusRequest) -> Result<Answer, Status> {
    let image = shared.look(|world| world.find_image(name(request.image.as_ref())));
    Ok(Answer::of(&v1::ImageStatusResponse { image, ..Default::default() }))
}

pub(super) fn pull(shared: &Shared, request: v1::PullImageRequest) -> Result<Answer, Status> {
    let name = request.image.map(|image| image.image).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Status::invalid_argument("failed to parse image reference \"\""))?;
    let (image_ref, _) = shared.change(|world| match world.find_image(&name) {
        Some(image) => image.id,
        None => world.add_image(name, PULLED_BYTES),
    });
    Ok(Answer::of(&v1::PullImageResponse { image_ref }))
}

pub(super) fn remove(shared: &Shared, request: &v1::RemoveImageRequest) -> Result<Answer, Status> {
    shared.change(|world| world.remove_image(name(request.image.as_ref())));
    Ok(Answer::of(&v1::RemoveImageResponse {}))
}

pub(super) fn fs_info(shared: &Shared) -> Result<Answer, Status> {
    let (now, used) = shared.look(|world| (world.now(), world.image_bytes()));
    let usage = v1::FilesystemUsage {
        timestamp: now,
        fs_id: Some(v1::FilesystemIdentifier { mountpoint: "/var/lib/synthetic".to_owned() }),
        used_bytes: Some(v1::UInt64Value { value: used }),
        inodes_used: None,
    };
    Ok(Answer::of(&v1::ImageFsInfoResponse {
        image_filesystems: vec![usage.clone()],
        container_filesystems: vec![usage],
    }))
}

fn filtered(world: &World, filter: Option<&v1::ImageFilter>) -> Vec<v1::Image> {
    match filter.map(|filter| name(filter.image.as_ref())).filter(|name| !name.is_empty()) {
        Some(name) => world.find_image(name).into_iter().collect(),
        None => world.images().collect(),
    }
}

fn name(image: Option<&v1::ImageSpec>) -> &str {
    image.map_or("", |image| &image.image)
}
