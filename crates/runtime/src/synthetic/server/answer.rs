//! Answers as bytes.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tonic::Status;

use super::dispatch::Messages;
use crate::synthetic::corrupt::spoil_answer;
use crate::synthetic::faults::{Faults, Spoil};
use crate::synthetic::op::Op;
use crate::synthetic::target::Target;

/// The answer to a call.
pub(super) enum Answer {
    /// One message.
    One(Bytes),
    /// One message with the id of something that was created.
    Made(Bytes, String),
    /// The messages of a stream.
    Many(Vec<Bytes>),
    /// A stream that stays open.
    Stream(Messages),
}

impl Answer {
    pub(super) fn of(message: &impl Message) -> Self {
        Self::One(message.encode_to_vec().into())
    }

    /// Makes a message that consists of one repeated field with this number and these entries.
    pub(super) fn list(field: u32, entries: &[Bytes]) -> Self {
        Self::One(repeated(field, entries))
    }

    /// Distributes the same entries over messages of at most `batch` entries; none for no entries.
    pub(super) fn batches(field: u32, entries: &[Bytes], batch: usize) -> Self {
        Self::Many(entries.chunks(batch.max(1)).map(|entries| repeated(field, entries)).collect())
    }

    /// Applies the faults programmed for the object of a status call. Entries of lists and events are corrupted where
    /// they are assembled.
    pub(super) fn spoiled(self, faults: &Faults, op: Op, target: &Target) -> Self {
        match self {
            Self::One(message) if matches!(op, Op::PodSandboxStatus | Op::ContainerStatus) => {
                Self::One(match faults.spoil(op, target) {
                    Some(Spoil::Corrupt(corruption)) => spoil_answer(op, &message, corruption),
                    Some(Spoil::Omit) | None => message,
                })
            }
            other => other,
        }
    }

    /// Fails as grpc-go does if a message is too large to be sent.
    pub(super) fn check_size(&self, limit: usize) -> Result<(), Status> {
        let messages = match self {
            Self::One(message) | Self::Made(message, _) => std::slice::from_ref(message),
            Self::Many(messages) => messages,
            Self::Stream(_) => &[],
        };
        match messages.iter().map(Bytes::len).find(|&len| len > limit) {
            None => Ok(()),
            Some(len) => Err(Status::resource_exhausted(format!(
                "grpc: trying to send message larger than max ({len} vs. {limit})"
            ))),
        }
    }
}

fn repeated(field: u32, entries: &[Bytes]) -> Bytes {
    let len = |entry: &Bytes| key_len(field) + encoded_len_varint(entry.len() as u64) + entry.len();
    let mut message = BytesMut::with_capacity(entries.iter().map(len).sum());
    for entry in entries {
        encode_key(field, WireType::LengthDelimited, &mut message);
        encode_varint(entry.len() as u64, &mut message);
        message.put_slice(entry);
    }
    message.freeze()
}
