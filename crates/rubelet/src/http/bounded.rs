//! A listener with a limited number of connections; others wait. Each connection is a file, and a process can have only
//! so many: without a limit, whoever may connect could take them all from the agent. A connection without an answer for
//! a while, because its client asks nothing, asks too slowly, or does not read, is closed: at once, if another one
//! waits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Every answer is ready as soon as it is asked for, so a connection on which no answer makes progress for this long is
/// abandoned.
const SILENCE: Duration = Duration::from_secs(30);

/// A connection without an answer for this long is closed if another one waits.
const TOLERATED: Duration = Duration::from_secs(1);

pub(super) struct Bounded<L: Listener> {
    listener: L,
    places: Arc<Semaphore>,
    guests: Vec<Guest>,
    /// The connection that waits for a place.
    newcomer: Option<(L::Io, L::Addr)>,
}

/// A connection, as the listener sees it.
struct Guest {
    /// When the connection was accepted, or part of an answer was last taken.
    answered: Arc<Mutex<Instant>>,
    /// Asks the connection to close; this channel is closed once it has.
    go: oneshot::Sender<()>,
}

impl<L: Listener> Bounded<L> {
    pub(super) fn new(listener: L, most: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(most)), guests: Vec::new(), newcomer: None }
    }

    /// Waits for a place: a free one, or that of the connection without an answer for the longest time.
    async fn place(&mut self) -> OwnedSemaphorePermit {
        let mut not_before = Instant::now();
        loop {
            self.guests.retain(|guest| !guest.go.is_closed());
            let longest = self.guests.iter().enumerate().min_by_key(|(_, guest)| *guest.answered.lock());
            let longest = longest.map(|(index, guest)| (index, *guest.answered.lock() + TOLERATED));
            let due = longest.map_or(not_before + SILENCE, |(_, due)| due.max(not_before));
            tokio::select! {
                biased;
                place = self.places.clone().acquire_owned() => return place.expect("nobody closes it"),
                () = sleep_until(due) => {}
            }
            // It stays if an answer has made progress in the meantime.
            if let Some((index, due)) = longest
                && *self.guests[index].answered.lock() + TOLERATED == due
            {
                // The connection may have closed by itself.
                let _ = self.guests.swap_remove(index).go.send(());
                // Its place is free in a moment, and one is enough.
                not_before = Instant::now() + TOLERATED;
            }
        }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        if self.newcomer.is_none() {
            self.newcomer = Some(self.listener.accept().await);
        }
        let place = self.place().await;
        let (io, address) = self.newcomer.take().expect("it was not cancelled since");
        let answered = Arc::new(Mutex::new(Instant::now()));
        let (go, told_to_go) = oneshot::channel();
        self.guests.push(Guest { answered: answered.clone(), go });
        let silence = Box::pin(sleep(SILENCE));
        (Connection { io, answered, silence, told_to_go, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection, and its place for as long as it lives.
pub(super) struct Connection<I> {
    io: I,
    answered: Arc<Mutex<Instant>>,
    silence: Pin<Box<Sleep>>,
    told_to_go: oneshot::Receiver<()>,
    _place: OwnedSemaphorePermit,
}

impl<I> Connection<I> {
    /// Takes note of the result of a write. Only answers count: a client that sends one byte a second has not asked
    /// anything yet.
    fn answered(&mut self, done: &Poll<io::Result<usize>>) {
        if matches!(done, Poll::Ready(Ok(_))) {
            let now = Instant::now();
            *self.answered.lock() = now;
            self.silence.as_mut().reset(now + SILENCE);
        }
    }

    /// Passes on the result of a read or write, or an error if the connection's time is over.
    fn bounded<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let is_over = self.silence.as_mut().poll(context).is_ready();
        // The listener, which could ask this connection to close, may itself be gone.
        if is_over || matches!(Pin::new(&mut self.told_to_go).poll(context), Poll::Ready(Ok(()))) {
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
        self.bounded(context, done)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Connection<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(context, bytes);
        self.answered(&done);
        self.bounded(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.answered(&done);
        self.bounded(context, done)
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

    type Served = Connection<UnixStream>;

    /// A listener with this many places, and a client on each.
    async fn full_house(
        places: usize,
    ) -> (tempfile::TempDir, Bounded<UnixListener>, Vec<(UnixStream, Served)>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let mut bounded = Bounded::new(UnixListener::bind(&path).expect("bound"), places);
        let mut connections = Vec::new();
        for _ in 0..places {
            let client = UnixStream::connect(&path).await.expect("connected");
            connections.push((client, bounded.accept().await.0));
        }
        (folder, bounded, connections)
    }

    async fn newcomer(folder: &tempfile::TempDir) -> UnixStream {
        UnixStream::connect(folder.path().join("s")).await.expect("connected")
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_when_all_places_are_taken_waits_for_one() {
        let (folder, mut bounded, mut connections) = full_house(2).await;
        let _third = newcomer(&folder).await;
        assert!(bounded.accept().now_or_never().is_none(), "both places are taken");
        connections.pop();
        let begun = Instant::now();
        bounded.accept().await;
        assert!(begun.elapsed() < TOLERATED, "somebody has gone by himself");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_been_without_an_answer_for_longest_makes_room() {
        let (folder, mut bounded, mut connections) = full_house(2).await;
        sleep(TOLERATED * 3).await;
        let (mut first, mut answered) = connections.remove(0);
        let (mut second, mut silent) = connections.remove(0);
        answered.write_all(b"a").await.expect("written");
        second.write_all(b"never a whole question").await.expect("written");
        let serving = tokio::spawn(async move {
            let mut question = Vec::new();
            silent.read_to_end(&mut question).await.expect_err("it is told to go").kind()
        });
        let _third = newcomer(&folder).await;
        let begun = Instant::now();
        let _newcomer = bounded.accept().await;
        assert!(begun.elapsed() < TOLERATED);
        assert_eq!(serving.await.expect("it has ended"), io::ErrorKind::TimedOut);
        assert_eq!(first.read_u8().await.expect("an answer"), b'a');
        answered.write_all(b"b").await.expect("he who was answered stays");

        // A client that has just been answered stays for the same time as any other.
        let _fourth = newcomer(&folder).await;
        let waiting = tokio::time::timeout(TOLERATED / 2, bounded.accept()).await;
        assert!(waiting.is_err(), "nobody has been without an answer for so long");
    }

    #[tokio::test(start_paused = true)]
    async fn one_place_is_taken_for_one_who_waits() {
        let (folder, mut bounded, connections) = full_house(3).await;
        let mut serving = tokio::task::JoinSet::new();
        for (client, mut connection) in connections {
            serving.spawn(async move {
                let _client = client;
                let _ = connection.read_u8().await;
            });
        }
        sleep(TOLERATED * 2).await;
        let _fourth = newcomer(&folder).await;
        let _newcomer = bounded.accept().await;
        serving.join_next().await.expect("one").expect("it has ended");
        assert!(serving.join_next().now_or_never().is_none(), "the others stay");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_too_slowly_loses_his_place() {
        let (_folder, _bounded, mut connections) = full_house(1).await;
        let (mut client, mut connection) = connections.remove(0);
        let begun = Instant::now();
        let asking = async {
            loop {
                sleep(SILENCE / 6).await;
                client.write_all(b"x").await.expect("written");
            }
        };
        let hearing = async {
            let mut question = Vec::new();
            connection.read_to_end(&mut question).await.expect_err("too slow")
        };
        let error = tokio::select! {
            error = hearing => error,
            () = asking => unreachable!("it does not end"),
        };
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, SILENCE));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_answered_stays() {
        let (_folder, _bounded, mut connections) = full_house(1).await;
        let (mut client, mut connection) = connections.remove(0);
        for _ in 0..3 {
            sleep(SILENCE - Duration::from_secs(1)).await;
            client.write_all(b"x").await.expect("written");
            assert_eq!(connection.read_u8().await.expect("read"), b'x');
            connection.write_all(b"y").await.expect("written");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_his_answers_loses_his_place_too() {
        let (_folder, _bounded, mut connections) = full_house(1).await;
        let (_client, mut connection) = connections.remove(0);
        let begun = Instant::now();
        let answers = vec![0; 64 << 20];
        let error = connection.write_all(&answers).await.expect_err("nobody reads");
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, SILENCE));
    }
}
