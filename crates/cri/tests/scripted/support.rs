//! A runtime that follows a script: real gRPC on a real socket, in the process and on the clock of the test.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rubelet_cri::{Endpoint, Listener, Metrics, Options, RuntimeClient};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Status};

/// A place for a socket, and clients of it.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub(crate) endpoint: Endpoint,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::from_path(dir.path().join("cri.sock")).unwrap();
        Self { _dir: dir, endpoint }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.endpoint.path()
    }

    pub(crate) fn client(&self) -> RuntimeClient {
        RuntimeClient::new(self.endpoint.clone(), Options::default(), Metrics::default())
    }
}

/// A call as the runtime sees it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `Service/Method`, for services of CRI v1 only `Method`.
    pub(crate) method: String,
    pub(crate) request: Bytes,
    /// The `grpc-timeout` header.
    pub(crate) timeout: Option<String>,
    /// The header that says how much output is wanted.
    pub(crate) output_limit: Option<String>,
    /// Which connection it came over, from 1 on.
    pub(crate) connection: usize,
}

impl Call {
    pub(crate) fn decode<M: prost::Message + Default>(&self) -> M {
        M::decode(self.request.clone()).unwrap()
    }
}

/// What the runtime does about a call.
pub(crate) enum Reply {
    /// One message and success.
    Message(Vec<u8>),
    /// Some messages, and then this.
    Stream(Vec<Vec<u8>>, Status),
    /// Messages as the test sends them; nothing at all before the first. Success when the test lets go.
    Live(mpsc::Receiver<Vec<u8>>),
    /// No message, only this.
    Fail(Status),
    /// Nothing, ever.
    Hang,
    /// A success that holds no message.
    Nothing,
    /// An answer of another protocol.
    Http(u16, &'static str),
}

impl Reply {
    pub(crate) fn message(message: &impl prost::Message) -> Self {
        Self::Message(message.encode_to_vec())
    }

    pub(crate) fn fail(code: Code, message: &str) -> Self {
        Self::Fail(Status::new(code, message))
    }

    pub(crate) fn unimplemented() -> Self {
        Self::fail(Code::Unimplemented, "unknown method")
    }
}

type Script = dyn Fn(&Call) -> Reply + Send + Sync;

/// A running runtime; it dies with this value, and its socket and connections with it.
pub(crate) struct Server {
    calls: Arc<Mutex<Vec<Call>>>,
    task: AbortHandle,
}

impl Server {
    pub(crate) async fn start(
        place: &Place,
        script: impl Fn(&Call) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = Listener::bind(&place.endpoint).await.unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(accept(listener, Arc::clone(&calls), Arc::new(script))).abort_handle();
        Self { calls, task }
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    /// The methods called since the last time somebody asked.
    pub(crate) fn take_methods(&self) -> Vec<String> {
        self.calls.lock().drain(..).map(|call| call.method).collect()
    }

    /// Ends it, and returns once its socket and its connections are closed.
    pub(crate) async fn stop(self) {
        self.task.abort();
        while !self.task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(mut listener: Listener, calls: Arc<Mutex<Vec<Call>>>, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    let mut count = 0;
    while let Some(stream) = listener.next().await {
        count += 1;
        let connection = count;
        let (calls, script) = (Arc::clone(&calls), Arc::clone(&script));
        let service =
            service_fn(move |request| answer(request, connection, Arc::clone(&calls), Arc::clone(&script)));
        let io = TokioIo::new(stream.unwrap());
        connections.spawn(async move {
            // The client may hang up as it likes.
            let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(io, service)
                .await;
        });
    }
}

type Answer = http::Response<BoxBody<Bytes, Infallible>>;

async fn answer(
    request: http::Request<Incoming>,
    connection: usize,
    calls: Arc<Mutex<Vec<Call>>>,
    script: Arc<Script>,
) -> Result<Answer, hyper::Error> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().trim_start_matches('/');
    let known = ["runtime.v1.RuntimeService/", "runtime.v1.ImageService/"];
    let method = known.iter().find_map(|service| path.strip_prefix(service)).unwrap_or(path).to_owned();
    assert_eq!(parts.uri.authority().map(http::uri::Authority::as_str), Some("localhost"));
    let request = body.collect().await?.to_bytes().slice(5..);
    let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let (timeout, output_limit) = (header("grpc-timeout"), header(rubelet_cri::OUTPUT_LIMIT));
    let call = Call { method, request, timeout, output_limit, connection };
    calls.lock().push(call.clone());
    Ok(match script(&call) {
        Reply::Message(message) => stream(tokio_stream::once(message), &Status::ok("")),
        Reply::Stream(messages, status) => stream(tokio_stream::iter(messages), &status),
        Reply::Live(mut messages) => match messages.recv().await {
            Some(first) => {
                stream(tokio_stream::once(first).chain(ReceiverStream::new(messages)), &Status::ok(""))
            }
            None => stream(tokio_stream::empty(), &Status::ok("")),
        },
        Reply::Nothing => stream(tokio_stream::empty(), &Status::ok("")),
        Reply::Hang => std::future::pending().await,
        Reply::Fail(status) => {
            let mut response = stream(tokio_stream::empty(), &Status::ok("")).map(|_| BoxBody::default());
            status.add_header(response.headers_mut()).unwrap();
            response
        }
        Reply::Http(status, content_type) => http::Response::builder()
            .status(status)
            .header("content-type", content_type)
            .body(BoxBody::default())
            .unwrap(),
    })
}

fn stream(messages: impl Stream<Item = Vec<u8>> + Send + Sync + 'static, status: &Status) -> Answer {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers).unwrap();
    let frames = messages
        .map(|message| {
            let mut frame = BytesMut::with_capacity(5 + message.len());
            frame.put_u8(0);
            frame.put_u32(u32::try_from(message.len()).unwrap());
            frame.put_slice(&message);
            Frame::data(frame.freeze())
        })
        .chain(tokio_stream::once(Frame::trailers(trailers)))
        .map(Ok);
    http::Response::builder()
        .header("content-type", "application/grpc")
        .body(BoxBody::new(StreamBody::new(frames)))
        .unwrap()
}
