//! The path from a request on the wire to its answer, the same for all operations.
//!
//! Messages are handled as bytes here. This allows lists to be assembled from entries that are encoded once, answers to
//! be corrupted in ways that typed messages cannot express, and every call to be counted and to meet its faults in one
//! place.

use std::pin::Pin;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use futures_util::{Stream, StreamExt, stream};
use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, ServerStreamingService};
use tonic::{Code, Request, Response, Status};

use super::answer::Answer;
use super::shared::Shared;
use super::{containers, events, exec, images, lists, node, sandboxes, stats, statuses, target};
use crate::synthetic::op::Op;

pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Answers one HTTP/2 request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<tonic::body::Body> {
    let path = request.uri().path().to_owned();
    let limit = shared.look(|world| world.quirks().max_message_bytes);
    // On the wire, a single answer is a stream of one message, so the same code serves both.
    let mut grpc = Grpc::new(Raw).max_decoding_message_size(limit).max_encoding_message_size(usize::MAX);
    grpc.server_streaming(OneCall { shared, path }, request).await
}

struct OneCall {
    shared: Arc<Shared>,
    path: String,
}

impl ServerStreamingService<Bytes> for OneCall {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Messages>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let shared = self.shared.clone();
        let speaks_v1 = shared.look(|world| world.quirks().speaks_v1);
        match Op::from_path(&self.path) {
            Some(op) if speaks_v1 => Box::pin(call(shared, op, request.into_inner())),
            _ => Box::pin(std::future::ready(Err(unknown(&self.path, speaks_v1)))),
        }
    }
}

async fn call(shared: Arc<Shared>, op: Op, request: Bytes) -> Result<Response<Messages>, Status> {
    let target = target::of(&shared, op, request.clone());
    let mut in_flight = shared.calls.arrive(op, target.clone());
    let result = async {
        shared.faults.before(op, &target).await?;
        let answer = work(&shared, op, request).await?.spoiled(&shared.faults, op, &target);
        answer.check_size(shared.look(|world| world.quirks().max_message_bytes))?;
        shared.faults.after(op, &target).await?;
        Ok(answer)
    }
    .await;
    in_flight.answered(result.as_ref().map_or_else(Status::code, |_| Code::Ok));
    Ok(Response::new(match result? {
        Answer::One(message) => Box::pin(stream::once(std::future::ready(Ok(message)))),
        Answer::Made(message, id) => {
            // Only now does the caller learn of it.
            shared.look(|world| world.claim(&id));
            Box::pin(stream::once(std::future::ready(Ok(message))))
        }
        Answer::Many(messages) => Box::pin(stream::iter(messages).map(Ok)),
        // The call is in progress as long as its stream is open.
        Answer::Stream(messages) => Box::pin(messages.map(move |message| {
            let _open = &in_flight;
            message
        })),
    }))
}

/// Does the work of the call.
async fn work(shared: &Arc<Shared>, op: Op, request: Bytes) -> Result<Answer, Status> {
    match op {
        Op::Version => node::version(shared),
        Op::Status => node::status(shared),
        Op::RuntimeConfig => node::config(shared),
        Op::UpdateRuntimeConfig => node::update_config(),
        Op::GetContainerEvents => events::open(shared),

        Op::RunPodSandbox => sandboxes::run(shared, decode(request)?).await,
        Op::StopPodSandbox => sandboxes::stop(shared, &decode(request)?),
        Op::RemovePodSandbox => sandboxes::remove(shared, &decode(request)?).await,
        Op::UpdatePodSandboxResources => sandboxes::update_resources(shared, &decode(request)?),
        Op::CreateContainer => containers::create(shared, decode(request)?).await,
        Op::StartContainer => containers::start(shared, &decode(request)?).await,
        Op::StopContainer => containers::stop(shared, &decode(request)?).await,
        Op::RemoveContainer => containers::remove(shared, &decode(request)?).await,
        Op::UpdateContainerResources => containers::update_resources(shared, decode(request)?),
        Op::ReopenContainerLog => containers::reopen_log(shared, &decode(request)?),
        Op::ExecSync => exec::sync(shared, &decode(request)?).await,

        Op::ListPodSandbox => lists::sandboxes(shared, &decode(request)?),
        Op::StreamPodSandboxes => lists::stream_sandboxes(shared, &decode(request)?),
        Op::ListContainers => lists::containers(shared, &decode(request)?),
        Op::StreamContainers => lists::stream_containers(shared, &decode(request)?),
        Op::PodSandboxStatus => statuses::sandbox(shared, &decode(request)?),
        Op::ContainerStatus => statuses::container(shared, &decode(request)?),
        Op::ContainerStats => stats::container(shared, &decode(request)?),
        Op::ListContainerStats => stats::containers(shared, decode(request)?),
        Op::PodSandboxStats => stats::sandbox(shared, &decode(request)?),
        Op::ListPodSandboxStats => stats::sandboxes(shared, decode(request)?),

        Op::ListImages => images::list(shared, &decode(request)?),
        Op::StreamImages => images::stream(shared, &decode(request)?),
        Op::ImageStatus => images::status(shared, &decode(request)?),
        Op::PullImage => images::pull(shared, decode(request)?),
        Op::RemoveImage => images::remove(shared, &decode(request)?),
        Op::ImageFsInfo => images::fs_info(shared),

        // There is no process to attach to, no state to checkpoint, and nothing to measure.
        Op::Exec
        | Op::Attach
        | Op::PortForward
        | Op::CheckpointContainer
        | Op::StreamContainerStats
        | Op::StreamPodSandboxStats
        | Op::ListMetricDescriptors
        | Op::ListPodSandboxMetrics
        | Op::StreamPodSandboxMetrics => Err(unimplemented(op)),
    }
}

pub(super) fn unimplemented(op: Op) -> Status {
    Status::unimplemented(format!("method {op} not implemented"))
}

/// grpc-go's message for an unknown method or service.
fn unknown(path: &str, speaks_v1: bool) -> Status {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    Status::unimplemented(match service {
        "runtime.v1.RuntimeService" | "runtime.v1.ImageService" if speaks_v1 => {
            format!("unknown method {method} for service {service}")
        }
        _ => format!("unknown service {service}"),
    })
}

pub(super) fn decode<M: Message + Default>(request: Bytes) -> Result<M, Status> {
    M::decode(request)
        .map_err(|error| Status::internal(format!("grpc: error unmarshalling request: {error}")))
}

/// A codec that leaves messages as bytes.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
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
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
