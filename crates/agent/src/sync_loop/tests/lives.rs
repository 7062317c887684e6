//! The life of a pod: how it starts, runs, restarts and ends by itself.

use std::path::Path;

use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_fixed_uid_and_another_name_replaces_itself() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let named = |name: &str| {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        pod.metadata.name = Some(name.to_owned());
        Arc::new(pod)
    };
    stage.send(Operation::Add, &[named("old")]).await;
    stage.until_phase("Running").await;
    stage.send(Operation::Remove, &[named("old")]).await;
    stage.send(Operation::Add, &[named("new")]).await;
    stage
        .until("the new name runs alone", |all| {
            let phase = |view: &PodView| view.status.phase.clone();
            matches!(all, [one] if one.pod.metadata.name.as_deref() == Some("new") && phase(one).as_deref() == Some("Running"))
        })
        .await;
    assert_eq!(stage.runtime.known(), (1, 1), "nothing is left of the old one");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_started_and_taken_down() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let web = pod("Always", &[], &["web"]);
    stage.send(Operation::Add, std::slice::from_ref(&web)).await;
    stage.until_phase("Running").await;
    assert_eq!(stage.runtime.take_calls(), ["run sandbox 0", "create web-0", "start"]);
    assert!(folder.path().join("pods/uid").exists());
    stage.send(Operation::Remove, &[web]).await;
    stage.until_gone().await;
    assert_eq!(
        stage.runtime.take_calls(),
        ["stop web in 30s", "stop sandbox", "remove web-0", "stop sandbox", "remove sandbox"]
    );
    assert_eq!(stage.runtime.known(), (0, 0));
    assert!(!folder.path().join("pods/uid").exists());
}

#[tokio::test(start_paused = true)]
async fn a_crashing_container_restarts_at_once_and_then_waits_longer_and_longer() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    stage.until_running(&["web-0"]).await;
    let mut waits = Vec::new();
    for attempt in 1..6 {
        stage.runtime.exit("web", 1);
        let begun = tokio::time::Instant::now();
        stage.until_running(&[&format!("web-{attempt}")]).await;
        waits.push(begun.elapsed().as_secs());
    }
    // Up to a second is the period of the PLEG, which notices the exit only in a list.
    let wanted = [0, 10, 20, 40, 80];
    assert!(waits.iter().zip(wanted).all(|(wait, wanted)| (wanted..=wanted + 1).contains(wait)), "{waits:?}");
    stage.runtime.exit("web", 1);
    stage.until_waiting("CrashLoopBackOff").await;
    let view = stage.handle.board().all()[0].clone();
    let status = &view.status.container_statuses.as_ref().unwrap()[0];
    let message = status.state.as_ref().unwrap().waiting.as_ref().unwrap().message.clone().unwrap();
    assert_eq!(message, "back-off 2m40s restarting failed container=web pod=web_default(uid)");
    assert_eq!(status.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 1);
    assert_eq!(stage.runtime.known(), (1, 1), "of those that ended only the newest is kept");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_well_again_and_again_waits_like_one_that_crashes() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &[], &["web"])]).await;
    for instance in ["web-0", "web-1"] {
        stage.until_running(&[instance]).await;
        stage.runtime.exit("web", 0);
    }
    let begun = tokio::time::Instant::now();
    stage.until_waiting("CrashLoopBackOff").await;
    stage.until_running(&["web-2"]).await;
    let waited = begun.elapsed().as_secs();
    assert!((10..=11).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_sidecars_stay() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &["setup", "proxy*"], &["web"])]).await;
    stage.until_running(&["setup-0"]).await;
    stage.runtime.exit("setup", 0);
    stage.until_running(&["proxy-0", "web-0"]).await;
    let calls = stage.runtime.take_calls();
    assert_eq!(
        calls,
        ["run sandbox 0", "create setup-0", "start", "create proxy-0", "start", "create web-0", "start"]
    );
    stage.until_phase("Running").await;
    stage.send(Operation::Remove, &[pod("Always", &["setup", "proxy*"], &["web"])]).await;
    stage.until_gone().await;
    let calls = stage.runtime.take_calls();
    let place = |wanted: &str| calls.iter().position(|call| call.starts_with(wanted)).unwrap();
    assert!(
        place("stop web") < place("stop proxy") && place("stop proxy") < place("stop sandbox"),
        "{calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_by_itself_and_stays_to_be_looked_at() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let job = pod("Never", &[], &["job"]);
    stage.send(Operation::Add, std::slice::from_ref(&job)).await;
    stage.until_running(&["job-0"]).await;
    stage.runtime.exit("job", 3);
    stage.until("end", |all| all[0].stage == Stage::Terminated).await;
    assert_eq!(stage.handle.board().all()[0].status.phase.as_deref(), Some("Failed"));
    assert_eq!(stage.runtime.known(), (1, 1));
    assert_eq!(stage.runtime.take_calls().last().unwrap(), "stop sandbox");
    stage.send(Operation::Remove, &[job]).await;
    stage.until_gone().await;
    assert_eq!(stage.runtime.known(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_broken_sandbox_is_replaced_with_everything_in_it() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &["proxy*"], &["web"])]).await;
    stage.until_running(&["proxy-0", "web-0"]).await;
    stage.runtime.ends_with("proxy", 7);
    stage.runtime.break_sandboxes();
    stage.until_running(&["proxy-1", "web-1"]).await;
    let calls = stage.runtime.take_calls();
    assert!(calls.contains(&"run sandbox 1".to_owned()), "{calls:?}");
    // The end of what was removed with the sandbox was published before.
    let last_end = |view: &PodView| {
        let proxy = view.status.init_container_statuses.as_ref()?.first()?;
        proxy.state.as_ref()?.running.as_ref()?;
        Some((proxy.restart_count, proxy.last_state.as_ref()?.terminated.as_ref()?.exit_code))
    };
    stage.until("its last end", |all| all.iter().any(|view| last_end(view) == Some((1, 7)))).await;
    stage.until_phase("Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_moves_to_another_network_gets_another_sandbox() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let on_host = |is_on_host: bool| {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        pod.spec.as_mut().unwrap().host_network = Some(is_on_host);
        Arc::new(pod)
    };
    stage.send(Operation::Add, &[on_host(true)]).await;
    stage.until_running(&["web-0"]).await;
    stage.runtime.take_calls();
    stage.send(Operation::Update, &[on_host(false)]).await;
    stage.until_running(&["web-1"]).await;
    let calls = stage.runtime.take_calls();
    assert!(calls.contains(&"run sandbox 1".to_owned()), "{calls:?}");
    // It stays that way.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(stage.runtime.running(), ["web-1"]);
}

/// A pod whose container leaves last words, and restarts with all others when it ends with 42.
fn talkative() -> Arc<Pod> {
    let mut pod = testkit::pod("Always", &[], &["web"]);
    let web = &mut pod.spec.as_mut().unwrap().containers[0];
    web.termination_message_path = Some("/dev/termination-log".to_owned());
    web.restart_policy = Some("Always".to_owned());
    let exit_codes = ContainerRestartRuleOnExitCodes { operator: "In".to_owned(), values: Some(vec![42]) };
    let rule =
        ContainerRestartRule { action: "RestartAllContainers".to_owned(), exit_codes: Some(exit_codes) };
    web.restart_policy_rules = Some(vec![rule]);
    Arc::new(pod)
}

#[tokio::test(start_paused = true)]
async fn who_waits_to_begin_anew_with_all_others_holds_up_none_of_them() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let mut pod = Pod::clone(&talkative());
    let spec = pod.spec.as_mut().unwrap();
    spec.containers.push(testkit::pod("Always", &[], &["db"]).spec.unwrap().containers.remove(0));
    stage.send(Operation::Add, &[Arc::new(pod)]).await;
    stage.until_running(&["db-0", "web-0"]).await;
    stage.runtime.exit("web", 42);
    stage.until_running(&["db-1", "web-1"]).await;
    stage.runtime.exit("web", 42);
    stage.runtime.exit("db", 1);
    stage.until_running(&["db-2"]).await;
    stage.until_running(&["db-3", "web-2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_start_of_all_that_fails_in_the_middle_is_finished_and_not_done_twice() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    let mut pod = Pod::clone(&talkative());
    let spec = pod.spec.as_mut().unwrap();
    spec.containers.push(testkit::pod("Always", &[], &["db"]).spec.unwrap().containers.remove(0));
    stage.send(Operation::Add, &[Arc::new(pod)]).await;
    stage.until_running(&["db-0", "web-0"]).await;
    stage.runtime.be_away("remove_container", true);
    stage.runtime.exit("web", 42);
    stage.until_running(&[]).await;
    stage.runtime.be_away("remove_container", false);
    stage.until_running(&["db-1", "web-1"]).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(stage.runtime.running(), ["db-1", "web-1"]);
}

/// Starts the log of an instance, as a runtime does.
fn begin_log(folder: &Path, container: &str, attempt: usize) {
    let logs = folder.join("logs/default_web_uid").join(container);
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::write(logs.join(format!("{attempt}.log")), "").unwrap();
}

/// Waits until a folder contains exactly these files.
async fn until_files(folder: &Path, wanted: &[&str]) {
    let files = || {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let waiting = async {
        while files() != wanted {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        panic!("{:?}, not {wanted:?}", files());
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_instance_leaves_on_disk_goes_when_another_is_the_last() {
    // One after the other, all restarted each time, and both in turn.
    for codes in [[1, 1, 1, 1, 1], [42, 42, 42, 42, 42], [1, 42, 1, 1, 42]] {
        let folder = folder();
        let stage = Scene::start(FakeRuntime::default(), folder.path());
        stage.send(Operation::Add, &[talkative()]).await;
        for (attempt, code) in codes.into_iter().enumerate() {
            stage.until_running(&[&format!("web-{attempt}")]).await;
            begin_log(folder.path(), "web", attempt);
            stage.runtime.exit("web", code);
        }
        stage.until_running(&["web-5"]).await;
        begin_log(folder.path(), "web", 5);
        until_files(&folder.path().join("pods/uid/containers/web"), &["00000004", "00000005"]).await;
        until_files(&folder.path().join("logs/default_web_uid/web"), &["4.log", "5.log"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_init_containers_of_old_sandboxes_left_on_disk_goes() {
    let folder = folder();
    let stage = Scene::start(FakeRuntime::default(), folder.path());
    stage.send(Operation::Add, &[pod("Always", &["setup"], &["web"])]).await;
    for attempt in 0..4 {
        stage.until_running(&[&format!("setup-{attempt}")]).await;
        begin_log(folder.path(), "setup", attempt);
        stage.runtime.exit("setup", 0);
        stage.until_running(&[&format!("web-{attempt}")]).await;
        stage.runtime.break_sandboxes();
    }
    stage.until_running(&["setup-4"]).await;
    until_files(&folder.path().join("logs/default_web_uid/setup"), &["3.log"]).await;
}
