//! Watches the first bytes that a peer sends. An HTTP/2 server must open with a SETTINGS frame: receiving one means
//! that the peer is there and speaks the protocol, and receiving anything else means that it does not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The length of an HTTP/2 frame header.
const HEADER: usize = 9;

/// What was received first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// The header of a SETTINGS frame.
    Http2,
    /// Something else, with its first bytes.
    Garbage(Vec<u8>),
    /// The peer hung up before it sent anything.
    HungUp,
}

/// A stream that reports what is received on it first.
#[derive(Debug)]
pub(crate) struct Greeted<S> {
    stream: S,
    heard: Vec<u8>,
    tell: Option<oneshot::Sender<Greeting>>,
}

impl<S> Greeted<S> {
    /// Wraps `stream`. The receiver gets the greeting once it is known, and an error if the stream is dropped before
    /// that.
    pub(crate) fn new(stream: S) -> (Self, oneshot::Receiver<Greeting>) {
        let (tell, told) = oneshot::channel();
        (Self { stream, heard: Vec::with_capacity(HEADER), tell: Some(tell) }, told)
    }

    /// Examines received bytes. Fails if they cannot be the start of an HTTP/2 connection.
    fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.tell.is_none() {
            return Ok(());
        }
        let missing = HEADER - self.heard.len();
        self.heard.extend(bytes.iter().take(missing));
        let greeting = if !may_be_settings(&self.heard) {
            Greeting::Garbage(self.heard.iter().chain(bytes.iter().skip(missing)).copied().take(32).collect())
        } else if self.heard.len() == HEADER {
            Greeting::Http2
        } else if bytes.is_empty() {
            if self.heard.is_empty() { Greeting::HungUp } else { Greeting::Garbage(self.heard.clone()) }
        } else {
            return Ok(());
        };
        let is_garbage = matches!(greeting, Greeting::Garbage(_));
        if let Some(tell) = self.tell.take() {
            // Nobody is waiting any more if the connection attempt was given up.
            let _ = tell.send(greeting);
        }
        if is_garbage { Err(io::Error::new(io::ErrorKind::InvalidData, "not HTTP/2")) } else { Ok(()) }
    }
}

/// Whether `start` can be the beginning of the header of a SETTINGS frame: three bytes of length (more than 64 KiB is
/// not plausible), type 4, flags, stream 0.
fn may_be_settings(start: &[u8]) -> bool {
    start.iter().enumerate().all(|(index, byte)| match index {
        0 => *byte == 0,
        3 => *byte == 4,
        5 => *byte & 0x7f == 0,
        6..=8 => *byte == 0,
        _ => true,
    })
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let heard = self.hear(&buf.filled()[before..]);
        if heard.is_err() {
            buf.set_filled(before);
        }
        Poll::Ready(heard)
    }
}

impl<S: AsyncRead + Unpin> Greeted<S> {
    /// Reads what the peer has sent before a failed write returns its error. A peer that hung up while we wrote may
    /// have sent something first, which says more than a broken pipe does. Nobody is at the other end any more, so this
    /// does not take long; and if the write is retried, it fails again.
    fn hear_last_words<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        while self.tell.is_some() && matches!(written, Poll::Ready(Err(_))) {
            let mut bytes = [0; 32];
            let mut buf = ReadBuf::new(&mut bytes);
            if ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)).is_err() {
                break;
            }
            // The write has already failed, and its error is the one to return.
            let _ = self.hear(buf.filled());
        }
        written
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.hear_last_words(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.hear_last_words(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.hear_last_words(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const SETTINGS: [u8; HEADER] = [0, 0, 18, 4, 0, 0, 0, 0, 0];

    /// The greeting that results from the pieces that a peer sends before it hangs up.
    async fn greeting(pieces: &[&[u8]]) -> (Greeting, io::Result<Vec<u8>>) {
        let (mut peer, ours) = tokio::io::duplex(64);
        let (mut ours, told) = Greeted::new(ours);
        let read = async {
            let mut all = Vec::new();
            let result = ours.read_to_end(&mut all).await;
            result.map(|_| all)
        };
        let write = async {
            for piece in pieces {
                peer.write_all(piece).await.unwrap();
                // Lets the other side read, so that the pieces stay apart.
                tokio::task::yield_now().await;
            }
            drop(peer);
        };
        let (read, ()) = tokio::join!(read, write);
        (told.await.unwrap(), read)
    }

    #[tokio::test]
    async fn a_settings_frame_is_a_greeting_in_however_many_pieces() {
        let whole = [&SETTINGS[..], b"and more"].concat();
        for cut in 0..whole.len() {
            let (greeting, read) = greeting(&[&whole[..cut], &whole[cut..]]).await;
            assert_eq!(greeting, Greeting::Http2, "cut at {cut}");
            assert_eq!(read.unwrap(), whole, "everything is passed on");
        }
    }

    #[tokio::test]
    async fn anything_else_is_garbage_and_ends_the_connection() {
        for garbage in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"S",
            b"\0\0\0",
            b"\0\0\x12\x01",
            b"\0\0\x12\x04\0\0\0\0\x01",
        ] {
            let (greeting, read) = greeting(&[garbage]).await;
            assert_eq!(greeting, Greeting::Garbage(garbage.to_vec()));
            assert!(read.is_err());
        }
    }

    /// Uses a real socket, on which a broken pipe is reported before the received bytes are ready to be read.
    #[tokio::test]
    async fn the_last_words_of_a_peer_that_hung_up_are_heard_by_whoever_writes() {
        for (words, expected) in
            [(&b"220 mail"[..], Greeting::Garbage(b"220 mail".to_vec())), (b"", Greeting::HungUp)]
        {
            let (mut peer, ours) = tokio::net::UnixStream::pair().unwrap();
            peer.write_all(words).await.unwrap();
            drop(peer);
            let (mut ours, told) = Greeted::new(ours);
            assert_eq!(ours.write_all(b"PRI").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
            assert_eq!(told.await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn a_peer_may_hang_up_without_a_word() {
        assert_eq!(greeting(&[]).await.0, Greeting::HungUp);
    }
}
