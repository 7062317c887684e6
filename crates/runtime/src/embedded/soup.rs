//! Random messages: protobuf fields of any number and kind, filled with values that break programs. For tests only.
//!
//! Appended to a valid message, they are merged into it, so that a request gets past its decoder and most of its checks
//! before something is wrong with it.

use proptest::collection::vec;
use proptest::prelude::*;

/// The content of one field.
#[derive(Debug, Clone)]
enum Piece {
    Number(u64),
    Text(String),
    Bytes(Vec<u8>),
    Message(Vec<(u32, Piece)>),
}

fn piece(words: Vec<String>) -> impl Strategy<Value = Piece> {
    let numbers = prop_oneof![
        (0_u64..10),
        Just(u64::MAX),
        Just(1 << 31),
        Just((1 << 31) - 1),
        Just(1 << 63),
        Just(u64::MAX - 1),
        any::<u64>(),
    ];
    let leaf = prop_oneof![
        4 => numbers.prop_map(Piece::Number),
        6 => prop::sample::select(words).prop_map(Piece::Text),
        1 => vec(any::<u8>(), 0..12).prop_map(Piece::Bytes),
    ];
    leaf.prop_recursive(5, 24, 3, |inner| vec((1_u32..20, inner), 0..4).prop_map(Piece::Message))
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn encode(fields: &[(u32, Piece)], out: &mut Vec<u8>) {
    for (number, piece) in fields {
        let mut content = Vec::new();
        match piece {
            Piece::Number(value) => {
                varint(u64::from(number << 3), out);
                varint(*value, out);
                continue;
            }
            Piece::Text(text) => content.extend_from_slice(text.as_bytes()),
            Piece::Bytes(bytes) => content.extend_from_slice(bytes),
            Piece::Message(fields) => encode(fields, &mut content),
        }
        varint(u64::from(number << 3 | 2), out);
        varint(content.len() as u64, out);
        out.extend_from_slice(&content);
    }
}

/// Texts that programs trip over. Absolute paths are of things that exist, or that nobody can create.
pub(crate) fn words() -> Vec<String> {
    let words = [
        "",
        "x",
        "..",
        ".",
        "/",
        "a/b",
        "a/../../b",
        "../../../../canary/x",
        "/etc/passwd",
        "/proc/self/root/../x",
        "/dev/null/x",
        "x\0y",
        "x\ny",
        "%s%n",
        "*",
        "host",
        "localhost/busybox:1",
        "net.ipv4.ip_forward",
        "kernel.panic",
        "net.ipv4/../../kernel/panic",
        "a.slice",
        "0-99",
        "pids.max",
        "memory.max",
        "max",
        "ALL",
        "2MB",
        "rwm",
        "sha256:0",
        "\u{202e}\u{feff}ä",
        "=",
        "-1",
        "18446744073709551616",
    ];
    let long = ["x".repeat(300), "a/".repeat(200), "f".repeat(64)];
    words.into_iter().map(str::to_owned).chain(long).collect()
}

/// Generates a few random fields that use these words.
pub(crate) fn soup(words: Vec<String>) -> impl Strategy<Value = Vec<u8>> {
    vec((1_u32..20, piece(words)), 0..5).prop_map(|fields| {
        let mut bytes = Vec::new();
        encode(&fields, &mut bytes);
        bytes
    })
}
