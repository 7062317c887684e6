//! Calls that change something, and what they answer when it is already so.

use std::time::Duration;

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{Behavior, ExecResult, Exit, OnStart, OnStop, Op, Profile, What};
use tokio::time::Instant;
use tonic::Code;

use crate::client::{Crictl, Running, Served, container_config, sandbox_config, serve};

async fn node(profile: Profile) -> (Running, Crictl) {
    let Served { runtime, client } = serve(profile).await;
    runtime.world(|world| world.add_image("app:1", 1));
    (runtime, Crictl(client))
}

#[tokio::test]
async fn a_pod_lives_and_goes_and_every_step_may_be_repeated() {
    for profile in Profile::ALL {
        let (runtime, mut crictl) = node(profile).await;
        let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
        let id = crictl.create(&sandbox, container_config("c", 0)).await.unwrap();
        assert_eq!(crictl.status(&id).await.unwrap().state(), v1::ContainerState::ContainerCreated);
        crictl.stop(&id, 10).await.unwrap();
        assert_eq!(
            crictl.status(&id).await.unwrap().state(),
            v1::ContainerState::ContainerCreated,
            "stopping what never started does nothing"
        );
        crictl.start(&id).await.unwrap();
        let error = crictl.start(&id).await.unwrap_err();
        assert_eq!(error.code(), Code::Unknown, "{profile}: {error}");

        crictl.stop(&id, 10).await.unwrap();
        crictl.stop(&id, 10).await.unwrap();
        let status = crictl.status(&id).await.unwrap();
        assert_eq!((status.exit_code, &*status.reason), (143, "Error"));
        crictl.remove(&id).await.unwrap();
        crictl.remove(&id).await.unwrap();
        assert_eq!(crictl.status(&id).await.unwrap_err().code(), Code::NotFound);

        crictl.stop_sandbox(&sandbox).await.unwrap();
        crictl.stop_sandbox(&sandbox).await.unwrap();
        crictl.remove_sandbox(&sandbox).await.unwrap();
        crictl.remove_sandbox(&sandbox).await.unwrap();
        let whats: Vec<What> =
            runtime.world(|world| world.history().iter().map(|change| change.what).collect());
        use What::{Created, Removed, Started, Stopped};
        assert_eq!(whats, [Created, Created, Started, Stopped, Removed, Stopped, Removed], "{profile}");
    }
}

#[tokio::test]
async fn what_runs_is_killed_before_it_is_removed() {
    let (runtime, mut crictl) = node(Profile::Ctd2).await;
    let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
    for name in ["a", "b"] {
        let id = crictl.create(&sandbox, container_config(name, 0)).await.unwrap();
        crictl.start(&id).await.unwrap();
    }
    crictl.remove_sandbox(&sandbox).await.unwrap();
    runtime.world(|world| {
        assert_eq!((world.sandboxes().len(), world.containers().len()), (0, 0));
        let stopped = world.history().iter().filter(|change| change.what == What::Stopped);
        assert_eq!(stopped.count(), 3);
    });
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let (_runtime, mut crictl) = node(Profile::Ctd2).await;
    let error = crictl.create("nowhere", container_config("c", 0)).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(crictl.start("nobody").await.unwrap_err().code(), Code::NotFound);
    let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
    let mut config = container_config("c", 0);
    config.image.as_mut().unwrap().image = "never-pulled".to_owned();
    let error = crictl.create(&sandbox, config).await.unwrap_err();
    assert!(error.message().contains("never-pulled"), "{error}");
    let error = crictl.run_sandbox(v1::PodSandboxConfig::default()).await.unwrap_err();
    assert!(error.message().contains("metadata"), "{error}");
    crictl.stop_sandbox(&sandbox).await.unwrap();
    crictl.create(&sandbox, container_config("c", 0)).await.unwrap_err();
}

#[tokio::test]
async fn a_name_is_taken_until_its_owner_is_gone() {
    let (_runtime, mut crictl) = node(Profile::Ctd2).await;
    let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
    let error = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap_err();
    assert!(error.message().contains(&format!("is reserved for \"{sandbox}\"")), "{error}");
    crictl.run_sandbox(sandbox_config("p", "u", 1)).await.unwrap();
    let id = crictl.create(&sandbox, container_config("c", 0)).await.unwrap();
    crictl.create(&sandbox, container_config("c", 0)).await.unwrap_err();
    crictl.remove(&id).await.unwrap();
    crictl.create(&sandbox, container_config("c", 0)).await.unwrap();
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_has_happened() {
    for (profile, handed_over) in [(Profile::Ctd2, false), (Profile::CrioOn, true)] {
        let (runtime, mut crictl) = node(profile).await;
        let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
        let lost = runtime.faults().on(Op::CreateContainer).after_work().times(1).hang();
        tokio::select! {
            biased;
            _ = crictl.create(&sandbox, container_config("c", 0)) => panic!("it must hang"),
            () = lost.until_waiting(1) => {}
        }
        runtime.calls().until(|calls| calls.all().in_flight == 0).await;
        let made = runtime.world(|world| world.containers().next().unwrap().id().clone());
        let retry = crictl.create(&sandbox, container_config("c", 0)).await;
        match retry {
            Ok(id) => assert!(handed_over && id == made.as_str(), "{profile}"),
            Err(error) => {
                assert!(!handed_over, "{profile}: {error}");
                assert!(error.message().contains("is reserved for"), "{error}");
            }
        }
        crictl.create(&sandbox, container_config("c", 0)).await.unwrap_err();
    }
}

#[tokio::test(start_paused = true)]
async fn the_grace_period_is_kept() {
    let (runtime, mut crictl) = node(Profile::Ctd2).await;
    runtime.world(|world| {
        let slow = OnStop::Exit(Duration::from_secs(5), Exit::code(7));
        world.behave("slow", Behavior::default().on_stop(slow));
        world.behave("p/deaf", Behavior::default().on_stop(OnStop::Ignore));
    });
    let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
    for (name, timeout, code, seconds) in [
        ("plain", 30, 143, 0),
        ("plain", 0, 137, 0),
        ("slow", 30, 7, 5),
        ("slow", 2, 137, 2),
        ("deaf", 30, 137, 30),
    ] {
        let id = crictl.create(&sandbox, container_config(name, 0)).await.unwrap();
        crictl.start(&id).await.unwrap();
        let start = Instant::now();
        crictl.stop(&id, timeout).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), seconds, "{name} {timeout}");
        assert_eq!(crictl.status(&id).await.unwrap().exit_code, code, "{name} {timeout}");
        crictl.remove(&id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn containers_do_as_they_are_scripted() {
    let (runtime, mut crictl) = node(Profile::Ctd2).await;
    runtime.world(|world| {
        let job = OnStart::ExitAfter(Duration::from_secs(60), Exit::code(0));
        world.behave("job", Behavior::default().on_start(job));
        world.behave("crash", Behavior::default().on_start(OnStart::ExitAtOnce(Exit::code(1))));
    });
    let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
    let job = crictl.create(&sandbox, container_config("job", 0)).await.unwrap();
    crictl.start(&job).await.unwrap();
    assert_eq!(crictl.status(&job).await.unwrap().state(), v1::ContainerState::ContainerRunning);
    let start = Instant::now();
    runtime.until(|world| world.containers().all(|container| container.reason() == "Completed")).await;
    assert_eq!(start.elapsed().as_secs(), 60);

    let crash = crictl.create(&sandbox, container_config("crash", 0)).await.unwrap();
    crictl.start(&crash).await.unwrap();
    let status = crictl.status(&crash).await.unwrap();
    assert_eq!((status.state(), status.exit_code), (v1::ContainerState::ContainerExited, 1));
}

#[tokio::test]
async fn a_start_that_fails_leaves_what_the_runtime_leaves() {
    for profile in [Profile::Ctd17, Profile::CrioOn] {
        let (runtime, mut crictl) = node(profile).await;
        runtime.world(|world| {
            let fail = OnStart::Fail("no such file or directory".to_owned());
            world.behave("broken", Behavior::default().on_start(fail));
        });
        let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
        let id = crictl.create(&sandbox, container_config("broken", 0)).await.unwrap();
        let error = crictl.start(&id).await.unwrap_err();
        assert!(error.message().contains("no such file or directory"), "{error}");
        match (profile, crictl.status(&id).await) {
            (Profile::Ctd17, Ok(status)) => {
                assert_eq!((status.exit_code, &*status.reason), (128, "StartError"));
                assert_eq!(status.message, "no such file or directory");
            }
            (Profile::CrioOn, Err(error)) => assert_eq!(error.code(), Code::NotFound),
            (_, other) => panic!("{profile}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn commands_give_what_they_are_scripted_to() {
    for (profile, timed_out) in [(Profile::Ctd2, None), (Profile::CrioOn, Some(-1))] {
        let (runtime, mut crictl) = node(profile).await;
        let id = runtime.world(|world| {
            world.on_exec(
                "c",
                [
                    ExecResult::code(1),
                    ExecResult::code(0).stdout("hello"),
                    ExecResult::code(0).takes(Duration::from_secs(9)),
                ],
            );
            let pod = world.add_pod("p");
            world.run(&pod.sandbox, "c")
        });
        assert_eq!(crictl.exec(id.as_str(), 0).await.unwrap().exit_code, 1);
        assert_eq!(crictl.exec(id.as_str(), 0).await.unwrap().stdout, b"hello"[..]);
        let start = Instant::now();
        assert_eq!(crictl.exec(id.as_str(), 0).await.unwrap().exit_code, 0);
        assert_eq!(start.elapsed().as_secs(), 9);
        match (timed_out, crictl.exec(id.as_str(), 3).await) {
            (None, Err(error)) => assert_eq!(error.code(), Code::DeadlineExceeded),
            (Some(code), Ok(answer)) => assert_eq!(answer.exit_code, code),
            (_, other) => panic!("{profile}: {other:?}"),
        }
        runtime.world(|world| world.exit(&id, 0));
        assert_eq!(crictl.exec(id.as_str(), 0).await.unwrap_err().code(), Code::Unknown);
    }
}

#[tokio::test]
async fn resources_logs_and_config() {
    let (runtime, mut crictl) = node(Profile::Ctd2).await;
    let id = runtime.world(|world| {
        let pod = world.add_pod("p");
        world.run(&pod.sandbox, "c")
    });
    let request = v1::UpdateContainerResourcesRequest {
        container_id: id.to_string(),
        linux: Some(v1::LinuxContainerResources { cpu_shares: 512, ..Default::default() }),
        ..Default::default()
    };
    crictl.0.update_container_resources(request).await.unwrap();
    let resources = crictl.status(id.as_str()).await.unwrap().resources.unwrap();
    assert_eq!(resources.linux.unwrap().cpu_shares, 512);
    let request = v1::ReopenContainerLogRequest { container_id: id.to_string() };
    crictl.0.reopen_container_log(request.clone()).await.unwrap();
    runtime.world(|world| world.exit(&id, 0));
    crictl.0.reopen_container_log(request).await.unwrap_err();
    let config = crictl.0.runtime_config(v1::RuntimeConfigRequest {}).await.unwrap().into_inner();
    assert_eq!(config.linux.unwrap().cgroup_driver(), v1::CgroupDriver::Cgroupfs);

    let (_runtime, mut old) = node(Profile::Ctd17).await;
    let error = old.0.runtime_config(v1::RuntimeConfigRequest {}).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
}

#[tokio::test]
async fn the_runtime_says_why_it_is_not_ready() {
    let (runtime, mut crictl) = node(Profile::Ctd2).await;
    runtime.world(|world| world.set_network_ready(Some("no CNI configuration")));
    let status = crictl.0.status(v1::StatusRequest::default()).await.unwrap().into_inner().status.unwrap();
    let [runtime_ready, network_ready] = &status.conditions[..] else { panic!("{status:?}") };
    assert!(runtime_ready.status && runtime_ready.r#type == "RuntimeReady");
    assert!(!network_ready.status && network_ready.message == "no CNI configuration");
}

#[tokio::test]
async fn stats_tell_who_is_there() {
    let (runtime, mut crictl) = node(Profile::Ctd2).await;
    let pod = runtime.world(|world| {
        let pod = world.add_pod("p");
        world.run(&pod.sandbox, "c");
        pod
    });
    let request = v1::ListContainerStatsRequest::default();
    let stats = crictl.0.list_container_stats(request).await.unwrap().into_inner().stats;
    assert_eq!(stats[0].attributes.as_ref().unwrap().metadata.as_ref().unwrap().name, "c");
    let request = v1::PodSandboxStatsRequest { pod_sandbox_id: pod.sandbox.to_string() };
    let stats = crictl.0.pod_sandbox_stats(request).await.unwrap().into_inner().stats.unwrap();
    assert_eq!(stats.attributes.unwrap().id, pod.sandbox.as_str());
}
