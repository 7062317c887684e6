//! The runtime's stream of container events.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::Status;
use tonic::codec::Streaming;

use super::{RuntimeClient, method};
use crate::call::{Caller, Failure};
use crate::codec::Message;
use crate::connection::Connection;
use crate::{Error, Operation, v1};

type Opening = Pin<Box<dyn Future<Output = Result<Streaming<v1::ContainerEventResponse>, Status>> + Send>>;

impl RuntimeClient {
    /// Follows the events of sandboxes and containers.
    ///
    /// When this returns, the request has been handed to the connection, ahead of any list that is requested later.
    /// Whether the runtime has events shows only when the stream is read: most runtimes send nothing at all before the
    /// first event, some end the stream at once, and others fail with
    /// [`ErrorKind::Unimplemented`](crate::ErrorKind::Unimplemented). The stream has no time limit.
    ///
    /// Keep reading: a runtime may stall while a reader does.
    pub async fn get_container_events(&self) -> Result<EventStream, Error> {
        const OPERATION: Operation = Operation::GetContainerEvents;
        let caller = Arc::clone(&self.0);
        caller.metrics().started(OPERATION);
        let start = Instant::now();
        let fail = |failure: Failure| {
            self.0.metrics().finished(OPERATION, start.elapsed(), true);
            self.0.error(OPERATION, failure, None)
        };
        let attempt = caller.attempt(None).await.map_err(fail)?;
        let connection = Arc::clone(attempt.connection());
        let mut opening: Opening = Box::pin(async move {
            attempt.stream(method!("GetContainerEvents"), Bytes::new(), Message::new()).await
        });
        // The first poll hands the request to the connection. The answer may take hours.
        let state = match poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx))).await {
            Poll::Ready(Ok(events)) => State::Open(Box::new(events)),
            Poll::Ready(Err(status)) => return Err(fail(status.into())),
            Poll::Pending => State::Opening(opening),
        };
        Ok(EventStream { state, caller, connection, start })
    }
}

/// The events of a runtime, as they happen.
///
/// The stream ends after its first error, or when the runtime ends it.
pub struct EventStream {
    state: State,
    caller: Arc<Caller>,
    connection: Arc<Connection>,
    start: Instant,
}

enum State {
    /// Requested; the runtime has not answered yet.
    Opening(Opening),
    /// The runtime has begun to answer.
    Open(Box<Streaming<v1::ContainerEventResponse>>),
    /// It is over.
    Ended,
}

impl EventStream {
    /// The number of the connection that the stream uses.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.connection.epoch()
    }

    /// Returns the next event, or `None` once the runtime has ended the stream. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Result<v1::ContainerEventResponse, Error>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<v1::ContainerEventResponse, Status>>> {
        loop {
            match &mut self.state {
                State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(events) => self.state = State::Open(Box::new(events)),
                    Err(status) => return Poll::Ready(Some(Err(status))),
                },
                State::Open(events) => return Pin::new(&mut **events).poll_next(cx),
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    fn end(&mut self, failed: bool) {
        if !matches!(self.state, State::Ended) {
            self.state = State::Ended;
            self.caller.metrics().finished(Operation::GetContainerEvents, self.start.elapsed(), failed);
        }
    }
}

impl Stream for EventStream {
    type Item = Result<v1::ContainerEventResponse, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = match ready!(self.poll_event(cx)) {
            Some(Ok(event)) => Some(Ok(event)),
            Some(Err(status)) => {
                self.end(true);
                Some(Err(self.caller.error(Operation::GetContainerEvents, status.into(), None)))
            }
            None => {
                self.end(false);
                None
            }
        };
        Poll::Ready(next)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}
