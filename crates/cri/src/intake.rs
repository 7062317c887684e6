//! Reads list answers as they arrive: each entry is taken out of the byte stream as soon as it is complete, so that
//! neither an answer nor its decoded form is ever in memory as a whole.
//!
//! A list answer, streamed or not, is a sequence of gRPC messages (one byte of flags, four of length), each of which
//! has entries in its field 1.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use parking_lot::Mutex;
use tower::Service;

use crate::connection::{CallFailure, Channel};
use crate::lean::Lean;
use crate::wire::{Fields, Value, WireError};

/// The length of the prefix of a message.
pub(crate) const PREFIX: usize = 5;

/// A list that is being received.
#[derive(Debug, Default)]
pub(crate) struct Intake<L> {
    list: L,
    /// The part of the current message or prefix that has arrived but has not been used yet.
    pending: Vec<u8>,
    /// How many bytes of the current message have yet to arrive; `None` between messages.
    missing: Option<usize>,
    /// Whether the rest of the current message cannot be read.
    lost: bool,
    largest: usize,
    messages: usize,
}

/// Why an answer is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAnswer {
    /// The message is compressed, although we do not offer compression.
    #[error("a message with flags {0:#04x}, but only uncompressed messages are expected")]
    Flags(u8),
    /// The message is larger than we allow.
    #[error("a message of {length} bytes, but the limit is {limit}")]
    TooLarge {
        /// The length of the message.
        length: usize,
        /// The largest length that is allowed.
        limit: usize,
    },
    /// The answer ends in the middle of a message.
    #[error("the answer ends in the middle of a message")]
    Truncated,
}

/// Takes the payload of an answer out of the byte stream as it arrives.
pub(crate) trait Take: Default + Send + 'static {
    /// Takes the next piece of the answer, wherever it was cut.
    fn take(&mut self, piece: &[u8]) -> Result<(), BadAnswer>;
}

/// The length of the message that follows this prefix.
pub(crate) fn length_of(prefix: [u8; PREFIX]) -> Result<usize, BadAnswer> {
    let [flags, length @ ..] = prefix;
    if flags == 0 { Ok(u32::from_be_bytes(length) as usize) } else { Err(BadAnswer::Flags(flags)) }
}

impl<L: Lean> Take for Intake<L> {
    fn take(&mut self, mut piece: &[u8]) -> Result<(), BadAnswer> {
        while !piece.is_empty() {
            match self.missing {
                None => self.take_prefix(&mut piece)?,
                Some(missing) => {
                    let (now, later) = piece.split_at(missing.min(piece.len()));
                    piece = later;
                    self.take_message(now, missing - now.len());
                }
            }
        }
        Ok(())
    }
}

impl<L: Lean> Intake<L> {
    /// Creates an intake that fills `list`; no message may be larger than `largest`.
    pub(crate) fn new(list: L, largest: usize) -> Self {
        Self { list, pending: Vec::new(), missing: None, lost: false, largest, messages: 0 }
    }

    fn take_prefix(&mut self, piece: &mut &[u8]) -> Result<(), BadAnswer> {
        let (now, later) = piece.split_at(piece.len().min(PREFIX - self.pending.len()));
        *piece = later;
        self.pending.extend_from_slice(now);
        let Ok(prefix) = <[u8; PREFIX]>::try_from(self.pending.as_slice()) else { return Ok(()) };
        self.pending.clear();
        let length = length_of(prefix)?;
        if length > self.largest {
            return Err(BadAnswer::TooLarge { length, limit: self.largest });
        }
        self.missing = Some(length);
        self.lost = false;
        self.list.begin_message(length);
        if length == 0 {
            self.end_message();
        }
        Ok(())
    }

    fn take_message(&mut self, mut piece: &[u8], missing: usize) {
        self.missing = Some(missing);
        // Complete only the entry that was cut: the entries after it are read without a copy.
        while !self.lost && !self.pending.is_empty() && !piece.is_empty() {
            let wanted = match first_error(&self.pending) {
                Some(WireError::Truncated { missing, .. }) => missing.min(piece.len()),
                Some(WireError::NotAField) | None => 0,
            };
            let (now, later) = piece.split_at(wanted);
            self.pending.extend_from_slice(now);
            piece = later;
            let pending = std::mem::take(&mut self.pending);
            let used = self.entries(&pending);
            self.pending = pending;
            self.pending.drain(..used);
        }
        if !self.lost {
            let used = self.entries(piece);
            self.pending.extend_from_slice(&piece[used..]);
        }
        if missing == 0 {
            self.end_message();
        }
    }

    /// Reads the complete entries at the start of `message`, and returns how many bytes they take.
    fn entries(&mut self, message: &[u8]) -> usize {
        let mut fields = Fields::new(message);
        for field in &mut fields {
            match field {
                (1, Value::Bytes(entry)) => self.list.read(entry, true),
                (1, _) => self.list.miss(),
                _ => {}
            }
        }
        if let Some(WireError::NotAField) = fields.error() {
            // It is no longer known where the next entry would begin.
            self.list.miss();
            self.lost = true;
            return message.len();
        }
        message.len() - fields.rest().len()
    }

    fn end_message(&mut self) {
        self.missing = None;
        self.messages += 1;
        if self.pending.is_empty() {
            return;
        }
        if let Some(WireError::Truncated { start: Some((1, entry)), .. }) = first_error(&self.pending) {
            self.list.read(entry, false);
        }
        // Whatever could be read of it, the rest may hide any number of entries.
        self.list.miss();
        self.pending.clear();
    }

    /// Returns the list and the number of messages it came in, once the answer is complete.
    pub(crate) fn finish(self) -> Result<(L, usize), BadAnswer> {
        let is_complete = self.missing.is_none() && self.pending.is_empty();
        if is_complete { Ok((self.list, self.messages)) } else { Err(BadAnswer::Truncated) }
    }
}

fn first_error(message: &[u8]) -> Option<WireError<'_>> {
    let mut fields = Fields::new(message);
    fields.by_ref().for_each(drop);
    fields.error()
}

/// A channel that takes the payload out of its answers. Only the rest, the status, comes through.
#[derive(Debug)]
pub(crate) struct Skimming<T> {
    pub(crate) channel: Channel,
    pub(crate) taker: Arc<Mutex<T>>,
}

impl<T: Take> Service<http::Request<tonic::body::Body>> for Skimming<T> {
    type Response = http::Response<Skimmed<T>>;
    type Error = CallFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, CallFailure>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallFailure>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let response = self.channel.call(request);
        let taker = Arc::clone(&self.taker);
        Box::pin(async move { Ok(response.await?.map(|body| Skimmed { body, taker })) })
    }
}

/// The rest of an answer once its payload has been taken.
#[derive(Debug)]
pub(crate) struct Skimmed<T> {
    body: Incoming,
    taker: Arc<Mutex<T>>,
}

impl<T: Take> Body for Skimmed<T> {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
                return Poll::Ready(None);
            };
            match frame.into_data() {
                Ok(piece) => self.taker.lock().take(&piece)?,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
    }
}

#[cfg(test)]
mod tests;
