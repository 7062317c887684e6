//! Sandboxes, and the runtime itself.

use rubelet_cri::v1;
use tonic::Code;

use crate::cri::Cri;

pub(crate) async fn a_pod_lives_and_goes(cri: Cri) {
    let config = cri.pod_config();
    let pod = cri.run_pod(&config).await.expect("a pod");
    let status = cri.pod_status(&pod).await.expect("a status");
    assert_eq!(status.state(), v1::PodSandboxState::SandboxReady);
    assert_eq!(status.metadata, config.metadata);
    assert_eq!(status.labels, config.labels);
    assert!(status.created_at > 0);
    assert!(cri.pods(None).await.iter().any(|item| item.id == pod));

    cri.stop_pod(&pod).await.expect("stops");
    cri.stop_pod(&pod).await.expect("stops again");
    assert_eq!(cri.pod_status(&pod).await.expect("a status").state(), v1::PodSandboxState::SandboxNotready);

    cri.remove_pod(&pod).await.expect("is removed");
    cri.remove_pod(&pod).await.expect("is removed again");
    assert_eq!(cri.pod_status(&pod).await.unwrap_err().code(), Code::NotFound);
}

pub(crate) async fn stopping_what_is_not_there_is_fine(cri: Cri) {
    let nobody = "f".repeat(64);
    cri.stop(&nobody, 0).await.expect("no container");
    cri.remove(&nobody).await.expect("no container");
    cri.remove_pod(&nobody).await.expect("no pod");
    cri.stop_pod(&nobody).await.expect("no pod");
}

pub(crate) async fn a_pod_cannot_be_made_twice(cri: Cri) {
    let config = cri.pod_config();
    cri.run_pod(&config).await.expect("a pod");
    cri.run_pod(&config).await.expect_err("the name is taken");
    let mut again = config.clone();
    again.metadata.as_mut().expect("metadata").attempt = 1;
    cri.run_pod(&again).await.expect("another attempt is another pod");
}

pub(crate) async fn removing_a_pod_takes_its_containers_along(cri: Cri) {
    let (pod, id, _) = cri.pod_with("exec sleep 3600").await;
    cri.start(&id).await.expect("starts");
    cri.remove_pod(&pod).await.expect("is removed");
    assert_eq!(cri.status(&id).await.unwrap_err().code(), Code::NotFound);
    assert!(cri.containers(None).await.is_empty());
}

pub(crate) async fn the_runtime_says_who_it_is_and_that_it_is_ready(cri: Cri) {
    let version =
        cri.runtime().await.version(v1::VersionRequest::default()).await.expect("a version").into_inner();
    assert_eq!(version.version, "0.1.0");
    assert_eq!(version.runtime_api_version, "v1");
    assert!(!version.runtime_name.is_empty() && !version.runtime_version.is_empty());
    let status =
        cri.runtime().await.status(v1::StatusRequest::default()).await.expect("a status").into_inner();
    let conditions = status.status.expect("conditions").conditions;
    assert!(conditions.iter().any(|condition| condition.r#type == "RuntimeReady" && condition.status));
    assert!(conditions.iter().any(|condition| condition.r#type == "NetworkReady"));
}

pub(crate) async fn the_runtime_config_names_the_cgroup_driver(cri: Cri) {
    let config =
        cri.runtime().await.runtime_config(v1::RuntimeConfigRequest::default()).await.expect("a config");
    assert_eq!(config.into_inner().linux.expect("linux").cgroup_driver(), v1::CgroupDriver::Cgroupfs);
}

pub(crate) async fn the_image_is_known_and_another_is_not(cri: Cri) {
    let status = |image: &str| {
        let request = v1::ImageStatusRequest {
            image: Some(v1::ImageSpec { image: image.to_owned(), ..Default::default() }),
            verbose: false,
        };
        let cri = cri.clone();
        async move { cri.images().await.image_status(request).await.expect("an answer").into_inner().image }
    };
    let known = status(&cri.image).await.expect("the image");
    assert!(!known.id.is_empty());
    assert!(status("localhost/there-is-no-such-image:1").await.is_none());
    let list =
        cri.images().await.list_images(v1::ListImagesRequest::default()).await.expect("a list").into_inner();
    assert!(list.images.iter().any(|image| image.id == known.id));
}

pub(crate) async fn a_container_made_by_an_images_id_says_its_name(cri: Cri) {
    let request = v1::ImageStatusRequest {
        image: Some(v1::ImageSpec { image: cri.image.clone(), ..Default::default() }),
        verbose: false,
    };
    let image = cri.images().await.image_status(request).await.expect("an answer").into_inner().image;
    let image = image.expect("the image");
    let mut config = cri.container_config("true");
    config.image = Some(v1::ImageSpec { image: image.id.clone(), ..Default::default() });
    let (_, id, _) = cri.pod_with_config(config).await;
    let said = cri.status(&id).await.expect("a status").image.expect("an image").image;
    // The host's root has no name that somebody gave it.
    let wanted = if cri.image == "host" { &image.id } else { &image.repo_tags[0] };
    assert_eq!(&said, wanted);
    let listed = cri.containers(None).await.into_iter().find(|container| container.id == id);
    assert_eq!(
        listed.expect("is listed").image.expect("an image").image,
        image.id,
        "a list has the request's word"
    );
}
