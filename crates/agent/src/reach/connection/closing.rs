//! A TLS stream whose peer may close it without notice.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Treats a missing `close_notify` as the end of the stream, as Go does: many servers just close the connection.
/// Whether the answer was complete is known from its length or its last chunk.
pub(super) struct EndsUnannounced<S>(pub(super) S);

impl<S: AsyncRead + Unpin> AsyncRead for EndsUnannounced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf).map(|read| match read {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(()),
            read => read,
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for EndsUnannounced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
