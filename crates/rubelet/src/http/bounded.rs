//! A listener that has so many connections at a time, and lets others wait: each is a file, of which a process can have so
//! many, and whoever may connect could take them all from the agent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Bounded<L> {
    listener: L,
    places: Arc<Semaphore>,
}

impl<L> Bounded<L> {
    pub(super) fn new(listener: L, most: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(most)) }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = self.places.clone().acquire_owned().await.expect("nobody closes it");
        let (io, address) = self.listener.accept().await;
        (Connection { io, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection, and its place for as long as it lives.
pub(super) struct Connection<I> {
    io: I,
    _place: OwnedSemaphorePermit,
}

impl<I: AsyncRead + Unpin> AsyncRead for Connection<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Connection<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::net::{UnixListener, UnixStream};

    use super::*;

    #[tokio::test]
    async fn whoever_comes_when_all_places_are_taken_waits_for_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let mut bounded = Bounded::new(UnixListener::bind(&path).expect("bound"), 2);
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(UnixStream::connect(&path).await.expect("connected"));
        }
        let first = bounded.accept().await;
        let _second = bounded.accept().await;
        assert!(bounded.accept().now_or_never().is_none(), "both places are taken");
        drop(first);
        bounded.accept().await;
    }
}
