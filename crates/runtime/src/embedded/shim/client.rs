//! A connection to the shim, from the runtime or from the caller of a command.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// A request is a short line; a peer that sends more is not the runtime.
const MAX_REQUEST: usize = 256;

/// The arguments of a command, and its two output streams.
const MAX_FILES: usize = 3;

pub(super) struct Client {
    pub(super) socket: UnixStream,
    input: Vec<u8>,
    /// The descriptors that came with the request.
    pub(super) files: Vec<OwnedFd>,
}

impl Client {
    /// Wraps a socket, which must be non-blocking.
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, input: Vec::new(), files: Vec::new() }
    }

    /// Returns the requests that have arrived; `None` if the peer is gone, or is not the runtime.
    pub(super) fn read(&mut self) -> Option<Vec<String>> {
        let mut chunk = [0; MAX_REQUEST];
        loop {
            match receive(&self.socket, &mut chunk, &mut self.files) {
                Ok(0) => return None,
                Ok(len) => self.input.extend_from_slice(&chunk[..len]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Some(take_lines(&mut self.input)),
                Err(_) => return None,
            }
            if self.input.len() > MAX_REQUEST {
                return None;
            }
        }
    }
}

/// Reads what a peer has sent, and takes the descriptors that came with it.
fn receive(socket: &UnixStream, chunk: &mut [u8], files: &mut Vec<OwnedFd>) -> Result<usize, Errno> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(
        socket,
        &mut [std::io::IoSliceMut::new(chunk)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            files.extend(sent);
        }
    }
    // More than any request has: the peer is not the runtime.
    files.truncate(MAX_FILES);
    Ok(got.bytes)
}

/// Removes and returns the complete lines.
pub(super) fn take_lines(text: &mut Vec<u8>) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = text.drain(..=end).collect();
        lines.push(String::from_utf8_lossy(&line[..end]).into_owned());
    }
    lines
}
