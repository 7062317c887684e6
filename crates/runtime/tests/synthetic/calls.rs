//! The log of calls.

use rubelet_cri::v1;
use rubelet_runtime::synthetic::{Op, Profile, SyntheticRuntime};
use tonic::Code;

use crate::client::{Served, serve, serve_as};

#[tokio::test]
async fn the_log_tells_what_was_asked_about_whom_and_how_it_went() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let pod = runtime.world(|world| world.add_pod("p"));
    client.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await.unwrap();
    let request =
        v1::PodSandboxStatusRequest { pod_sandbox_id: pod.sandbox.as_str()[..13].to_owned(), verbose: false };
    client.pod_sandbox_status(request).await.unwrap();
    let request = v1::ContainerStatusRequest { container_id: "gone".to_owned(), verbose: false };
    client.container_status(request).await.unwrap_err();
    runtime.calls().until(|calls| calls.log().len() == 3).await;

    let log = runtime.calls().log();
    assert_eq!(
        log.iter().map(|call| call.op).collect::<Vec<_>>(),
        [Op::ListPodSandbox, Op::PodSandboxStatus, Op::ContainerStatus]
    );
    assert_eq!(log[1].target.sandbox, Some(pod.sandbox), "a short id is completed");
    assert_eq!(log[1].target.pod, Some(pod.uid));
    assert_eq!(log[2].target.container.as_ref().unwrap().as_str(), "gone");
    assert_eq!(log[2].answer, Some(Code::NotFound));
    runtime.calls().assert_read_only();
    assert_eq!(runtime.calls().count(Op::PodSandboxStatus, |target| target.pod.is_some()), 1);
}

#[tokio::test]
async fn the_most_calls_in_flight_are_counted() {
    let Served { runtime, client } = serve(Profile::Ctd2).await;
    let gate = runtime.faults().on(Op::Version).hang();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.version(v1::VersionRequest::default()).await })
        })
        .collect();
    gate.until_waiting(20).await;
    assert_eq!(runtime.calls().all().in_flight, 20);
    gate.release();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(runtime.calls().of(Op::Version).max_in_flight, 20);
    assert_eq!(runtime.calls().of(Op::ContainerStatus).max_in_flight, 0);
}

#[tokio::test]
async fn unknown_methods_and_services_are_unimplemented() {
    let Served { runtime: _runtime, mut client } = serve(Profile::Ctd2).await;
    let request = v1::CheckpointContainerRequest::default();
    assert_eq!(client.checkpoint_container(request).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn an_old_runtime_has_never_heard_of_v1() {
    let runtime = SyntheticRuntime::new(Profile::Ctd16).quirks(|quirks| quirks.speaks_v1 = false);
    let Served { runtime: _runtime, mut client } = serve_as(runtime).await;
    let error = client.version(v1::VersionRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    assert_eq!(error.message(), "unknown service runtime.v1.RuntimeService");
}
