//! Calls: what is asked, how long it may take, and what answers mean.

use std::time::Duration;

use crate::support::{Place, Reply, Server};
use rubelet_cri::{Error, ErrorKind, Operation, RuntimeClient, v1};
use rubelet_model::{ContainerId, ContainerState, SandboxId};
use tokio::time::Instant;
use tonic::Code;

fn container() -> ContainerId {
    "c".into()
}

fn sandbox() -> SandboxId {
    "s".into()
}

/// Makes one call of a kind; none of the arguments matter but the time that it is given.
async fn make(client: &RuntimeClient, operation: Operation, own: Duration) -> Result<(), Error> {
    let (c, s) = (&container(), &sandbox());
    let images = client.images();
    match operation {
        Operation::Version => drop(client.version().await?),
        Operation::Status => drop(client.status(false).await?),
        Operation::RuntimeConfig => drop(client.runtime_config().await?),
        Operation::UpdateRuntimeConfig => client.update_runtime_config(Default::default()).await?,
        Operation::RunPodSandbox => drop(client.run_pod_sandbox(Default::default(), "").await?),
        Operation::StopPodSandbox => client.stop_pod_sandbox(s).await?,
        Operation::RemovePodSandbox => client.remove_pod_sandbox(s).await?,
        Operation::PodSandboxStatus => drop(client.sandbox_status(s).await?),
        Operation::ListPodSandbox => drop(client.describe_sandboxes(None).await?),
        Operation::UpdatePodSandboxResources => {
            client.update_pod_sandbox_resources(Default::default()).await?;
        }
        Operation::PortForward => drop(client.port_forward(s, &[80]).await?),
        Operation::CreateContainer => {
            drop(client.create_container(s, Default::default(), Default::default()).await?);
        }
        Operation::StartContainer => client.start_container(c).await?,
        Operation::StopContainer => client.stop_container(c, own).await?,
        Operation::RemoveContainer => client.remove_container(c).await?,
        Operation::ListContainers => drop(client.describe_containers(None).await?),
        Operation::ContainerStatus => drop(client.container_status(c, s).await?),
        Operation::UpdateContainer => client.update_container_resources(Default::default()).await?,
        Operation::ReopenContainerLog => client.reopen_container_log(c).await?,
        Operation::CheckpointContainer => client.checkpoint_container(c, "/x", own).await?,
        Operation::ExecSync => drop(client.exec_sync(c, &[], own).await?),
        Operation::Exec => drop(client.exec(Default::default()).await?),
        Operation::Attach => drop(client.attach(Default::default()).await?),
        Operation::ContainerStats => drop(client.container_stats(c).await?),
        Operation::ListContainerStats => drop(client.list_container_stats(None).await?),
        Operation::PodSandboxStats => drop(client.pod_sandbox_stats(s).await?),
        Operation::ListPodSandboxStats => drop(client.list_pod_sandbox_stats(None).await?),
        Operation::ListMetricDescriptors => drop(client.list_metric_descriptors().await?),
        Operation::ListPodSandboxMetrics => drop(client.list_pod_sandbox_metrics().await?),
        Operation::GetContainerEvents => {
            client.get_container_events().await?.next().await.transpose()?;
        }
        Operation::ListImages => drop(images.list_images(None).await?),
        Operation::ImageStatus => drop(images.image_status(Default::default()).await?),
        Operation::PullImage => drop(images.pull_image(Default::default(), None, None).await?),
        Operation::RemoveImage => images.remove_image(Default::default()).await?,
        Operation::ImageFsInfo => drop(images.image_fs_info().await?),
        other => panic!("no call for {other}"),
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_when_its_time_is_over_and_tells_the_runtime_how_long_it_has() {
    let place = Place::new();
    let server = Server::start(&place, |_| Reply::Hang).await;
    let client = place.client();
    let own = Duration::from_secs(30);
    let options = rubelet_cri::Options::default();
    for operation in Operation::ALL.iter().copied() {
        let limit = options.limit(operation, own);
        let start = Instant::now();
        // Those without a limit are given a day here.
        let call = tokio::time::timeout(Duration::from_secs(86400), make(&client, operation, own));
        let result = call.await;
        let told = server.calls().pop().unwrap().timeout;
        match limit {
            Some(limit) => {
                let error = result.unwrap().unwrap_err();
                assert_eq!((error.operation(), error.kind()), (operation, ErrorKind::Deadline));
                assert!(error.is_timeout() && error.is_transient());
                assert_eq!(start.elapsed().as_secs(), limit.as_secs(), "{operation}");
                // Eight digits at most, so the unit is micro or milliseconds.
                let told = told.unwrap_or_else(|| panic!("{operation} has no timeout"));
                let seconds = match told.split_at(told.len() - 1) {
                    (number, "u") => number.parse::<u64>().unwrap() / 1_000_000,
                    (number, "m") => number.parse::<u64>().unwrap() / 1000,
                    _ => panic!("{told}"),
                };
                assert!(
                    (limit.as_secs() - 1..=limit.as_secs()).contains(&seconds),
                    "{operation} told {told}"
                );
            }
            None => {
                assert!(result.is_err(), "{operation} has no limit");
                assert_eq!(told, None, "{operation}");
            }
        }
    }
}

#[tokio::test]
async fn every_call_passes_on_what_the_runtime_says() {
    let place = Place::new();
    let server = Server::start(&place, |_| Reply::fail(Code::FailedPrecondition, "not\nnow\x1b[31m")).await;
    let client = place.client();
    for operation in Operation::ALL.iter().copied() {
        let error = make(&client, operation, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((error.operation(), error.kind()), (operation, ErrorKind::Code(Code::FailedPrecondition)));
        let message = format!("{operation}: the runtime answered FailedPrecondition: not now [31m");
        assert_eq!(error.to_string(), message, "in one line, and harmless to a terminal");
        assert!(!error.is_transient() && std::error::Error::source(&error).is_some());
    }
    let methods = server.take_methods();
    assert_eq!(methods.len(), Operation::ALL.len(), "{methods:?}");
}

#[tokio::test]
async fn codes_become_kinds() {
    let cases = [
        (Code::NotFound, ErrorKind::NotFound),
        (Code::AlreadyExists, ErrorKind::AlreadyExists),
        (Code::Unimplemented, ErrorKind::Unimplemented),
        (Code::Unavailable, ErrorKind::Unavailable),
        (Code::DeadlineExceeded, ErrorKind::Deadline),
        (Code::Cancelled, ErrorKind::Cancelled),
        (Code::PermissionDenied, ErrorKind::Code(Code::PermissionDenied)),
        (Code::ResourceExhausted, ErrorKind::Code(Code::ResourceExhausted)),
        (Code::Unknown, ErrorKind::Code(Code::Unknown)),
    ];
    for (code, kind) in cases {
        let place = Place::new();
        let _server = Server::start(&place, move |_| Reply::fail(code, "so it is")).await;
        let error = place.client().start_container(&container()).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(error.detail(), "so it is");
        assert_eq!(error.is_not_found(), code == Code::NotFound);
        assert_eq!(error.is_unimplemented(), code == Code::Unimplemented);
    }
}

#[tokio::test]
async fn a_containerd_that_starts_is_not_available_yet() {
    let place = Place::new();
    let _server =
        Server::start(&place, |_| Reply::fail(Code::Unknown, "server is not initialized yet")).await;
    assert!(place.client().status(false).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn what_is_not_there_is_not_an_error_of_a_status_call() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::fail(Code::NotFound, "no such thing")).await;
    let client = place.client();
    assert_eq!(client.sandbox_status(&sandbox()).await.unwrap(), None);
    assert_eq!(client.container_status(&container(), &sandbox()).await.unwrap(), None);
    assert!(client.describe_container(&container(), false).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn status_calls_ask_for_what_was_named_and_refuse_an_answer_about_something_else() {
    let place = Place::new();
    let server = Server::start(&place, |call| match call.method.as_str() {
        "ContainerStatus" => {
            let id = call.decode::<v1::ContainerStatusRequest>().container_id;
            let status = v1::ContainerStatus {
                id: if id == "other" { "c".to_owned() } else { id },
                state: v1::ContainerState::ContainerRunning.into(),
                ..Default::default()
            };
            Reply::message(&v1::ContainerStatusResponse { status: Some(status), ..Default::default() })
        }
        _ => Reply::message(&v1::PodSandboxStatusResponse::default()),
    })
    .await;
    let client = place.client();
    let status = client.container_status(&container(), &sandbox()).await.unwrap().unwrap();
    assert_eq!((status.id, status.sandbox, status.state), (container(), sandbox(), ContainerState::Running));
    assert!(!server.calls()[0].decode::<v1::ContainerStatusRequest>().verbose);
    let error = client.container_status(&"other".into(), &sandbox()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::Invalid("status.id"), Operation::ContainerStatus)
    );
    let error = client.sandbox_status(&sandbox()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid("status"));
    assert_eq!(
        error.to_string(),
        "podsandbox_status: the runtime's answer is not valid: status: missing, or of something else"
    );
}

#[tokio::test]
async fn answers_that_cannot_be_decoded_are_invalid() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::Message(vec![0xff; 3])).await;
    let error = place.client().status(false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid("message"));
}

#[tokio::test]
async fn ids_that_are_missing_from_an_answer_are_missed() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::Message(Vec::new())).await;
    let client = place.client();
    let kind = |result: Result<(), Error>| result.unwrap_err().kind();
    let none = Duration::ZERO;
    assert_eq!(
        kind(make(&client, Operation::RunPodSandbox, none).await),
        ErrorKind::Invalid("pod_sandbox_id")
    );
    assert_eq!(
        kind(make(&client, Operation::CreateContainer, none).await),
        ErrorKind::Invalid("container_id")
    );
    assert_eq!(kind(make(&client, Operation::PullImage, none).await), ErrorKind::Invalid("image_ref"));
    assert_eq!(kind(make(&client, Operation::ContainerStats, none).await), ErrorKind::Invalid("stats"));
}

#[tokio::test]
async fn seconds_on_the_wire_are_rounded_up() {
    let place = Place::new();
    let server = Server::start(&place, |_| Reply::Message(Vec::new())).await;
    let client = place.client();
    client.exec_sync(&container(), &["true".to_owned()], Duration::from_millis(300)).await.unwrap();
    client.stop_container(&container(), Duration::from_millis(1500)).await.unwrap();
    client.stop_container(&container(), Duration::ZERO).await.unwrap();
    let calls = server.calls();
    let exec: v1::ExecSyncRequest = calls[0].decode();
    assert_eq!((exec.timeout, exec.cmd, exec.container_id), (1, vec!["true".to_owned()], "c".to_owned()));
    assert_eq!(calls[1].decode::<v1::StopContainerRequest>().timeout, 2);
    assert_eq!(calls[2].decode::<v1::StopContainerRequest>().timeout, 0);
}

async fn exec(
    timeout: Duration,
    reply: impl Fn() -> Reply + Send + Sync + 'static,
) -> Result<i32, ErrorKind> {
    let place = Place::new();
    let _server = Server::start(&place, move |_| reply()).await;
    let outcome = |answer: Result<v1::ExecSyncResponse, Error>| {
        answer.map(|answer| answer.exit_code).map_err(|error| error.kind())
    };
    let whole = outcome(place.client().exec_sync(&container(), &[], timeout).await);
    let excerpt = outcome(place.client().exec_sync_excerpt(&container(), &[], timeout, 100).await);
    assert_eq!(whole, excerpt);
    whole
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_a_timeout_however_it_is_told() {
    let answer = |exit_code, stderr: &'static str| {
        move || Reply::message(&v1::ExecSyncResponse { stdout: Vec::new(), stderr: stderr.into(), exit_code })
    };
    let second = Duration::from_secs(1);
    let containerd = || Reply::fail(Code::DeadlineExceeded, "timeout 1s exceeded: context deadline exceeded");
    assert_eq!(exec(second, containerd).await, Err(ErrorKind::CommandTimeout));
    assert_eq!(exec(second, answer(-1, "command timed out")).await, Err(ErrorKind::CommandTimeout));
    assert_eq!(exec(second, answer(-1, "something else")).await, Ok(-1));
    assert_eq!(exec(second, answer(1, "command timed out")).await, Ok(1), "the command's own words");
    assert_eq!(exec(second, answer(0, "")).await, Ok(0));
}

#[tokio::test]
async fn of_a_commands_output_no_more_is_kept_than_is_wanted() {
    let place = Place::new();
    let server = Server::start(&place, |_| {
        let (stdout, stderr) = (vec![b'o'; 20 << 20], vec![b'e'; 7]);
        Reply::message(&v1::ExecSyncResponse { stdout, stderr, exit_code: 3 })
    })
    .await;
    let second = Duration::from_secs(1);
    let answer = place.client().exec_sync_excerpt(&container(), &[], second, 10 << 10).await.unwrap();
    assert_eq!((answer.stdout.len(), answer.stderr.len(), answer.exit_code), (10 << 10, 7, 3));
    assert_eq!(server.calls()[0].output_limit.as_deref(), Some("10240"));
    assert_eq!(place.client().exec_sync(&container(), &[], second).await.unwrap().stdout.len(), 20 << 20);
    assert_eq!(server.calls()[1].output_limit, None);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_hangs_in_an_exec_is_told_from_a_command_that_does() {
    assert_eq!(exec(Duration::from_secs(1), || Reply::Hang).await, Err(ErrorKind::Deadline));
}

#[tokio::test]
async fn image_lists_and_stats_come_as_a_stream_if_they_are_too_large() {
    let place = Place::new();
    let server = Server::start(&place, |call| match call.method.as_str() {
        "ListImages" | "ListContainerStats" => {
            Reply::fail(Code::ResourceExhausted, "grpc: trying to send message larger than max (2 vs. 1)")
        }
        "StreamImages" => {
            let part = |id: &str| {
                let images = vec![v1::Image { id: id.to_owned(), ..Default::default() }];
                prost::Message::encode_to_vec(&v1::StreamImagesResponse { images })
            };
            Reply::Stream(vec![part("a"), part("b")], tonic::Status::ok(""))
        }
        _ => Reply::unimplemented(),
    })
    .await;
    let client = place.client();
    let images = client.images().list_images(None).await.unwrap();
    assert_eq!(images.iter().map(|image| image.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let error = client.list_container_stats(None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "no stream to fall back on");
    assert_eq!(
        server.take_methods(),
        ["ListImages", "StreamImages", "ListContainerStats", "StreamContainerStats"]
    );
}

#[tokio::test]
async fn an_image_that_is_not_there_is_none() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::message(&v1::ImageStatusResponse::default())).await;
    assert_eq!(place.client().images().image_status(Default::default()).await.unwrap(), None);
}
