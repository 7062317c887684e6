//! Reads the log of a container as it grows: on through rotations, and from one instance to the next.
//!
//! A file is read to its end before the next one is begun, and it is kept open: that it was renamed changes nothing.
//! Blocks on the disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rubelet_agent::settings::FileId;

use super::files::{instances, parts};

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// Runtimes break lines long before this: what is longer is no log.
const LONGEST_LINE: usize = 1 << 20;

/// One file of a log, open.
pub(crate) struct LogFile {
    file: File,
    /// By which it is known whatever it is called.
    inode: FileId,
    position: u64,
    /// The beginning of a line that has not ended yet.
    rest: Vec<u8>,
}

impl LogFile {
    /// Opens a log, at its beginning or before its last few lines.
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

    /// Gives every whole line up to the end, without its end. Whether anything was there.
    pub(crate) fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        if self.file.metadata()?.len() < self.position {
            // Somebody has emptied it instead of moving it away.
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

    /// Gives the last line, if it has no end: nobody will write it any more.
    pub(crate) fn finish(self, each: &mut dyn FnMut(&[u8])) {
        if !self.rest.is_empty() {
            each(&self.rest);
        }
    }
}

fn inode(metadata: &fs::Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Where the last few lines begin; looks at no more than it must.
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
            // The last line end begins no line. A line without one is still a line.
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

/// What comes after the file that is being read.
enum Next {
    /// Nothing, so far.
    Nothing,
    /// It was rotated: the log goes on here.
    Part(PathBuf),
    /// The container was started again.
    Instance(u32),
}

/// Where a reader is.
struct At {
    /// Which instance of the container.
    number: u32,
    file: LogFile,
    /// Whether another file was found in its place before. A moment later nobody writes to it any more.
    was_replaced: bool,
}

impl At {
    fn next(&self, folder: &Path) -> io::Result<Next> {
        let log = folder.join(format!("{}.log", self.number));
        let is_replaced = match fs::metadata(&log) {
            Ok(metadata) => inode(&metadata) != self.file.inode,
            // It is just being rotated, or was removed with its instance.
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if is_replaced {
            return Ok(Next::Part(self.successor(folder).unwrap_or(log)));
        }
        let later = instances(folder).into_iter().find(|number| *number > self.number);
        Ok(later.map_or(Next::Nothing, Next::Instance))
    }

    /// The part that follows, if the log was rotated more than once. One that is not there any more under any name was
    /// compressed, and so were all before it: what is not compressed comes after it.
    fn successor(&self, folder: &Path) -> Option<PathBuf> {
        let mut parts = parts(folder, self.number);
        let is_this = |part: &PathBuf| fs::metadata(part).is_ok_and(|found| inode(&found) == self.file.inode);
        let after = parts.iter().position(is_this).map_or(0, |place| place + 1);
        (after < parts.len()).then(|| parts.swap_remove(after))
    }
}

/// What a reader of the logs of a container is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told<'a> {
    /// A line, as it is in the log.
    Line(&'a [u8]),
    /// All that this instance wrote was told; what comes is another's.
    EndOfInstance,
}

/// Where to begin with the log of an instance.
#[derive(Clone, Copy)]
enum Begin {
    /// With its oldest part.
    Oldest,
    /// With the file that is written to, or its last few lines.
    Newest { last_lines: Option<usize> },
}

/// Reads the log of a container as it grows.
pub(crate) struct Tail {
    folder: PathBuf,
    /// No older instance is read.
    from: u32,
    begin: Begin,
    at: Option<At>,
}

impl Tail {
    /// The logs of the container whose logs are in `folder`: of the oldest instance that has one, but not of one before
    /// `from`, and of those after it. Of the first file only the last few lines, if so many are named.
    pub(crate) fn new(folder: PathBuf, from: u32, last_lines: Option<usize>) -> Self {
        Self { folder, from, begin: Begin::Newest { last_lines }, at: None }
    }

    /// All logs of the container whose logs are in `folder`, rotated parts included.
    pub(crate) fn of_everything(folder: PathBuf) -> Self {
        Self { folder, from: 0, begin: Begin::Oldest, at: None }
    }

    /// Tells every line that was written since. Whether anything was there.
    pub(crate) fn read(&mut self, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<bool> {
        self.go_on(tell, false)
    }

    /// Tells all that is left, of a container that writes no more.
    pub(crate) fn read_to_end(&mut self, tell: &mut dyn FnMut(Told<'_>)) -> io::Result<()> {
        self.go_on(tell, true)?;
        if let Some(at) = self.at.take() {
            at.file.finish(&mut |line| tell(Told::Line(line)));
        }
        Ok(())
    }

    /// The instance that is being read, if there is one yet, and the file of its log. All before them was read.
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
            // Asked before reading: what was written before that came is then all read.
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
                    // One that is gone was moved on: where to is found out at the next reading.
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
            // Of whatever comes later nothing may be left out.
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
