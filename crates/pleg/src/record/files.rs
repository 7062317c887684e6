//! The files that a recording is written to.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::sink::Order;

/// The names of the files in a folder, before and after their number.
const NAME: (&str, &str) = ("pleg-", ".recording");
/// How many files a folder has at most, even if it is not full: each start of a program begins one.
const MOST: usize = 1_000;

/// A destination of a recording.
pub(super) trait Output: Send + 'static {
    fn carry_out(&mut self, order: &Order) -> io::Result<()>;

    /// Makes sure that nothing written is still buffered.
    fn flush(&mut self) -> io::Result<()>;

    /// Frees space for the next attempt, after an order could not be carried out.
    fn make_room(&mut self) {}
}

/// One file, or a folder of files.
#[derive(Debug)]
pub(super) struct Files {
    current: BufWriter<File>,
    /// `None` for a single file.
    ring: Option<Ring>,
}

impl Files {
    /// How many files a full folder is divided into; the newest is being written.
    pub(super) const IN_A_RING: u64 = 4;

    pub(super) fn one(path: &Path) -> io::Result<Self> {
        Ok(Self { current: BufWriter::new(create(path)?), ring: None })
    }

    pub(super) fn ring(folder: &Path, size: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut ring = Ring::open(folder, size)?;
        Ok(Self { current: ring.next()?, ring: Some(ring) })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if let Some(ring) = &mut self.ring {
            ring.make_room(piece.len() as u64)?;
        }
        self.current.write_all(piece)
    }
}

impl Output for Files {
    fn carry_out(&mut self, order: &Order) -> io::Result<()> {
        match order {
            Order::Write(piece) => self.write(piece),
            Order::NextFile { last, first } => {
                self.write(last)?;
                self.current.flush()?;
                if let Some(ring) = &mut self.ring {
                    self.current = ring.next()?;
                }
                self.write(first)
            }
            Order::Anew(first) => match &mut self.ring {
                Some(ring) => {
                    self.current = ring.next_with(first)?;
                    Ok(())
                }
                None => Ok(()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current.flush()
    }

    /// Removes the oldest file, as when the folder is full, since what happened last is worth most. The file that is
    /// being written ends where it was cut off, and is removed in its turn.
    fn make_room(&mut self) {
        if let Some(ring) = self.ring.as_mut().filter(|ring| ring.kept.len() > 1)
            && let Err(error) = ring.remove_oldest()
        {
            tracing::warn!("cannot remove the oldest recording in {}: {error}", ring.folder.display());
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
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

    fn next(&mut self) -> io::Result<BufWriter<File>> {
        while self.kept.len() >= MOST {
            self.remove_oldest()?;
        }
        let number = self.kept.back().map_or(0, |last| last.number + 1);
        let file = create(&self.path(number))?;
        self.kept.push_back(Kept { number, size: 0 });
        Ok(BufWriter::new(file))
    }

    /// Begins the next file with `first`. If that cannot be written, nothing is left of the file.
    fn next_with(&mut self, first: &[u8]) -> io::Result<BufWriter<File>> {
        let mut file = self.next()?;
        let written = self
            .make_room(first.len() as u64)
            .and_then(|()| file.write_all(first))
            .and_then(|()| file.flush());
        match written {
            Ok(()) => Ok(file),
            Err(error) => {
                if let Some(newest) = self.kept.pop_back() {
                    let _ = std::fs::remove_file(self.path(newest.number));
                }
                Err(error)
            }
        }
    }

    /// Removes old files until `length` more bytes fit, and counts these towards the newest file.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(folder: &Path) -> Vec<u64> {
        let mut files: Vec<PathBuf> =
            folder.read_dir().expect("a folder").map(|file| file.expect("a file").path()).collect();
        files.sort();
        files.iter().map(|file| file.metadata().expect("it is there").len()).collect()
    }

    /// Recordings are removed only for their size, however often a program is started.
    #[test]
    fn many_starts_wipe_nothing_that_fits() {
        let folder = tempfile::tempdir().expect("a folder");
        for start in 1..=9_u64 {
            let mut files = Files::ring(folder.path(), 1_000).expect("a folder");
            files.carry_out(&Order::Write(vec![b'x'; 200])).expect("written");
            files.flush().expect("written");
            assert_eq!(sizes(folder.path()), vec![200; start.min(5) as usize]);
        }
    }

    #[test]
    fn who_cannot_write_gives_up_the_oldest_once_and_nothing_is_left_of_a_try_that_failed() {
        let folder = tempfile::tempdir().expect("a folder");
        for _ in 0..3 {
            let mut files = Files::ring(folder.path(), 1_000).expect("a folder");
            files.carry_out(&Order::Write(vec![b'x'; 200])).expect("written");
        }
        let mut files = Files::ring(folder.path(), 1_000).expect("a folder");
        files.make_room();
        assert_eq!(sizes(folder.path()), [200, 200, 0]);
        files.carry_out(&Order::Anew(b"header and state".to_vec())).expect("written");
        assert_eq!(sizes(folder.path()), [200, 200, 0, 16]);
        let mut ring = Ring::open(folder.path(), 1_000).expect("a folder");
        let taken = folder.path().join("pleg-00000005.recording");
        std::os::unix::fs::symlink("/dev/full", &taken).expect("made");
        assert!(ring.next_with(b"x").is_err(), "nothing is written over, and nobody follows a link");
        assert_eq!(ring.kept.len(), 4);
    }

    #[test]
    fn a_file_ends_and_the_next_begins_in_one_step() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::ring(folder.path(), 1_000).expect("a folder");
        files.carry_out(&Order::Write(b"first".to_vec())).expect("written");
        let order = Order::NextFile { last: b" end".to_vec(), first: b"header".to_vec() };
        files.carry_out(&order).expect("written");
        files.flush().expect("written");
        let read = |number: u64| {
            std::fs::read_to_string(folder.path().join(format!("pleg-{number:08}.recording"))).expect("read")
        };
        assert_eq!((read(0).as_str(), read(1).as_str()), ("first end", "header"));
    }
}
