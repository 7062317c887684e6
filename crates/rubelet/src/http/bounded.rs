//! A listener that has so many connections at a time, and lets others wait: each is a file, of which a process can have so
//! many, and whoever may connect could take them all from the agent. Whoever says nothing for a while loses his place.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Every answer is at hand when it is asked for, so a connection on which nothing moves for so long is nobody's.
const SILENCE: Duration = Duration::from_secs(30);

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
        (Connection { io, silence: Box::pin(sleep(SILENCE)), _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection, and its place for as long as it lives.
pub(super) struct Connection<I> {
    io: I,
    silence: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl<I> Connection<I> {
    /// What came of a read or a write. Whoever does not read his answers is as silent as one who asks nothing.
    fn heard<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.silence.as_mut().reset(Instant::now() + SILENCE);
        } else if self.silence.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        done
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Connection<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.io).poll_read(context, buffer);
        self.heard(context, done)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Connection<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(context, bytes);
        self.heard(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.heard(context, done)
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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

    #[tokio::test(start_paused = true)]
    async fn whoever_says_nothing_for_a_while_loses_his_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let mut bounded = Bounded::new(UnixListener::bind(&path).expect("bound"), 1);
        let mut client = UnixStream::connect(&path).await.expect("connected");
        let (mut connection, _) = bounded.accept().await;
        let begun = Instant::now();
        sleep(SILENCE / 2).await;
        client.write_all(b"x").await.expect("written");
        assert_eq!(connection.read_u8().await.expect("read"), b'x');
        let error = connection.read_u8().await.expect_err("silence");
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, SILENCE / 2 + SILENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_his_answers_loses_his_place_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let mut bounded = Bounded::new(UnixListener::bind(&path).expect("bound"), 1);
        let _client = UnixStream::connect(&path).await.expect("connected");
        let (mut connection, _) = bounded.accept().await;
        let begun = Instant::now();
        let answers = vec![0; 64 << 20];
        let error = connection.write_all(&answers).await.expect_err("nobody reads");
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, SILENCE));
    }
}
