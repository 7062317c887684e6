//! An agent that starts: what runs already, and what is not known yet.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_agent_that_comes_back_adopts_what_runs_and_ends_what_is_no_longer_wanted() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let named = |uid: &str, name: &str| {
        let mut pod = testkit::pod("Always", &[], &[name]);
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.name = Some(name.to_owned());
        Arc::new(pod)
    };
    stage.send(Operation::Add, &[named("1", "stays"), named("2", "goes")]).await;
    stage.until_running(&["goes-0", "stays-0"]).await;
    let runtime = stage.runtime.clone();
    stage.task.abort();
    drop(stage);
    runtime.take_calls();

    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[named("1", "stays")]).await;
    stage.until_running(&["stays-0"]).await;
    stage.until("only one left", |all| all.len() == 1).await;
    let calls = stage.runtime.take_calls();
    assert!(!calls.iter().any(|call| call.starts_with("create") || call.starts_with("run")), "{calls:?}");
    assert!(calls.contains(&"stop goes in 2s".to_owned()), "nobody knows what it needs: {calls:?}");
    assert_eq!(stage.runtime.known(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_or_ends_while_nobody_knows_which_pods_there_are() {
    let folder = folder();
    let version = |uid: &str| {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        pod.metadata.uid = Some(uid.to_owned());
        Arc::new(pod)
    };
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[version("1")]).await;
    stage.until_running(&["web-0"]).await;
    let runtime = stage.runtime.clone();
    stage.task.abort();
    drop(stage);
    runtime.take_calls();

    // For a while, what should be a folder is not one.
    let (pods, away) = (folder.path().join("pods"), folder.path().join("away"));
    std::fs::rename(&pods, &away).unwrap();
    std::fs::write(&pods, "").unwrap();
    let stage = Scene::start(runtime, folder.path());
    stage.send(Operation::Add, &[version("2")]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.runtime.take_calls(), Vec::<String>::new());
    assert!(!stage.handle.ready().borrow().is_ready());

    std::fs::remove_file(&pods).unwrap();
    std::fs::rename(away, &pods).unwrap();
    stage
        .until("the new version alone", |all| {
            all.len() == 1 && all[0].pod.metadata.uid.as_deref() == Some("2") && waits_for(&all[0]).is_none()
        })
        .await;
    assert!(stage.handle.ready().borrow().is_ready());
}
