//! The image service.

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{Op, Profile};
use tonic::Code;

use crate::client::{Served, connect_images, serve};

fn spec(image: &str) -> Option<v1::ImageSpec> {
    Some(v1::ImageSpec { image: image.to_owned(), ..Default::default() })
}

#[tokio::test]
async fn an_image_is_there_once_it_is_pulled() {
    let Served { runtime, .. } = &mut serve(Profile::Ctd2).await;
    let mut images = connect_images(runtime.socket()).await;
    let ask = v1::ImageStatusRequest { image: spec("app:1"), verbose: false };
    assert_eq!(images.image_status(ask.clone()).await.unwrap().into_inner().image, None);
    let pull = v1::PullImageRequest { image: spec("app:1"), ..Default::default() };
    let image_ref = images.pull_image(pull.clone()).await.unwrap().into_inner().image_ref;
    assert_eq!(images.pull_image(pull.clone()).await.unwrap().into_inner().image_ref, image_ref);
    assert_eq!(images.image_status(ask).await.unwrap().into_inner().image.unwrap().id, image_ref);
    let list = images.list_images(v1::ListImagesRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.images[0].repo_tags, ["app:1"]);
    let info = images.image_fs_info(v1::ImageFsInfoRequest {}).await.unwrap().into_inner();
    assert!(info.image_filesystems[0].used_bytes.as_ref().unwrap().value > 0);

    runtime.faults().on(Op::PullImage).error(Code::Unavailable, "registry is down");
    assert_eq!(images.pull_image(pull).await.unwrap_err().message(), "registry is down");
    images.remove_image(v1::RemoveImageRequest { image: spec(&image_ref) }).await.unwrap();
    images.remove_image(v1::RemoveImageRequest { image: spec(&image_ref) }).await.unwrap();
    let list = images.list_images(v1::ListImagesRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.images, []);
}
