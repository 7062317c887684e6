//! Answers that no decoder expects: encoded messages, split into fields and put together wrongly.
//!
//! Typed messages cannot express this, so it is done to the bytes. The message around the corrupted one stays valid: a
//! client that decodes entry by entry loses only that entry.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

use super::op::Op;

/// What is wrong with an entry of a list, a status, or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corruption {
    /// A text in this part is not UTF-8. A strict decoder rejects the whole message.
    BadUtf8(Part),
    /// The state (for an event: the type) is one that the protocol does not define.
    UnknownState(i32),
    /// The metadata (for an event: the sandbox status) is missing.
    NoMetadata,
    /// The metadata (for an event: the sandbox status) is truncated.
    BrokenMetadata,
    /// The id is missing.
    NoId,
    /// The whole entry is truncated. Its id, which comes first, can still be read.
    Truncated,
    /// The bytes are not a message at all.
    Garbage,
}

/// A part of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Its id.
    Id,
    /// The name in its metadata.
    Metadata,
    /// Its labels.
    Labels,
    /// Its annotations.
    Annotations,
}

/// The field numbers of the parts in one kind of message. The id is always field 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    metadata: u32,
    state: u32,
    labels: u32,
    annotations: u32,
}

impl Shape {
    /// An entry of a list of sandboxes.
    pub(crate) const SANDBOX: Self = Self { metadata: 2, state: 3, labels: 5, annotations: 6 };
    /// An entry of a list of containers.
    pub(crate) const CONTAINER: Self = Self { metadata: 3, state: 6, labels: 8, annotations: 9 };
    const SANDBOX_STATUS: Self = Self { metadata: 2, state: 3, labels: 7, annotations: 8 };
    const CONTAINER_STATUS: Self = Self { metadata: 2, state: 3, labels: 12, annotations: 13 };
    /// An event has neither labels nor annotations; its sandbox status takes the place of metadata.
    const EVENT: Self = Self { metadata: 4, state: 2, labels: 1, annotations: 1 };
}

/// Corrupts the answer of a status call, or an event. Other answers have no entry that could be corrupted.
pub(crate) fn spoil_answer(op: Op, answer: &Bytes, corruption: Corruption) -> Bytes {
    let inner = match op {
        Op::PodSandboxStatus => Shape::SANDBOX_STATUS,
        Op::ContainerStatus => Shape::CONTAINER_STATUS,
        Op::GetContainerEvents => return spoil(Shape::EVENT, answer, corruption),
        _ => return answer.clone(),
    };
    rebuild(answer, |field, payload| match payload {
        Payload::Bytes(status) if field == 1 => Some(spoil(inner, &answer.slice(status), corruption)),
        _ => None,
    })
}

/// Corrupts one encoded entry.
pub(crate) fn spoil(shape: Shape, entry: &Bytes, corruption: Corruption) -> Bytes {
    const NOT_UTF8: &[u8] = b"\xff\xfe";
    match corruption {
        Corruption::BadUtf8(Part::Id) => append(&without(entry, 1), 1, NOT_UTF8),
        // If a field occurs twice the last one counts, or, in a map, both do.
        Corruption::BadUtf8(Part::Metadata) => {
            append(entry, shape.metadata, &append(&Bytes::new(), 1, NOT_UTF8))
        }
        Corruption::BadUtf8(Part::Labels) => append_text(entry, shape.labels, NOT_UTF8),
        Corruption::BadUtf8(Part::Annotations) => append_text(entry, shape.annotations, NOT_UTF8),
        Corruption::UnknownState(number) => {
            let mut message = BytesMut::from(&*without(entry, shape.state));
            encode_key(shape.state, WireType::Varint, &mut message);
            encode_varint(i64::from(number).cast_unsigned(), &mut message);
            message.freeze()
        }
        Corruption::NoMetadata => without(entry, shape.metadata),
        Corruption::BrokenMetadata => append(&without(entry, shape.metadata), shape.metadata, b"\x0a\x7fx"),
        Corruption::NoId => without(entry, 1),
        Corruption::Truncated => {
            // An added field announces ten bytes, of which only four follow.
            let mut message = BytesMut::from(&**entry);
            encode_key(99, WireType::LengthDelimited, &mut message);
            encode_varint(10, &mut message);
            message.put_slice(b"half");
            message.freeze()
        }
        // Wire type 7 does not exist.
        Corruption::Garbage => Bytes::from_static(b"\xff\x07garbage\xff\xff\xff"),
    }
}

/// Appends a map entry (or a plain text, where the shape has a text in place of labels) with an invalid value.
fn append_text(message: &Bytes, field: u32, text: &[u8]) -> Bytes {
    if field == 1 {
        return append(&without(message, 1), 1, text);
    }
    let entry = append(&append(&Bytes::new(), 1, b"spoiled"), 2, text);
    append(message, field, &entry)
}

fn append(message: &Bytes, field: u32, payload: &[u8]) -> Bytes {
    let mut message = BytesMut::from(&**message);
    encode_key(field, WireType::LengthDelimited, &mut message);
    encode_varint(payload.len() as u64, &mut message);
    message.put_slice(payload);
    message.freeze()
}

fn without(message: &Bytes, unwanted: u32) -> Bytes {
    let mut kept = BytesMut::with_capacity(message.len());
    for (field, whole, _) in fields(message) {
        if field != unwanted {
            kept.put_slice(&message[whole]);
        }
    }
    kept.freeze()
}

/// Copies a message, replacing the payloads for which `change` returns another.
fn rebuild(message: &Bytes, change: impl Fn(u32, Payload) -> Option<Bytes>) -> Bytes {
    let mut rebuilt = Bytes::new();
    for (field, whole, payload) in fields(message) {
        rebuilt = match change(field, payload) {
            Some(payload) => append(&rebuilt, field, &payload),
            None => {
                let mut copy = BytesMut::from(&*rebuilt);
                copy.put_slice(&message[whole]);
                copy.freeze()
            }
        };
    }
    rebuilt
}

enum Payload {
    /// The position of the bytes of a text, bytes or message field.
    Bytes(Range<usize>),
    Number,
}

/// The fields of a well-formed message: the number, the range of the field, and its payload.
fn fields(message: &Bytes) -> Vec<(u32, Range<usize>, Payload)> {
    let mut rest = &message[..];
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let start = message.len() - rest.len();
        let (field, wire_type) = decode_key(&mut rest).expect("we encoded it");
        let payload = if wire_type == WireType::LengthDelimited {
            let len = decode_varint(&mut rest).expect("we encoded it") as usize;
            let at = message.len() - rest.len();
            rest = &rest[len..];
            Payload::Bytes(at..at + len)
        } else {
            skip_field(wire_type, field, &mut rest, DecodeContext::default()).expect("we encoded it");
            Payload::Number
        };
        fields.push((field, start..message.len() - rest.len(), payload));
    }
    fields
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use rubelet_cri::v1;

    use super::*;

    fn entry() -> Bytes {
        v1::Container {
            id: "c1".to_owned(),
            pod_sandbox_id: "s1".to_owned(),
            metadata: Some(v1::ContainerMetadata { name: "nginx".to_owned(), attempt: 2 }),
            state: v1::ContainerState::ContainerExited.into(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..Default::default()
        }
        .encode_to_vec()
        .into()
    }

    fn spoiled(corruption: Corruption) -> Result<v1::Container, prost::DecodeError> {
        v1::Container::decode(spoil(Shape::CONTAINER, &entry(), corruption))
    }

    #[test]
    fn what_cannot_be_decoded_cannot_be_decoded() {
        for corruption in [
            Corruption::BadUtf8(Part::Id),
            Corruption::BadUtf8(Part::Metadata),
            Corruption::BadUtf8(Part::Labels),
            Corruption::BadUtf8(Part::Annotations),
            Corruption::BrokenMetadata,
            Corruption::Truncated,
            Corruption::Garbage,
        ] {
            spoiled(corruption).expect_err(&format!("{corruption:?}"));
        }
    }

    #[test]
    fn what_is_only_odd_can_be_decoded_and_is_odd() {
        assert_eq!(spoiled(Corruption::UnknownState(42)).unwrap().state, 42);
        assert_eq!(spoiled(Corruption::UnknownState(-1)).unwrap().state, -1);
        assert_eq!(spoiled(Corruption::NoMetadata).unwrap().metadata, None);
        let without_id = spoiled(Corruption::NoId).unwrap();
        assert_eq!((&*without_id.id, &*without_id.pod_sandbox_id), ("", "s1"));
    }

    #[test]
    fn the_status_inside_an_answer_is_spoiled_and_the_rest_is_not() {
        let answer = v1::ContainerStatusResponse {
            status: Some(v1::ContainerStatus { id: "c1".to_owned(), exit_code: 3, ..Default::default() }),
            info: [("k".to_owned(), "v".to_owned())].into(),
        };
        let spoiled =
            spoil_answer(Op::ContainerStatus, &answer.encode_to_vec().into(), Corruption::UnknownState(9));
        let spoiled = v1::ContainerStatusResponse::decode(spoiled).unwrap();
        assert_eq!(spoiled.info, answer.info);
        let status = spoiled.status.unwrap();
        assert_eq!((status.state, status.exit_code), (9, 3));
    }

    #[test]
    fn an_event_may_lack_its_sandbox_or_have_a_type_of_its_own() {
        let event = v1::ContainerEventResponse {
            container_id: "c1".to_owned(),
            container_event_type: v1::ContainerEventType::ContainerStoppedEvent.into(),
            pod_sandbox_status: Some(v1::PodSandboxStatus::default()),
            ..Default::default()
        };
        let event: Bytes = event.encode_to_vec().into();
        let spoil = |corruption| {
            v1::ContainerEventResponse::decode(spoil_answer(Op::GetContainerEvents, &event, corruption))
        };
        assert_eq!(spoil(Corruption::NoMetadata).unwrap().pod_sandbox_status, None);
        assert_eq!(spoil(Corruption::UnknownState(77)).unwrap().container_event_type, 77);
        spoil(Corruption::BadUtf8(Part::Labels)).unwrap_err();
        spoil(Corruption::BrokenMetadata).unwrap_err();
    }
}
