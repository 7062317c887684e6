//! Where a recording goes: one file, or a folder of files of which the oldest are removed.
//!
//! A thread of its own writes, so that a slow disk slows nothing but the recording. What waits for it is bounded, by
//! number and by bytes. When it cannot write any more it says so once. One file ends with that; a folder goes on with another
//! file, as soon as one can be written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::files::{Files, Output};

/// How many pieces may wait to be written.
const WAITING: usize = 256;
/// How many bytes may wait before no more is taken. A single piece may be larger.
const WAITING_BYTES: usize = 16 << 20;

/// Why there is no recording.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct RecordError {
    /// Which file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: Arc<io::Error>,
}

impl RecordError {
    fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source: Arc::new(source) }
    }
}

/// What the thread is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    Write(Vec<u8>),
    /// Ends the file with this, and begins the next one with that. In one order, so that no file lacks its header.
    NextFile {
        last: Vec<u8>,
        first: Vec<u8>,
    },
    /// Begins a file after one that could not be written, with all that is needed to play it.
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

/// How large a recording may become, if there is a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// All files together.
    pub(super) folder: u64,
    /// From which size on the next file is begun.
    pub(super) file: u64,
}

/// What waits for the thread.
#[derive(Debug, Default)]
struct Waiting {
    orders: AtomicUsize,
    bytes: AtomicUsize,
}

/// The end of it that the recorder holds.
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
    /// Everything into one file, which must not be there yet.
    pub(super) fn file(path: &Path) -> Result<Self, RecordError> {
        let files = Files::one(path).map_err(|source| RecordError::new(path, source))?;
        Ok(Self::start(path, None, files))
    }

    /// Into files in a folder, which together are never larger than `size`: the oldest make room for the newest.
    pub(super) fn ring(folder: &Path, size: u64) -> Result<Self, RecordError> {
        let files = Files::ring(folder, size).map_err(|source| RecordError::new(folder, source))?;
        let limits = Limits { folder: size, file: size / Files::IN_A_RING };
        Ok(Self::start(folder, Some(limits), files))
    }

    /// Into anything. `path` is what errors name.
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

    /// Why nothing can be written, as long as that is so.
    pub(super) fn trouble(&self) -> watch::Receiver<Option<RecordError>> {
        self.trouble.clone()
    }

    /// The file, or the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing can be written any more.
    pub(super) fn has_failed(&self) -> bool {
        // The thread tells why before it lets go.
        (self.limits.is_none() && self.trouble.borrow().is_some()) || self.trouble.has_changed().is_err()
    }

    /// Whether what is given to it is lost, until [`Order::Anew`] can be carried out.
    pub(super) fn is_broken(&self) -> bool {
        self.trouble.borrow().is_some()
    }

    /// Whether something more may be given to it.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.orders.load(Ordering::Relaxed) < WAITING
            && self.waiting.bytes.load(Ordering::Relaxed) < WAITING_BYTES
    }

    /// Whether it has done all that it was given, and [said](Self::is_broken) what became of it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.orders.load(Ordering::Acquire) == 0
    }

    /// Has something written; false if too much waits already, or nothing can be written any more.
    pub(super) fn order(&self, order: Order) -> bool {
        let Some(orders) = &self.orders else { return false };
        let bytes = order.bytes();
        // Counted first: the thread may have taken it before we go on.
        self.waiting.orders.fetch_add(1, Ordering::Relaxed);
        self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_taken = orders.try_send(order).is_ok();
        if !is_taken {
            self.waiting.done(bytes);
        }
        is_taken
    }

    /// Writes the last piece, however long it takes, and says whether all could be written.
    pub(super) fn finish(&mut self, last: Vec<u8>) -> Result<(), RecordError> {
        if let Some(orders) = self.orders.take() {
            self.waiting.orders.fetch_add(1, Ordering::Relaxed);
            self.waiting.bytes.fetch_add(last.len(), Ordering::Relaxed);
            // If the thread has ended, it has said why.
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

/// What the thread has.
struct Writer<O> {
    output: O,
    path: PathBuf,
    waiting: Arc<Waiting>,
    /// Why nothing can be written, as long as that is so.
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
        // Nothing waits: what happened last is what matters if the machine stops now.
        if self.trouble.borrow().is_none() {
            let flushed = self.output.flush();
            self.note(flushed)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, order: &Order) -> io::Result<()> {
        let is_broken = self.trouble.borrow().is_some();
        match order {
            // It belongs into a file that cannot be written.
            Order::Write(_) | Order::NextFile { .. } if is_broken => Ok(()),
            Order::Write(_) | Order::NextFile { .. } => self.output.carry_out(order),
            Order::Anew(_) => {
                self.output.carry_out(order)?;
                tracing::info!("the recording in {} goes on", self.path.display());
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
            tracing::error!("the recording has ended, and nothing more is recorded: {error}");
            return Err(Ended);
        }
        if before.is_none() {
            tracing::warn!("nothing is recorded, which is tried again every minute: {error}");
            self.output.make_room();
        }
        Ok(())
    }
}
