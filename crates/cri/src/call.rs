//! How every call is made: connect if necessary, send the request, enforce the time limit, count the call, and explain
//! a failure.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic::codec::{Decoder, Streaming};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

use crate::codec::{Message, Nothing, Raw};
use crate::connection::{CallFailure, Channel, ConnectError, Connection};
use crate::excerpt::Excerpt;
use crate::intake::{BadAnswer, Intake, Skimming, Take};
use crate::lean::Lean;
use crate::link::Link;
use crate::{Endpoint, Error, ErrorKind, Metrics, Operation, Options, v1};

/// The authority of all requests. It has no meaning on a unix socket, but must be there.
static ORIGIN: LazyLock<http::Uri> = LazyLock::new(|| http::Uri::from_static("http://localhost"));

/// The gRPC metadata key of an `ExecSync` that says how many bytes of each output stream the caller wants. Runtimes
/// that do not know it send everything.
pub const OUTPUT_LIMIT: &str = "rubelet-output-limit";

/// The state that the clients of one endpoint share.
#[derive(Debug)]
pub(crate) struct Caller {
    link: Link,
    options: Options,
    metrics: Metrics,
}

/// One attempt at a call, on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    connection: Arc<Connection>,
    deadline: Option<Instant>,
    max_answer: usize,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no connection.
    Connect(ConnectError),
    /// A gRPC error, or the connection broke.
    Status(Status),
    /// The answer is unusable.
    Kind(ErrorKind, String),
    /// Our own time limit has passed.
    Late,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl Caller {
    pub(crate) fn new(endpoint: Endpoint, options: Options, metrics: Metrics) -> Self {
        Self { link: Link::new(endpoint, options.clone()), options, metrics }
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Makes a call that has one answer. For `own`, see [`Options::limit`].
    pub(crate) async fn unary<A>(
        &self,
        operation: Operation,
        path: &'static str,
        own: Duration,
        request: &impl prost::Message,
    ) -> Result<A, Error>
    where
        A: prost::Message + Default + 'static,
    {
        let request = Bytes::from(request.encode_to_vec());
        self.perform(operation, own, |attempt| {
            let request = request.clone();
            async move { Ok(attempt.unary(path, request, Message::<A>::new()).await?) }
        })
        .await
    }

    /// Makes a list call: in one answer, or as a stream if one answer would be too large. Each of the two is given as
    /// its method and a function that takes the items out of a message; both use the same request.
    pub(crate) async fn list<A, P, T>(
        &self,
        operation: Operation,
        unary: (&'static str, fn(A) -> Vec<T>),
        stream: (&'static str, fn(P) -> Vec<T>),
        request: &impl prost::Message,
    ) -> Result<Vec<T>, Error>
    where
        A: prost::Message + Default + 'static,
        P: prost::Message + Default + 'static,
    {
        let request = Bytes::from(request.encode_to_vec());
        self.perform(operation, Duration::ZERO, |attempt| {
            let request = request.clone();
            async move {
                let too_large = match attempt.unary(unary.0, request.clone(), Message::<A>::new()).await {
                    Err(status) if is_too_large(&status) => status,
                    answer => return Ok(unary.1(answer?)),
                };
                let mut parts = match attempt.stream(stream.0, request, Message::<P>::new()).await {
                    Err(status) if status.code() == Code::Unimplemented => return Err(too_large.into()),
                    parts => parts?,
                };
                let mut items = Vec::new();
                while let Some(part) = parts.message().await? {
                    items.append(&mut stream.1(part));
                }
                Ok(items)
            }
        })
        .await
    }

    /// Runs `work` on a connection, within the [time limit](Options::limit) of `operation`, and counts it as one call.
    pub(crate) async fn perform<T, W, F>(
        &self,
        operation: Operation,
        own: Duration,
        work: W,
    ) -> Result<T, Error>
    where
        W: Fn(Attempt) -> F,
        F: Future<Output = Result<T, Failure>>,
    {
        let start = Instant::now();
        let limit = self.options.limit(operation, own);
        let deadline = limit.map(|limit| start + limit);
        self.metrics.started(operation);
        let tries = self.try_twice(deadline, work);
        let result = match deadline {
            Some(deadline) => timeout_at(deadline, tries).await.unwrap_or(Err(Failure::Late)),
            None => tries.await,
        };
        let end = Instant::now();
        self.metrics.finished(operation, end - start, result.is_err());
        result.map_err(|failure| self.error(operation, failure, limit.filter(|limit| end - start >= *limit)))
    }

    /// Makes a second attempt, on a new connection, if nothing of the request was sent: a connection may turn out to be
    /// closed at the very moment it is used.
    async fn try_twice<T, W, F>(&self, deadline: Option<Instant>, work: W) -> Result<T, Failure>
    where
        W: Fn(Attempt) -> F,
        F: Future<Output = Result<T, Failure>>,
    {
        match work(self.attempt(deadline).await?).await {
            Err(Failure::Status(status)) if was_not_sent(&status) => {
                work(self.attempt(deadline).await?).await
            }
            result => result,
        }
    }

    pub(crate) async fn attempt(&self, deadline: Option<Instant>) -> Result<Attempt, Failure> {
        let connection = self.link.connection().await.map_err(Failure::Connect)?;
        Ok(Attempt { connection, deadline, max_answer: self.options.max_answer })
    }

    /// Converts a failure into an error. `exceeded` is the time limit of the call, if it has passed.
    pub(crate) fn error(&self, operation: Operation, failure: Failure, exceeded: Option<Duration>) -> Error {
        let endpoint = self.link.endpoint();
        let late = |limit: Option<Duration>| {
            limit.map_or_else(String::new, |limit| format!("none within {limit:?}"))
        };
        match failure {
            Failure::Connect(error) => Error::from_connect(operation, endpoint, error),
            Failure::Late => Error::new(operation, ErrorKind::Deadline, endpoint, &late(exceeded)),
            Failure::Kind(kind, detail) => Error::new(operation, kind, endpoint, &detail),
            Failure::Status(status) => match kind_of(&status) {
                ErrorKind::Cancelled | ErrorKind::Deadline if exceeded.is_some() => {
                    Error::new(operation, ErrorKind::Deadline, endpoint, &late(exceeded)).caused_by(status)
                }
                kind => Error::new(operation, kind, endpoint, status.message()).caused_by(status),
            },
        }
    }
}

impl Attempt {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether its time limit has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Sends a request and reads its one answer.
    pub(crate) async fn unary<D>(
        &self,
        path: &'static str,
        request: Bytes,
        decoder: D,
    ) -> Result<D::Item, Status>
    where
        D: Decoder<Error = Status> + Clone + Send + 'static,
        D::Item: Send + Sync + 'static,
    {
        let answer =
            self.grpc().unary(self.request(request), PathAndQuery::from_static(path), Raw(decoder)).await?;
        Ok(answer.into_inner())
    }

    /// Sends a request and opens its stream of answers.
    pub(crate) async fn stream<D>(
        &self,
        path: &'static str,
        request: Bytes,
        decoder: D,
    ) -> Result<Streaming<D::Item>, Status>
    where
        D: Decoder<Error = Status> + Clone + Send + 'static,
        D::Item: Send + Sync + 'static,
    {
        let path = PathAndQuery::from_static(path);
        Ok(self.grpc().server_streaming(self.request(request), path, Raw(decoder)).await?.into_inner())
    }

    /// Sends a request, and adds the entries of its answers, one or many, to `list`. Also returns how many answers
    /// there were.
    pub(crate) async fn list<L: Lean>(
        &self,
        path: &'static str,
        request: Bytes,
        list: L,
    ) -> Result<(L, usize), Status> {
        let intake = self.skim(path, self.request(request), Intake::new(list, self.max_answer)).await?;
        intake.finish().map_err(|bad| Status::from_error(Box::new(bad)))
    }

    /// Sends a request to run a command, and keeps only the first `most` bytes of each output stream.
    pub(crate) async fn excerpt(
        &self,
        path: &'static str,
        request: Bytes,
        most: usize,
    ) -> Result<v1::ExecSyncResponse, Status> {
        let mut request = self.request(request);
        request.metadata_mut().insert(OUTPUT_LIMIT, MetadataValue::from(most));
        let excerpt = self.skim(path, request, Excerpt::new(most)).await?;
        excerpt.finish().map_err(|bad| Status::from_error(Box::new(bad)))
    }

    /// Sends a request, and passes the payload of its answers to `taker` as it arrives.
    async fn skim<T: Take>(
        &self,
        path: &'static str,
        request: Request<Bytes>,
        taker: T,
    ) -> Result<T, Status> {
        let taker = Arc::new(Mutex::new(taker));
        let channel = Skimming { channel: Channel(Arc::clone(&self.connection)), taker: Arc::clone(&taker) };
        let mut grpc = Grpc::with_origin(channel, ORIGIN.clone());
        let path = PathAndQuery::from_static(path);
        let answers = grpc.server_streaming(request, path, Raw(Nothing)).await?;
        let mut answers = answers.into_inner();
        // The payload goes to `taker`; only the status at the end is left to wait for.
        while answers.message().await?.is_some() {}
        Ok(std::mem::take(&mut *taker.lock()))
    }

    fn grpc(&self) -> Grpc<Channel> {
        let origin = http::Uri::from_static("http://localhost");
        Grpc::with_origin(Channel(Arc::clone(&self.connection)), origin)
            .max_decoding_message_size(self.max_answer)
    }

    fn request(&self, message: Bytes) -> Request<Bytes> {
        let mut request = Request::new(message);
        let agent = concat!("rubelet-cri/", env!("CARGO_PKG_VERSION"));
        request.metadata_mut().insert("user-agent", MetadataValue::from_static(agent));
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        request
    }
}

/// Whether the call never left this process.
fn was_not_sent(status: &Status) -> bool {
    causes(status).any(|cause| matches!(cause.downcast_ref(), Some(CallFailure::NotSent)))
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |error: &&(dyn StdError + 'static)| (*error).source())
}

/// The kind of failure that a status means.
fn kind_of(status: &Status) -> ErrorKind {
    for cause in causes(status) {
        // Which code tonic gives to a broken connection or stream depends on how it broke.
        match cause.downcast_ref() {
            Some(CallFailure::NotGrpc(_)) => return ErrorKind::NotGrpc,
            Some(CallFailure::NotSent) => return ErrorKind::Unavailable,
            Some(CallFailure::Broken(_)) => return ErrorKind::ConnectionLost,
            None if cause.is::<hyper::Error>() => return ErrorKind::ConnectionLost,
            None => {}
        }
        match cause.downcast_ref() {
            Some(BadAnswer::TooLarge { .. }) => return ErrorKind::TooLarge,
            Some(BadAnswer::Flags(_) | BadAnswer::Truncated) => return ErrorKind::Invalid("message"),
            None => {}
        }
        if cause.is::<prost::DecodeError>() {
            return ErrorKind::Invalid("message");
        }
    }
    match status.code() {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::Unimplemented => ErrorKind::Unimplemented,
        Code::Unavailable => ErrorKind::Unavailable,
        // containerd before 2.0 answers this while it starts.
        Code::Unknown if status.message().contains("server is not initialized yet") => ErrorKind::Unavailable,
        Code::DeadlineExceeded => ErrorKind::Deadline,
        Code::Cancelled => ErrorKind::Cancelled,
        _ if is_too_large(status) => ErrorKind::TooLarge,
        code => ErrorKind::Code(code),
    }
}

/// Whether a message was larger than one side allows. grpc-go's servers report it in one way, tonic's servers and
/// clients in another.
pub(crate) fn is_too_large(status: &Status) -> bool {
    if causes(status).any(|cause| matches!(cause.downcast_ref(), Some(BadAnswer::TooLarge { .. }))) {
        return true;
    }
    let message = status.message();
    matches!(status.code(), Code::ResourceExhausted | Code::OutOfRange)
        && (message.contains("larger than max") || message.contains("message length too large"))
}

#[cfg(test)]
mod tests;
