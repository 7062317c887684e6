//! Where a recording goes: one file, or a folder of files of which the oldest are removed.
//!
//! A thread of its own writes, so that a slow disk slows nothing but the recording.

use std::collections::VecDeque;
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

/// How large a recording may become, if there is a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// All files together.
    pub(super) folder: u64,
    /// From which size on the next file is begun.
    pub(super) file: u64,
}

/// The end of it that the recorder holds.
#[derive(Debug)]
pub(super) struct Sink {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    pub(super) limits: Option<Limits>,
    path: PathBuf,
}

impl Sink {
    /// Everything into one file, which must not be there yet.
    pub(super) fn file(path: &Path) -> Result<Self, RecordError> {
        let failed = |source| RecordError { path: path.to_owned(), source };
        let current = BufWriter::new(create(path).map_err(failed)?);
        Ok(Self::start(path, None, Files { current, ring: None }))
    }

    /// Into files in a folder, which together are never larger than `size`: the oldest make room for the newest.
    pub(super) fn ring(folder: &Path, size: u64) -> Result<Self, RecordError> {
        let failed = |source| RecordError { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut ring = Ring::open(folder, size).map_err(failed)?;
        let current = ring.next().map_err(failed)?;
        let limits = Limits { folder: size, file: size / FILES };
        Ok(Self::start(folder, Some(limits), Files { current, ring: Some(ring) }))
    }

    fn start(path: &Path, limits: Option<Limits>, files: Files) -> Self {
        let (orders, taken) = sync_channel(WAITING);
        let thread = std::thread::spawn(move || files.write_all(&taken));
        Self { orders: Some(orders), thread: Some(thread), limits, path: path.to_owned() }
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

/// What the thread writes to.
#[derive(Debug)]
struct Files {
    current: BufWriter<File>,
    /// Nothing if there is one file only.
    ring: Option<Ring>,
}

impl Files {
    fn write_all(mut self, orders: &Receiver<Order>) -> io::Result<()> {
        while let Ok(order) = orders.recv() {
            let mut order = Some(order);
            while let Some(now) = order {
                self.carry_out(&now)?;
                order = orders.try_recv().ok();
            }
            // Nothing waits: what happened last is what matters if the machine stops now.
            self.current.flush()?;
        }
        self.current.flush()
    }

    fn carry_out(&mut self, order: &Order) -> io::Result<()> {
        match (order, &mut self.ring) {
            (Order::Write(piece), ring) => {
                if let Some(ring) = ring {
                    ring.make_room(piece.len() as u64)?;
                }
                self.current.write_all(piece)
            }
            (Order::NextFile, Some(ring)) => {
                self.current.flush()?;
                self.current = ring.next()?;
                Ok(())
            }
            (Order::NextFile, None) => Ok(()),
        }
    }
}

/// The files of a folder, of which the last is being written.
#[derive(Debug)]
struct Ring {
    folder: PathBuf,
    limit: u64,
    kept: VecDeque<Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    number: u64,
    size: u64,
}

impl Ring {
    fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        let mut kept = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let number: Option<u64> =
                name.to_str().and_then(|name| name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?.parse().ok());
            if let Some(number) = number {
                kept.push(Kept { number, size: entry.metadata()?.len() });
            }
        }
        kept.sort_unstable();
        Ok(Self { folder: folder.to_owned(), limit, kept: kept.into() })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}{number:08}{}", NAME.0, NAME.1))
    }

    /// The next file, with room made for it.
    fn next(&mut self) -> io::Result<BufWriter<File>> {
        while self.kept.len() as u64 >= FILES {
            self.remove_oldest()?;
        }
        let number = self.kept.back().map_or(0, |last| last.number + 1);
        let file = create(&self.path(number))?;
        self.kept.push_back(Kept { number, size: 0 });
        Ok(BufWriter::new(file))
    }

    /// Removes old files until so much more fits, which then is written to the newest.
    fn make_room(&mut self, length: u64) -> io::Result<()> {
        let size = |kept: &VecDeque<Kept>| kept.iter().map(|kept| kept.size).sum::<u64>();
        while self.kept.len() > 1 && size(&self.kept) + length > self.limit {
            self.remove_oldest()?;
        }
        if let Some(newest) = self.kept.back_mut() {
            newest.size += length;
        }
        Ok(())
    }

    fn remove_oldest(&mut self) -> io::Result<()> {
        let Some(oldest) = self.kept.pop_front() else { return Ok(()) };
        match std::fs::remove_file(self.path(oldest.number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
