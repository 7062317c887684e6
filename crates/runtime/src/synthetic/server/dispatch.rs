//! From a request on the wire to its answer: one way for all operations.
//!
//! Messages are handled as bytes here. That lets lists be put together from entries that are encoded once,
//! lets an answer be spoiled in ways that no typed message can be, and leaves one place where every
//! call is counted and meets its faults.

use std::pin::Pin;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use futures_util::{Stream, StreamExt, stream};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, ServerStreamingService};
use tonic::{Code, Request, Response, Status};

use super::Shared;
use super::answer::Answer;
use super::read;
use crate::synthetic::op::Op;

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Answers one HTTP/2 request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<tonic::body::Body> {
    let op = Op::from_path(request.uri().path());
    let path = request.uri().path().to_owned();
    let limit = shared.world.lock().quirks().max_message_bytes;
    // A single answer is a stream of one message on the wire, so that one way serves both.
    let mut grpc = Grpc::new(Raw).apply_max_message_size_config(Some(limit), Some(usize::MAX));
    grpc.server_streaming(OneCall { shared, op, path }, request).await
}

struct OneCall {
    shared: Arc<Shared>,
    op: Option<Op>,
    path: String,
}

impl ServerStreamingService<Bytes> for OneCall {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Messages>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let shared = self.shared.clone();
        match self.op {
            Some(op) => Box::pin(call(shared, op, request.into_inner())),
            None => {
                let (service, method) = self.path.trim_start_matches('/').split_once('/').unwrap_or_default();
                // grpc-go's words for the two cases.
                let text = match service {
                    "runtime.v1.RuntimeService" | "runtime.v1.ImageService" => {
                        format!("unknown method {method} for service {service}")
                    }
                    _ => format!("unknown service {service}"),
                };
                Box::pin(std::future::ready(Err(Status::unimplemented(text))))
            }
        }
    }
}

async fn call(shared: Arc<Shared>, op: Op, request: Bytes) -> Result<Response<Messages>, Status> {
    let target = read::target(&shared, op, request.clone());
    let mut in_flight = shared.calls.arrive(op, target.clone());
    let result = async {
        shared.faults.before(op, &target).await?;
        let answer = read::work(&shared, op, request)?;
        let limit = shared.world.lock().quirks().max_message_bytes;
        answer.check_size(limit)?;
        shared.faults.after(op, &target).await?;
        Ok(answer)
    }
    .await;
    in_flight.answered(result.as_ref().map_or_else(Status::code, |_| Code::Ok));
    let messages: Messages = match result? {
        Answer::One(message) => Box::pin(stream::once(std::future::ready(Ok(message)))),
        Answer::Many(messages) => Box::pin(stream::iter(messages).map(Ok)),
    };
    Ok(Response::new(messages))
}

/// Messages as bytes, untouched.
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
