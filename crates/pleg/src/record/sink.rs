//! The destination of a recording: one file, or a folder of files of which the oldest are removed.
//!
//! A separate thread writes, so that a slow disk slows down nothing but the recording. What waits for it is bounded,
//! both in number and in bytes. When it cannot write any more, it reports that once. A recording into one file then
//! ends; one into a folder continues with another file as soon as one can be written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::files::{Files, Output};

/// How many orders may wait to be carried out.
const WAITING: usize = 256;
/// How many bytes may wait before no more are taken. A single order may be larger.
const WAITING_BYTES: usize = 16 << 20;

/// Why there is no recording.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct RecordError {
    /// The file or folder.
    pub path: PathBuf,
    /// The error of the system.
    pub source: Arc<io::Error>,
}

impl RecordError {
    fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source: Arc::new(source) }
    }
}

/// An order to the writing thread.
#[derive(Debug)]
pub(super) enum Order {
    Write(Vec<u8>),
    /// Ends the file with `last`, and begins the next one with `first`. This is a single order, so that no file lacks
    /// its header.
    NextFile {
        last: Vec<u8>,
        first: Vec<u8>,
    },
    /// Begins a new file after one that could not be written, with everything that is needed to play it.
    Anew(Vec<u8>),
}

impl Order {
    fn bytes(&self) -> usize {
        match self {
            Self::Write(piece) | Self::Anew(piece) => piece.len(),
            Self::NextFile { last, first } => last.len() + first.len(),
        }
    }
}

/// The size limits of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The largest size of all files together.
    pub(super) folder: u64,
    /// The size from which on the next file is begun.
    pub(super) file: u64,
}

/// What is waiting for the thread.
#[derive(Debug, Default)]
struct Waiting {
    orders: AtomicUsize,
    bytes: AtomicUsize,
}

/// The end that the recorder holds.
#[derive(Debug)]
pub(super) struct Sink {
    orders: Option<SyncSender<Order>>,
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
    trouble: watch::Receiver<Option<RecordError>>,
    path: PathBuf,
    pub(super) limits: Option<Limits>,
}

impl Sink {
    /// Writes everything into one file, which must not exist yet.
    pub(super) fn file(path: &Path) -> Result<Self, RecordError> {
        let files = Files::one(path).map_err(|source| RecordError::new(path, source))?;
        Ok(Self::start(path, None, files))
    }

    /// Writes into files in a folder, which are never larger than `size` together: the oldest make room for the newest.
    pub(super) fn ring(folder: &Path, size: u64) -> Result<Self, RecordError> {
        let files = Files::ring(folder, size).map_err(|source| RecordError::new(folder, source))?;
        let limits = Limits { folder: size, file: size / Files::IN_A_RING };
        Ok(Self::start(folder, Some(limits), files))
    }

    /// Writes to any output. `path` is what errors name.
    pub(super) fn start(path: &Path, limits: Option<Limits>, output: impl Output) -> Self {
        let (orders, taken) = sync_channel(WAITING);
        let (failed, trouble) = watch::channel(None);
        let waiting = Arc::<Waiting>::default();
        let thread = std::thread::spawn({
            let (path, waiting) = (path.to_owned(), waiting.clone());
            let writer = Writer { output, path, waiting, trouble: failed, is_ring: limits.is_some() };
            move || writer.write_all(&taken)
        });
        let path = path.to_owned();
        Self { orders: Some(orders), waiting, thread: Some(thread), trouble, path, limits }
    }

    /// Watches why nothing can be written, for as long as that is so.
    pub(super) fn trouble(&self) -> watch::Receiver<Option<RecordError>> {
        self.trouble.clone()
    }

    /// The path of the file or folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing will be written any more.
    pub(super) fn has_failed(&self) -> bool {
        // The thread reports why before it closes the channel.
        (self.limits.is_none() && self.trouble.borrow().is_some()) || self.trouble.has_changed().is_err()
    }

    /// Whether orders are lost until an [`Order::Anew`] can be carried out.
    pub(super) fn is_broken(&self) -> bool {
        self.trouble.borrow().is_some()
    }

    /// Whether another order may be given.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.orders.load(Ordering::Relaxed) < WAITING
            && self.waiting.bytes.load(Ordering::Relaxed) < WAITING_BYTES
    }

    /// Whether all orders have been carried out, and their outcome is [known](Self::is_broken).
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.orders.load(Ordering::Acquire) == 0
    }

    /// Gives an order. Returns false if too much is waiting already, or nothing can be written any more.
    pub(super) fn order(&self, order: Order) -> bool {
        let Some(orders) = &self.orders else { return false };
        let bytes = order.bytes();
        // Counted first, since the thread may be done with it before this continues.
        self.waiting.orders.fetch_add(1, Ordering::Relaxed);
        self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_taken = orders.try_send(order).is_ok();
        if !is_taken {
            self.waiting.done(bytes);
        }
        is_taken
    }

    /// Writes the last piece, however long that takes, and returns whether everything could be written.
    pub(super) fn finish(&mut self, last: Vec<u8>) -> Result<(), RecordError> {
        if let Some(orders) = self.orders.take() {
            self.waiting.orders.fetch_add(1, Ordering::Relaxed);
            self.waiting.bytes.fetch_add(last.len(), Ordering::Relaxed);
            // If the thread has ended, it has reported why.
            let _ = orders.send(Order::Write(last));
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            return Err(RecordError::new(&self.path, io::Error::other("the writing thread panicked")));
        }
        self.trouble.borrow().clone().map_or(Ok(()), Err)
    }
}

impl Waiting {
    fn done(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.orders.fetch_sub(1, Ordering::Release);
    }
}

/// The state of the thread.
struct Writer<O> {
    output: O,
    path: PathBuf,
    waiting: Arc<Waiting>,
    /// Why nothing can be written, for as long as that is so.
    trouble: watch::Sender<Option<RecordError>>,
    is_ring: bool,
}

/// The thread has nothing more to do.
struct Ended;

impl<O: Output> Writer<O> {
    fn write_all(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            if self.write_what_waits(order, orders).is_err() {
                return;
            }
        }
    }

    fn write_what_waits(&mut self, first: Order, orders: &Receiver<Order>) -> Result<(), Ended> {
        let mut order = Some(first);
        while let Some(now) = order {
            let written = self.carry_out(&now);
            let noted = self.note(written);
            self.waiting.done(now.bytes());
            noted?;
            order = orders.try_recv().ok();
        }
        // Nothing is waiting. If the machine stops now, what happened last is what matters.
        if self.trouble.borrow().is_none() {
            let flushed = self.output.flush();
            self.note(flushed)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, order: &Order) -> io::Result<()> {
        let is_broken = self.trouble.borrow().is_some();
        match order {
            // It belongs to a file that cannot be written.
            Order::Write(_) | Order::NextFile { .. } if is_broken => Ok(()),
            Order::Write(_) | Order::NextFile { .. } => self.output.carry_out(order),
            Order::Anew(_) => {
                self.output.carry_out(order)?;
                tracing::info!("the recording in {} continues", self.path.display());
                self.trouble.send_replace(None);
                Ok(())
            }
        }
    }

    fn note(&mut self, written: io::Result<()>) -> Result<(), Ended> {
        let Err(source) = written else { return Ok(()) };
        let error = RecordError::new(&self.path, source);
        let before = self.trouble.send_replace(Some(error.clone()));
        if !self.is_ring {
            tracing::error!("the recording has stopped: {error}");
            return Err(Ended);
        }
        if before.is_none() {
            tracing::warn!("cannot record, trying again every minute: {error}");
            self.output.make_room();
        }
        Ok(())
    }
}
