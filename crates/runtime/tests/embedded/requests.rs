//! Any bytes to any call of a real runtime: it answers, lives on, and touches nothing that is not its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message as _;
use rubelet_cri::v1;
use rubelet_testbed::Embedded;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

use crate::cri::Cri;
use crate::soup::{soup, words};
use crate::subject;

/// Longest that a call may take: many wait for something that never comes if nobody ends it.
const LIMIT: Duration = Duration::from_secs(30);

/// Bytes as they are.
#[derive(Debug, Clone, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(out, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let len = bytes::Buf::remaining(input);
        bytes::Buf::advance(input, len);
        Ok(Some(()))
    }
}

/// A method, and a message to it that makes sense.
fn methods(cri: &Cri, pod: &str, id: &str) -> Vec<(&'static str, Vec<u8>)> {
    let sandbox = cri.pod_config();
    let config = cri.container_config("exec sleep 3600");
    let run = v1::RunPodSandboxRequest { config: Some(sandbox.clone()), runtime_handler: String::new() };
    let create = v1::CreateContainerRequest {
        pod_sandbox_id: pod.to_owned(),
        config: Some(config),
        sandbox_config: Some(sandbox),
    };
    let exec = v1::ExecSyncRequest { container_id: id.to_owned(), cmd: vec!["true".to_owned()], timeout: 1 };
    let update = v1::UpdateContainerResourcesRequest { container_id: id.to_owned(), ..Default::default() };
    let mut list = vec![
        ("runtime.v1.RuntimeService/RunPodSandbox", run.encode_to_vec()),
        ("runtime.v1.RuntimeService/CreateContainer", create.encode_to_vec()),
        ("runtime.v1.RuntimeService/ExecSync", exec.encode_to_vec()),
        ("runtime.v1.RuntimeService/UpdateContainerResources", update.encode_to_vec()),
    ];
    // The rest begins empty. Streams that never end are opened like the others, and left.
    for method in [
        "Version",
        "Status",
        "RuntimeConfig",
        "UpdateRuntimeConfig",
        "StopPodSandbox",
        "RemovePodSandbox",
        "PodSandboxStatus",
        "ListPodSandbox",
        "StreamPodSandboxes",
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "ListContainers",
        "StreamContainers",
        "ContainerStatus",
        "ReopenContainerLog",
        "Exec",
        "Attach",
        "PortForward",
        "ContainerStats",
        "ListContainerStats",
        "StreamContainerStats",
        "PodSandboxStats",
        "ListPodSandboxStats",
        "StreamPodSandboxStats",
        "CheckpointContainer",
        "GetContainerEvents",
        "ListMetricDescriptors",
        "ListPodSandboxMetrics",
        "StreamPodSandboxMetrics",
        "UpdatePodSandboxResources",
    ] {
        list.push((Box::leak(format!("runtime.v1.RuntimeService/{method}").into_boxed_str()), Vec::new()));
    }
    // Not PullImage: a name from the soup may be one that a registry somewhere answers to.
    for method in ["ListImages", "StreamImages", "ImageStatus", "RemoveImage", "ImageFsInfo"] {
        list.push((Box::leak(format!("runtime.v1.ImageService/{method}").into_boxed_str()), Vec::new()));
    }
    list
}

async fn call(cri: &Cri, method: &str, message: Vec<u8>) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(cri.channel().await?);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = format!("/{method}").parse().expect("a path");
    let answer = client.server_streaming(Request::new(message), path, Raw).await?;
    // The first message or the end: an event stream has neither for as long as nothing happens.
    let _ = tokio::time::timeout(Duration::from_millis(1), answer.into_inner().message()).await;
    Ok(())
}

/// Names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// What must not change: what is beside the runtime's data, and what is in the root of the machine.
fn outside(runtime: &Embedded) -> Vec<BTreeSet<String>> {
    let here = std::env::current_dir().expect("a folder");
    [runtime.dir(), Path::new("/"), Path::new("/etc"), &here].map(names).to_vec()
}

#[test]
fn any_message_to_any_call_is_answered_and_stays_inside() {
    let Some(runtime) = subject::embedded("soup", None) else { return };
    let cri = Cri::new(&runtime.socket(), "host", &runtime.cgroup(), runtime.dir());
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    let (pod, id) = tokio.block_on(async {
        let (pod, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        (pod, id)
    });
    std::fs::create_dir(runtime.dir().join("canary")).expect("a canary");
    let before = outside(&runtime);

    let mut all_words = words();
    all_words.extend([pod.clone(), id.clone(), id[..8].to_owned()]);
    let methods = methods(&cri, &pod, &id);
    let some_method = (0..methods.len(), soup(all_words)).prop_map(|(which, soup)| {
        let (method, base) = &methods[which];
        (*method, [base.clone(), soup].concat())
    });
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let ran = runner.run(&some_method, |(method, message)| {
        let answered =
            tokio.block_on(async { tokio::time::timeout(LIMIT, call(&cri, method, message)).await });
        let Ok(answer) = answered else {
            return Err(TestCaseError::fail(format!("{method} does not answer")));
        };
        match answer.map_err(|status| (status.code(), status.message().to_owned())) {
            // A panic in a handler shows as one of these, and the runtime's end as the other.
            Err((Code::Internal | Code::Unavailable, message)) => {
                let is_ours = message.contains("failed to decode Protobuf");
                prop_assert!(is_ours, "{method}: {message}");
            }
            Err((Code::Cancelled, message)) => prop_assert!(false, "{method}: {message}"),
            _ => {}
        }
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
    // Logs of pods whose config says so are the one thing that is made outside.
    let after = outside(&runtime);
    let new = |index: usize| -> Vec<&String> {
        after[index].difference(&before[index]).filter(|name| !name.starts_with("logs-")).collect()
    };
    assert_eq!((0..after.len()).flat_map(new).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(names(&runtime.dir().join("canary")), BTreeSet::new());
    assert_eq!(
        names(&runtime.data()),
        ["containers", "images", "lock", "sandboxes"].map(str::to_owned).into()
    );
    for folder in ["containers", "sandboxes"] {
        let strangers: Vec<String> =
            names(&runtime.data().join(folder)).into_iter().filter(|name| name.len() != 64).collect();
        assert_eq!(strangers, Vec::<String>::new());
    }
    tokio.block_on(async { cri.clear().await.expect("all can be removed") });
    assert!(runtime.mounts().is_empty() && runtime.groups().is_empty());
}
