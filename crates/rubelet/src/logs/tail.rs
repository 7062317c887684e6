//! Reads the log of a container as it grows: through rotations, and from one instance to the next.
//!
//! A file is read to its end before the next one is opened. It is kept open, so renaming it changes nothing. These
//! functions block on the disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rubelet_agent::settings::FileId;

use super::files::{instances, parts};

/// The number of bytes per read.
const CHUNK: usize = 64 << 10;

/// Runtimes split lines long before this length: anything longer is not a log.
const LONGEST_LINE: usize = 1 << 20;

/// An open file of a log.
pub(crate) struct LogFile {
    file: File,
    /// Identifies the file even after it is renamed.
    inode: FileId,
    position: u64,
    /// The beginning of a line whose end has not been read yet.
    rest: Vec<u8>,
}

impl LogFile {
    /// Opens a log at its beginning, or before its last few lines.
    pub(crate) fn open(path: &Path, last_lines: Option<usize>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let inode = inode(&file.metadata()?);
        let position = match last_lines {
            Some(count) => start_of_last_lines(&mut file, count)?,
            None => 0,
        };
        file.seek(SeekFrom::Start(position))?;
        Ok(Self { file, inode, position, rest: Vec::new() })
    }

    /// Passes on every whole line up to the end of the file, without its line end. Returns whether anything was read.
    pub(crate) fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        if self.file.metadata()?.len() < self.position {
            // The file was truncated instead of being moved away.
            (self.position, self.rest) = (self.file.seek(SeekFrom::Start(0))?, Vec::new());
        }
        let mut chunk = vec![0; CHUNK];
        let mut has_read = false;
        loop {
            let read = match self.file.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Ok(has_read);
            }
            has_read = true;
            self.position += read as u64;
            for piece in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(piece);
                if piece.ends_with(b"\n") || self.rest.len() > LONGEST_LINE {
                    each(self.rest.strip_suffix(b"\n").unwrap_or(&self.rest));
                    self.rest.clear();
                }
            }
        }
    }

    /// Passes on the last line if it has no line end: nobody will write any more of it.
    pub(crate) fn finish(self, each: &mut dyn FnMut(&[u8])) {
        if !self.rest.is_empty() {
            each(&self.rest);
        }
    }
}

fn inode(metadata: &fs::Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Finds where the last few lines begin, reading no more than necessary.
fn start_of_last_lines(file: &mut File, count: usize) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    let mut begin = end;
    let mut missing = count;
    let mut chunk = vec![0; CHUNK];
    while begin > 0 {
        let size = begin.min(CHUNK as u64);
        begin -= size;
        file.seek(SeekFrom::Start(begin))?;
        let chunk = &mut chunk[..usize::try_from(size).unwrap_or(CHUNK)];
        file.read_exact(chunk)?;
        for (place, _) in chunk.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = begin + place as u64 + 1;
            // The last line end begins no line. A line without one still counts.
            if after == end {
                continue;
            }
            if missing <= 1 {
                return Ok(if missing == 0 { end } else { after });
            }
            missing -= 1;
        }
    }
    Ok(if count == 0 { end } else { 0 })
}

/// What follows the file that is being read.
enum Next {
    /// Nothing yet.
    Nothing,
    /// The log was rotated, and continues here.
    Part(PathBuf),
    /// The container was restarted.
    Instance(u32),
}

/// A reader's position.
struct At {
    /// The number of the container's instance.
    number: u32,
    file: LogFile,
    /// Whether another file was seen in its place before. After another moment, nobody writes to the old file any more.
    was_replaced: bool,
}

impl At {
    fn next(&self, folder: &Path) -> io::Result<Next> {
        let log = folder.join(format!("{}.log", self.number));
        let is_replaced = match fs::metadata(&log) {
            Ok(metadata) => inode(&metadata) != self.file.inode,
            // It is being rotated at this moment, or was removed with its instance.
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if is_replaced {
            return Ok(Next::Part(self.successor(folder).unwrap_or(log)));
        }
        let later = instances(folder).into_iter().find(|number| *number > self.number);
        Ok(later.map_or(Next::Nothing, Next::Instance))
    }

    /// Returns the part that follows, if the log was rotated more than once. If the current part no longer exists under
    /// any name, it was compressed, and so were all parts before it: the uncompressed ones follow it.
    fn successor(&self, folder: &Path) -> Option<PathBuf> {
        let mut parts = parts(folder, self.number);
        let is_this = |part: &PathBuf| fs::metadata(part).is_ok_and(|found| inode(&found) == self.file.inode);
        let after = parts.iter().position(is_this).map_or(0, |place| place + 1);
        (after < parts.len()).then(|| parts.swap_remove(after))
    }
}

/// What a log's reader passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told<'a> {
    /// A raw line of the log.
    Line(&'a [u8]),
    /// Everything that this instance wrote has been passed on; what follows is another instance's.
    EndOfInstance,
}

/// Where to begin in the log of an instance.
#[derive(Clone, Copy)]
enum Begin {
    /// At its oldest part.
    Oldest,
    /// At the current file, or at its last few lines.
    Newest { last_lines: Option<usize> },
}

/// Reads the log of a container as it grows.
pub(crate) struct Tail {
    folder: PathBuf,
    /// Older instances are not read.
    from: u32,
    begin: Begin,
    at: Option<At>,
}

impl Tail {
    /// Reads the logs in the folder of a container: those of the oldest instance that has one, though of none before
    /// `from`, and of all later ones. If `last_lines` is set, the first file is read from there.
    pub(crate) fn new(folder: PathBuf, from: u32, last_lines: Option<usize>) -> Self {
        Self { folder, from, begin: Begin::Newest { last_lines }, at: None }
    }

    /// Reads all logs in the folder of a container, including rotated parts.
    pub(crate) fn of_everything(folder: PathBuf) -> Self {
        Self { folder, from: 0, begin: Begin::Oldest, at: None }
    }

    /// Passes on every line written since the last call. Returns whether there was anything.
    pub(crate) fn read(&mut self, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<bool> {
        self.go_on(tell, false)
    }

    /// Passes on everything that remains, for a container that writes no more.
    pub(crate) fn read_to_end(&mut self, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        self.go_on(tell, true)?;
        if let Some(at) = self.at.take() {
            at.file.finish(&mut |line| tell(Told::Line(line)));
        }
        Ok(())
    }

    /// Returns the instance that is being read, if there is one yet, and the file of its log. Everything before that
    /// file has been read.
    pub(crate) fn reading(&self) -> Option<(u32, FileId)> {
        self.at.as_ref().map(|at| (at.number, at.file.inode))
    }

    fn go_on(&mut self, tell: &mut dyn FnMut(Told<'_>), is_over: bool) -> io::Result<bool> {
        let mut has_read = false;
        loop {
            if self.at.is_none() {
                self.at = self.first()?;
            }
            let Some(at) = &mut self.at else { return Ok(has_read) };
            // This is checked before reading, so that everything written before the next file appeared is read.
            let next = at.next(&self.folder)?;
            let each = &mut |line: &[u8]| tell(Told::Line(line));
            has_read |= at.file.read(each)?;
            match next {
                Next::Nothing => return Ok(has_read),
                Next::Part(_) if !at.was_replaced && !is_over => {
                    at.was_replaced = true;
                    return Ok(has_read);
                }
                Next::Part(path) => {
                    // A file that is gone has been renamed again; the next call finds it.
                    let Some(file) = open_if_there(&path, None)? else { return Ok(has_read) };
                    std::mem::replace(&mut at.file, file).finish(each);
                    at.was_replaced = false;
                }
                Next::Instance(number) => {
                    self.from = number;
                    if let Some(at) = self.at.take() {
                        at.file.finish(&mut |line| tell(Told::Line(line)));
                        tell(Told::EndOfInstance);
                    }
                }
            }
        }
    }

    fn first(&mut self) -> io::Result<Option<At>> {
        let Some(number) = instances(&self.folder).into_iter().find(|number| *number >= self.from) else {
            return Ok(None);
        };
        let log = || self.folder.join(format!("{number}.log"));
        let file = match self.begin {
            Begin::Oldest => {
                let oldest = parts(&self.folder, number).into_iter().next().unwrap_or_else(log);
                open_if_there(&oldest, None)?
            }
            Begin::Newest { last_lines } => open_if_there(&log(), last_lines)?,
        };
        if file.is_some() {
            // From now on, nothing may be skipped.
            self.begin = Begin::Oldest;
        }
        Ok(file.map(|file| At { number, file, was_replaced: false }))
    }
}

fn open_if_there(path: &Path, last_lines: Option<usize>) -> io::Result<Option<LogFile>> {
    match LogFile::open(path, last_lines) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

#[cfg(test)]
mod tests;
