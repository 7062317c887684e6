//! Answers as bytes.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tonic::Status;

/// What a call is answered with.
pub(super) enum Answer {
    /// One message.
    One(Bytes),
    /// The messages of a stream.
    Many(Vec<Bytes>),
}

impl Answer {
    pub(super) fn of(message: &impl Message) -> Self {
        Self::One(message.encode_to_vec().into())
    }

    /// A message whose one field, under this number, repeats these entries.
    pub(super) fn list(field: u32, entries: &[Bytes]) -> Self {
        Self::One(repeated(field, entries))
    }

    /// The same entries in messages of at most so many; no message at all for none.
    pub(super) fn batches(field: u32, entries: &[Bytes], batch: usize) -> Self {
        Self::Many(entries.chunks(batch.max(1)).map(|entries| repeated(field, entries)).collect())
    }

    /// Fails as grpc-go does when a message is too large to be sent.
    pub(super) fn check_size(&self, limit: usize) -> Result<(), Status> {
        let messages = match self {
            Self::One(message) => std::slice::from_ref(message),
            Self::Many(messages) => messages,
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
