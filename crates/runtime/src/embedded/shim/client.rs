//! Somebody who is connected to the shim: the runtime, or a command's asker.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// A request line is short; a peer that sends more is not ours.
const MAX_REQUEST: usize = 256;

/// A command, its output and its complaints.
const MAX_FILES: usize = 3;

pub(super) struct Client {
    pub(super) socket: UnixStream,
    input: Vec<u8>,
    /// Descriptors that came along.
    pub(super) files: Vec<OwnedFd>,
}

impl Client {
    /// The socket does not block.
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, input: Vec::new(), files: Vec::new() }
    }

    /// The requests that have come; `None` if nobody is there any more, or nobody of ours.
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

/// Reads what a peer sent, and takes the descriptors that came with it.
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
    // More than any request has: a peer that is not ours.
    files.truncate(MAX_FILES);
    Ok(got.bytes)
}

/// Takes the lines that are whole.
pub(super) fn take_lines(text: &mut Vec<u8>) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = text.drain(..=end).collect();
        lines.push(String::from_utf8_lossy(&line[..end]).into_owned());
    }
    lines
}
