//! A check whether a CRI server is ready: one gRPC call with no argument or one string, written out in HTTP/2 frames.
//!
//! This crate is synchronous and is built before every test run, so it does without a gRPC stack. It need not parse
//! headers either: a successful call answers with data, a failed one only with headers.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const STREAM: u32 = 1;
/// A daemon that accepts but does not answer must not block the caller longer than this.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Larger frames are never sent unless a client allows them.
const MAX_FRAME: usize = 16 * 1024;

mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const GOAWAY: u8 = 7;
}

mod flag {
    pub(super) const ACK: u8 = 1;
    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;
}

/// Returns whether the runtime and its network report that they are ready.
pub(crate) fn is_ready(socket: &Path) -> bool {
    let status = call(socket, "/runtime.v1.RuntimeService/Status", &[]).ok().flatten();
    status.is_some_and(|status| {
        has_condition(&status, "RuntimeReady") && has_condition(&status, "NetworkReady")
    })
}

/// Returns whether CRI (and not only containerd below it) knows the image.
pub(crate) fn has_image(socket: &Path, image: &str) -> bool {
    let request = string_field(1, &string_field(1, image.as_bytes()));
    let found = call(socket, "/runtime.v1.ImageService/ImageStatus", &request).ok().flatten();
    found.is_some_and(|reply| !reply.is_empty())
}

/// Looks for `RuntimeCondition { type = 1, status = 2 }`; a false status is not on the wire.
fn has_condition(status: &[u8], name: &str) -> bool {
    let mut wanted = string_field(1, name.as_bytes());
    wanted.extend([0x10, 1]);
    status.windows(wanted.len()).any(|window| window == wanted)
}

/// A length-delimited protobuf field of fewer than 128 bytes.
fn string_field(number: u8, value: &[u8]) -> Vec<u8> {
    debug_assert!(value.len() < 128, "longer values need a longer length");
    [&[number << 3 | 2, value.len() as u8], value].concat()
}

/// Returns the message of a successful call; `None` if the call failed.
fn call(socket: &Path, method: &str, request: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    let message = [&[0], &(request.len() as u32).to_be_bytes()[..], request].concat();
    let opening = [
        PREFACE,
        &frame(kind::SETTINGS, 0, 0, &[]),
        &frame(kind::HEADERS, flag::END_HEADERS, STREAM, &request_headers(method)),
        &frame(kind::DATA, flag::END_STREAM, STREAM, &message),
    ];
    stream.write_all(&opening.concat())?;
    read_reply(&mut stream)
}

fn read_reply(stream: &mut (impl Read + Write)) -> io::Result<Option<Vec<u8>>> {
    let mut data = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        if length > MAX_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not an HTTP/2 server"));
        }
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        match kind {
            kind::SETTINGS if flags & flag::ACK == 0 => {
                stream.write_all(&frame(kind::SETTINGS, flag::ACK, 0, &[]))?;
            }
            kind::DATA => data.extend(payload),
            kind::HEADERS if flags & flag::END_STREAM != 0 => {
                const PREFIX: usize = 5;
                return Ok(data.get(PREFIX..).map(<[u8]>::to_vec));
            }
            kind::RST_STREAM | kind::GOAWAY => return Ok(None),
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes the headers in HPACK with entries of the static table where they exist, and no compression.
fn request_headers(method: &str) -> Vec<u8> {
    const METHOD_POST: u8 = 0x83;
    const SCHEME_HTTP: u8 = 0x86;
    const PATH: &[u8] = &[0x04];
    const AUTHORITY: &[u8] = &[0x01];
    const CONTENT_TYPE: &[u8] = &[0x0f, 0x10];
    let mut block = vec![METHOD_POST, SCHEME_HTTP];
    for (name, value) in [
        (PATH, method),
        (AUTHORITY, "localhost"),
        (CONTENT_TYPE, "application/grpc"),
        (b"\x00\x02te".as_slice(), "trailers"),
    ] {
        block.extend(name);
        block.push(value.len() as u8);
        block.extend(value.as_bytes());
    }
    block
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Read, Write};

    use super::{flag, frame, has_condition, kind, read_reply};

    /// A server whose whole output is known in advance.
    struct Said(Cursor<Vec<u8>>);

    impl Read for Said {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn reply(frames: &[Vec<u8>]) -> io::Result<Option<Vec<u8>>> {
        read_reply(&mut Said(Cursor::new(frames.concat())))
    }

    #[test]
    fn a_call_that_succeeds_answers_with_data() {
        let answer = reply(&[
            frame(kind::SETTINGS, 0, 0, &[]),
            frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x88"),
            frame(kind::DATA, 0, 1, b"\0\0\0\0\x03abc"),
            frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, b"trailers"),
        ]);
        assert_eq!(answer.expect("well-formed"), Some(b"abc".to_vec()));
    }

    #[test]
    fn a_call_that_fails_answers_with_headers_only() {
        let refused = [frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, b"trailers")];
        assert_eq!(reply(&refused).expect("well-formed"), None);
        assert_eq!(reply(&[frame(kind::GOAWAY, 0, 0, &[0; 8])]).expect("well-formed"), None);
    }

    #[test]
    fn a_connection_that_breaks_or_speaks_otherwise_is_an_error() {
        assert!(reply(&[]).is_err());
        assert!(reply(&[b"HTTP/1.1 400 Bad Request\r\n".to_vec()]).is_err());
    }

    #[test]
    fn a_condition_holds_only_if_its_status_is_on_the_wire() {
        assert!(has_condition(b"\x0a\x10\x0a\x0cRuntimeReady\x10\x01", "RuntimeReady"));
        assert!(!has_condition(b"\x0a\x0e\x0a\x0cRuntimeReady\x1a\x02no", "RuntimeReady"));
    }
}
