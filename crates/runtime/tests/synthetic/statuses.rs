//! Status calls.

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{Exit, PodSpec, Profile, SandboxExtras, SyntheticRuntime};
use tonic::Code;

use crate::client::{Client, Served, serve, serve_as};

async fn status(client: &mut Client, id: &str) -> v1::ContainerStatus {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    client.container_status(request).await.unwrap().into_inner().status.unwrap()
}

async fn sandbox_status(client: &mut Client, id: &str) -> v1::PodSandboxStatusResponse {
    let request = v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
    client.pod_sandbox_status(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_container_tells_its_life() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let (pod, id) = runtime.world(|world| {
        let pod = world.add_pod("default/web");
        let id = world.create(&pod.sandbox, "nginx");
        (pod, id)
    });
    let created = status(&mut client, id.as_str()).await;
    assert_eq!(created.state(), v1::ContainerState::ContainerCreated);
    assert!(created.created_at > 0 && created.started_at == 0 && created.finished_at == 0);
    assert_eq!(created.log_path, format!("/var/log/pods/default_web_{}/nginx/0.log", pod.uid));

    runtime.world(|world| world.start(&id));
    let running = status(&mut client, &id.as_str()[..10]).await;
    assert_eq!(running.state(), v1::ContainerState::ContainerRunning);
    assert!(running.started_at > running.created_at);

    runtime.world(|world| world.exit(&id, Exit::code(3).message("out of luck")));
    let exited = status(&mut client, id.as_str()).await;
    assert_eq!(exited.state(), v1::ContainerState::ContainerExited);
    assert_eq!((exited.exit_code, &*exited.reason, &*exited.message), (3, "Error", "out of luck"));
    assert!(exited.finished_at > exited.started_at);

    let again = runtime.world(|world| world.run(&pod.sandbox, "nginx"));
    let again = status(&mut client, again.as_str()).await;
    assert_eq!(again.metadata.unwrap().attempt, 1);
    assert_eq!(again.annotations["io.kubernetes.container.restartCount"], "1");
}

#[tokio::test]
async fn reasons_are_those_of_real_runtimes() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let ids = runtime.world(|world| {
        let pod = world.add_pod(PodSpec::from("p").container("ok").container("oom"));
        world.exit(&pod.containers[0], 0);
        world.oom(&pod.containers[1]);
        pod.containers
    });
    assert_eq!(status(&mut client, ids[0].as_str()).await.reason, "Completed");
    let oom = status(&mut client, ids[1].as_str()).await;
    assert_eq!((oom.exit_code, &*oom.reason), (137, "OOMKilled"));
}

#[tokio::test]
async fn a_sandbox_tells_its_addresses() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let (pod, host) = runtime.world(|world| {
        (world.add_pod(PodSpec::from("p").container("c")), world.add_pod(PodSpec::from("h").host_network()))
    });
    let answer = sandbox_status(&mut client, pod.sandbox.as_str()).await;
    assert_eq!(answer.status.unwrap().network.unwrap().ip, "10.0.0.2");
    assert_eq!((answer.timestamp, answer.containers_statuses.len()), (0, 0));
    let answer = sandbox_status(&mut client, host.sandbox.as_str()).await;
    assert_eq!(answer.status.unwrap().network.unwrap().ip, "");

    runtime.world(|world| world.set_ips(&pod.sandbox, &["10.1.2.3", "fd00::1"]));
    let network = sandbox_status(&mut client, pod.sandbox.as_str()).await.status.unwrap().network.unwrap();
    assert_eq!((&*network.ip, &*network.additional_ips[0].ip), ("10.1.2.3", "fd00::1"));
}

#[tokio::test]
async fn crio_with_events_also_sends_the_containers() {
    let Served { runtime, mut client } = serve(Profile::CrioOn).await;
    let pod = runtime.world(|world| world.add_pod(PodSpec::from("p").container("c")));
    let answer = sandbox_status(&mut client, pod.sandbox.as_str()).await;
    assert!(answer.timestamp > 0);
    assert_eq!(answer.containers_statuses[0].id, pod.containers[0].as_str());
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let request = v1::ContainerStatusRequest { container_id: "nope".to_owned(), verbose: false };
    assert_eq!(client.container_status(request).await.unwrap_err().code(), Code::NotFound);
    let request = v1::PodSandboxStatusRequest { pod_sandbox_id: "nope".to_owned(), verbose: false };
    assert_eq!(client.pod_sandbox_status(request).await.unwrap_err().code(), Code::NotFound);
    // 17 containers, 16 digits: two of them begin alike.
    let clash = runtime.world(|world| {
        let pod = world.add_pod("p");
        let ids: Vec<_> = (0..17).map(|n| world.create(&pod.sandbox, format!("c{n}"))).collect();
        let first = |id: &str| id[..1].to_owned();
        ids.iter()
            .map(|id| first(id.as_str()))
            .find(|digit| ids.iter().filter(|id| id.as_str().starts_with(digit)).count() > 1)
            .unwrap()
    });
    let request = v1::ContainerStatusRequest { container_id: clash, verbose: false };
    let error = client.container_status(request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unknown, "ambiguous is not the same as not found");
}

#[tokio::test]
async fn versions_are_those_of_the_profile() {
    for (profile, name) in [(Profile::Ctd16, "containerd"), (Profile::CrioOff, "cri-o")] {
        let Served { runtime: _runtime, mut client } = serve(profile).await;
        let version = client.version(v1::VersionRequest::default()).await.unwrap().into_inner();
        assert_eq!(version.runtime_name, name);
        assert_eq!(version.runtime_version, profile.quirks().runtime_version);
        assert_eq!(version.runtime_api_version, "v1");
    }
}

#[tokio::test]
async fn some_containerds_send_a_timestamp_and_no_containers() {
    let runtime = SyntheticRuntime::new(Profile::Ctd2)
        .quirks(|quirks| quirks.sandbox_extras = SandboxExtras::Timestamp);
    let Served { runtime, mut client } = serve_as(runtime).await;
    let pod = runtime.world(|world| world.add_pod(PodSpec::from("p").container("c")));
    let answer = sandbox_status(&mut client, pod.sandbox.as_str()).await;
    assert!(answer.timestamp > 0 && answer.containers_statuses.is_empty());
}

#[tokio::test]
async fn a_verbose_status_tells_a_process_that_is_not_of_this_machine() {
    let Served { runtime, mut client } = serve(Profile::Ctd17).await;
    let pod = runtime.world(|world| world.add_pod(PodSpec::from("p").container("c")));
    let request = v1::ContainerStatusRequest { container_id: pod.containers[0].to_string(), verbose: true };
    let info = client.container_status(request.clone()).await.unwrap().into_inner().info;
    let pid = runtime.world(|world| world.container(&pod.containers[0]).unwrap().pid());
    assert!(pid > 1 << 22);
    assert!(info["info"].contains(&format!(r#""pid":{pid}"#)), "{info:?}");
    runtime.world(|world| world.set_pid(&pod.containers[0], 7));
    let info = client.container_status(request).await.unwrap().into_inner().info;
    assert!(info["info"].contains(r#""pid":7"#), "{info:?}");
}
