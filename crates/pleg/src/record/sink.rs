//! Where a recording goes: one file, or a folder of files of which the oldest are removed.
//!
//! A thread of its own writes, so that a slow disk slows nothing but the recording.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// How many pieces may wait to be written.
const WAITING: usize = 256;
/// What the files of a folder are called, before and after their number.
const NAME: (&str, &str) = ("pleg-", ".recording");
/// A folder holds so many files, of which the newest is being written.
const FILES: u64 = 4;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct RecordError {
    /// Which file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: io::Error,
}

/// What the thread is asked to do.
#[derive(Debug)]
enum Order {
    Write(Vec<u8>),
    /// What follows goes into a file of its own.
    NextFile,
}

/// The end of it that the recorder holds.
#[derive(Debug)]
pub(super) struct Sink {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// How large a file may become, if there are several.
    pub(super) file_size: Option<u64>,
    path: PathBuf,
}

impl Sink {
    /// Everything into one file, which must not be there yet.
    pub(super) fn file(path: &Path) -> Result<Self, RecordError> {
        let failed = |source| RecordError { path: path.to_owned(), source };
        let file = create(path).map_err(failed)?;
        Ok(Self::start(path, None, move |orders| {
            write_all(BufWriter::new(file), orders, |_| unreachable!("one file"))
        }))
    }

    /// Into files in a folder, which together are about as large as `size`: each is ended by the first entry that is too
    /// much for it.
    pub(super) fn ring(folder: &Path, size: u64) -> Result<Self, RecordError> {
        let failed = |source| RecordError { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut ring = Ring::open(folder).map_err(failed)?;
        let first = ring.next().map_err(failed)?;
        Ok(Self::start(folder, Some(size / FILES), move |orders| write_all(first, orders, |_| ring.next())))
    }

    fn start(
        path: &Path,
        file_size: Option<u64>,
        run: impl FnOnce(&Receiver<Order>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let (orders, taken) = sync_channel(WAITING);
        let thread = std::thread::spawn(move || run(&taken));
        Self { orders: Some(orders), thread: Some(thread), file_size, path: path.to_owned() }
    }

    /// Has something written; false if too much waits already, or nothing can be written any more.
    pub(super) fn write(&self, piece: Vec<u8>) -> bool {
        self.order(Order::Write(piece))
    }

    /// Goes on in the next file.
    pub(super) fn next_file(&self) -> bool {
        self.order(Order::NextFile)
    }

    fn order(&self, order: Order) -> bool {
        let sent = self.orders.as_ref().map(|orders| orders.try_send(order));
        !matches!(sent, None | Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))))
    }

    /// Writes the last piece, however long it takes, and says whether all could be written.
    pub(super) fn finish(&mut self, last: Vec<u8>) -> Result<(), RecordError> {
        if let Some(orders) = self.orders.take() {
            // If the thread has ended, it says why.
            let _ = orders.send(Order::Write(last));
        }
        let written = self.thread.take().map_or(Ok(()), |thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")))
        });
        written.map_err(|source| RecordError { path: self.path.clone(), source })
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn write_all(
    mut file: BufWriter<File>,
    orders: &Receiver<Order>,
    mut next: impl FnMut(()) -> io::Result<BufWriter<File>>,
) -> io::Result<()> {
    while let Ok(order) = orders.recv() {
        let mut order = Some(order);
        while let Some(now) = order {
            match now {
                Order::Write(piece) => file.write_all(&piece)?,
                Order::NextFile => {
                    file.flush()?;
                    file = next(())?;
                }
            }
            order = orders.try_recv().ok();
        }
        // Nothing waits: what happened last is what matters if the machine stops now.
        file.flush()?;
    }
    file.flush()
}

/// The files of a folder.
#[derive(Debug)]
struct Ring {
    folder: PathBuf,
    numbers: Vec<u64>,
}

impl Ring {
    fn open(folder: &Path) -> io::Result<Self> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number: Option<u64> =
                name.to_str().and_then(|name| name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(Self { folder: folder.to_owned(), numbers })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}{number:08}{}", NAME.0, NAME.1))
    }

    /// The next file, with room made for it.
    fn next(&mut self) -> io::Result<BufWriter<File>> {
        while self.numbers.len() as u64 >= FILES {
            let oldest = self.numbers.remove(0);
            match std::fs::remove_file(self.path(oldest)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let number = self.numbers.last().map_or(0, |last| last + 1);
        let file = create(&self.path(number))?;
        self.numbers.push(number);
        Ok(BufWriter::new(file))
    }
}
