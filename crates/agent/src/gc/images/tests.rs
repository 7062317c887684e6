use super::*;
use crate::gc::testkit::Watched;
use crate::metrics::Metrics;

/// Never satisfied, however much space there is.
const POLICY: ImagePolicy = ImagePolicy { high: 0, low: 0, min_age: Duration::ZERO };

fn collector(watched: &Watched) -> ImageCollector<crate::testkit::FakeRuntime> {
    let handle = watched.pleg.handle();
    ImageCollector::new(
        Arc::new(watched.runtime.clone()),
        handle.cache(),
        handle.clock().clone(),
        POLICY,
        Metrics::default(),
    )
}

async fn until_whole(watched: &Watched) {
    while watched.pleg.handle().cache().whole().is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_goes_and_one_that_cannot_does_not_keep_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let watched = Watched::new();
    watched.run("pod", "web", folder.path()).await;
    until_whole(&watched).await;
    // Containers of this runtime are created from `sha256:1`.
    watched.runtime.keeps_images(&["sha256:1", "sha256:2", "sha256:3", "sha256:4"], folder.path());
    watched.runtime.image_is_stuck("sha256:3");
    assert_eq!(collector(&watched).collect().await, Ok(Look::Done));
    assert_eq!(
        watched.runtime.take_calls(),
        ["remove image sha256:2", "remove image sha256:3", "remove image sha256:4"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_before_every_pod_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let watched = Watched::new();
    watched.runtime.keeps_images(&["sha256:1"], folder.path());
    let mut collector = collector(&watched);
    assert_eq!(collector.collect().await, Ok(Look::TooEarly), "nothing was listed yet");
    watched.run("pod", "web", folder.path()).await;

    // Its status is lost, and with it which images it uses.
    watched.runtime.fail("inspect", Some("damaged"));
    watched.pleg.handle().reinspect(&"pod".into());
    while watched.pleg.handle().cache().get(&"pod".into()).is_ok() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(collector.collect().await, Ok(Look::TooEarly));
    watched.runtime.fail("inspect", None);
    until_whole(&watched).await;
    assert_eq!(collector.collect().await, Ok(Look::Done));
    assert_eq!(watched.runtime.take_calls(), [""; 0], "it is in use");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_begins_to_use_while_others_go_stays() {
    let folder = tempfile::tempdir().unwrap();
    let watched = Watched::new();
    until_whole(&watched).await;
    watched.runtime.keeps_images(&["sha256:0", "sha256:1"], folder.path());
    let mut collector = collector(&watched);
    let (looked, ()) = tokio::join!(collector.collect(), watched.run("pod", "web", folder.path()));
    assert_eq!(looked, Ok(Look::Done));
    let left: Vec<String> =
        watched.runtime.images().await.unwrap().into_iter().map(|image| image.id).collect();
    assert_eq!(left, ["sha256:1"]);
}

#[tokio::test(start_paused = true)]
async fn the_image_of_sandboxes_stays() {
    let folder = tempfile::tempdir().unwrap();
    let watched = Watched::new();
    until_whole(&watched).await;
    watched.runtime.keeps_images(&["sha256:app", "sha256:pause"], folder.path());
    watched.runtime.makes_sandboxes_from("sha256:pause");
    assert_eq!(collector(&watched).collect().await, Ok(Look::Done));
    assert_eq!(watched.runtime.take_calls(), ["remove image sha256:app"]);
}
