//! Calls that fail, for a while or for good.

use std::path::Path;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_had_is_asked_for_less_and_less() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_absent("image:1", true);
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_waiting("ErrImagePull").await;
    stage.send(Operation::Update, &[pod("Always", &[], &["web"])]).await;
    stage.until_waiting("ImagePullBackOff").await;
    let pulls = |calls: &[String]| calls.iter().filter(|call| call.starts_with("pull")).count();
    assert_eq!(pulls(&stage.runtime.take_calls()), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tried = pulls(&stage.runtime.take_calls());
    assert!((1..=3).contains(&tried), "{tried} pulls in a minute");
    stage.runtime.image_is_absent("image:1", false);
    stage.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_one_container_does_not_hold_up_another() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.image_is_absent("image:1", false);
    let stage = Scene::start(runtime, folder.path());
    let mut two = testkit::pod("Always", &[], &["bad", "good"]);
    two.spec.as_mut().unwrap().containers[0].image = Some("NOT AN IMAGE".to_owned());
    stage.send(Operation::Add, &[Arc::new(two)]).await;
    stage.until_running(&["good-0"]).await;
    stage.until_waiting("InvalidImageName").await;
    stage.runtime.exit("good", 1);
    stage.until_running(&["good-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_is_tried_again_without_haste() {
    let folder = folder();
    let runtime = FakeRuntime::default();
    runtime.fail("run_sandbox", Some("no room"));
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let tried = stage.runtime.take_calls().len();
    assert!((5..=12).contains(&tried), "{tried} times in 100 s");
    let happened = stage.handle.board().all()[0].events.clone();
    assert!(
        happened.iter().any(|one| one.reason == "FailedCreatePodSandBox" && one.message.contains("no room"))
    );
    stage.runtime.fail("run_sandbox", None);
    stage.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_sandbox_whose_successor_cannot_be_made_waits_no_longer_than_a_new_one() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_running(&["web-0"]).await;
    stage.runtime.fail("run_sandbox", Some("no network"));
    stage.runtime.break_sandboxes();
    stage.runtime.take_calls();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let calls = stage.runtime.take_calls();
    let tried = calls.iter().filter(|call| call.starts_with("run")).count();
    assert!((5..=12).contains(&tried), "{tried} times in 100 s: {calls:?}");
    stage.runtime.fail("run_sandbox", None);
    stage.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_answer_was_lost_is_not_made_again_if_it_worked() {
    for call in ["run_sandbox", "create_container", "start_container"] {
        let folder = folder();
        let runtime = FakeRuntime::default();
        runtime.lose_answers(call, true);
        let stage = Scene::start(runtime, folder.path());
        stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        stage.runtime.lose_answers(call, false);
        stage.until_running(&["web-0"]).await;
        stage.until_phase("Running").await;
        assert_eq!(stage.runtime.known(), (1, 1), "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_another_agent_has_just_started_is_kept_and_one_that_does_not_start_is_replaced() {
    let stage_with_one_made = async |folder: &Path| {
        let runtime = FakeRuntime::default();
        runtime.lose_answers("create_container", true);
        runtime.fail("inspect", Some("not yet"));
        let stage = Scene::start(runtime, folder);
        stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
        while stage.runtime.known() != (1, 1) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stage.runtime.lose_answers("create_container", false);
        stage.runtime.take_calls();
        stage
    };

    let its_folder = folder();
    let stage = stage_with_one_made(its_folder.path()).await;
    stage.runtime.overtake("start_container", true);
    stage.runtime.fail("inspect", None);
    stage.until_phase("Running").await;
    assert_eq!(stage.runtime.take_calls(), ["start"]);
    assert_eq!(stage.runtime.running(), ["web-0"]);

    let its_folder = folder();
    let stage = stage_with_one_made(its_folder.path()).await;
    stage.runtime.fail("start_container", Some("no room"));
    stage.runtime.fail("inspect", None);
    stage.until_waiting("RunContainerError").await;
    assert_eq!(stage.runtime.take_calls(), ["start", "remove web-0"]);
    stage.runtime.fail("start_container", None);
    stage.until_phase("Running").await;
    assert_eq!(stage.runtime.known(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_was_made_and_not_started_waits_for_no_crash_before_it() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    for instance in ["web-0", "web-1", "web-2"] {
        stage.until_running(&[instance]).await;
        if instance == "web-2" {
            stage.runtime.fail("start_container", Some("no room"));
        }
        stage.runtime.exit("web", 1);
    }
    stage.until_waiting("RunContainerError").await;
    let refused = tokio::time::Instant::now();
    stage.runtime.fail("start_container", None);
    stage.until_running(&["web-3"]).await;
    let waited = refused.elapsed();
    assert!(waited < Duration::from_secs(15), "the next crash would wait 40 s, this one waited {waited:?}");
}
