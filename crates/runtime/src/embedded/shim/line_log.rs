//! Converts a container's output to lines of the CRI log format: `<time> <stream> <F|P> <text>`.
//!
//! A line longer than 16 KiB is split into parts marked `P`; so is an incomplete line at the end of a stream.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::embedded::clock;

/// The longest text of a log line.
const MAX_TEXT: usize = 16 * 1024;

/// One stream of a container, split into lines.
#[derive(Debug)]
pub(super) struct Lines {
    stream: &'static str,
    pending: Vec<u8>,
}

impl Lines {
    pub(super) fn new(stream: &'static str) -> Self {
        Self { stream, pending: Vec::new() }
    }

    /// Takes bytes, and appends complete log lines to `out`.
    pub(super) fn push(&mut self, mut bytes: &[u8], now: i64, out: &mut Vec<u8>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.cut(now, out);
            self.emit(b'F', self.pending.len(), now, out);
        }
        self.pending.extend_from_slice(bytes);
        self.cut(now, out);
    }

    /// Handles the end of the stream: what is left is part of a line that was never completed.
    pub(super) fn finish(&mut self, now: i64, out: &mut Vec<u8>) {
        if !self.pending.is_empty() {
            self.emit(b'P', self.pending.len(), now, out);
        }
    }

    fn cut(&mut self, now: i64, out: &mut Vec<u8>) {
        while self.pending.len() > MAX_TEXT {
            self.emit(b'P', MAX_TEXT, now, out);
        }
    }

    fn emit(&mut self, tag: u8, len: usize, now: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(clock::rfc3339_nanos(now).as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.stream.as_bytes());
        out.extend_from_slice(&[b' ', tag, b' ']);
        out.extend(self.pending.drain(..len));
        out.push(b'\n');
    }
}

/// The log file. Writing never fails for the caller: a full disk must not stop the container.
#[derive(Debug)]
pub(super) struct LogFile {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl LogFile {
    pub(super) fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let file = path.as_deref().map(open).transpose()?;
        Ok(Self { path, file })
    }

    /// Reopens the path, after the file has been moved away. If that fails, the old file stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.file = Some(open(path)?);
        }
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file {
            // There is nobody to report an error to: the log is the only channel that this process has.
            let _ = file.write_all(bytes);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]], finish: bool) -> Vec<(char, usize)> {
        let (mut lines, mut out) = (Lines::new("stdout"), Vec::new());
        for chunk in chunks {
            lines.push(chunk, 0, &mut out);
        }
        if finish {
            lines.finish(0, &mut out);
        }
        let prefix = "1970-01-01T00:00:00.000000000Z stdout ".len();
        out.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| (char::from(line[prefix]), line.len() - prefix - 2))
            .collect()
    }

    #[test]
    fn a_line_has_time_stream_tag_and_text() {
        let (mut lines, mut out) = (Lines::new("stderr"), Vec::new());
        lines.push(b"hello\n\nwor", 1_000_000_001, &mut out);
        lines.push(b"ld\n", 2_000_000_000, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1970-01-01T00:00:01.000000001Z stderr F hello\n\
             1970-01-01T00:00:01.000000001Z stderr F \n\
             1970-01-01T00:00:02.000000000Z stderr F world\n"
        );
    }

    #[test]
    fn long_lines_are_cut_at_16_kib() {
        let long = vec![b'x'; MAX_TEXT];
        assert_eq!(split(&[&long, b"\n"], true), [('F', MAX_TEXT)], "exactly full is still one line");
        assert_eq!(split(&[&long, b"y\n"], true), [('P', MAX_TEXT), ('F', 1)]);
        assert_eq!(
            split(&[&long, &long, &long, b"\n"], true),
            [('P', MAX_TEXT), ('P', MAX_TEXT), ('F', MAX_TEXT)]
        );
    }

    #[test]
    fn an_unfinished_end_is_a_part() {
        assert_eq!(split(&[b"a\nbc"], true), [('F', 1), ('P', 2)]);
        assert_eq!(split(&[b"a\n"], true), [('F', 1)]);
        assert_eq!(split(&[b"abc"], false), []);
    }

    #[test]
    fn a_reopened_log_is_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = LogFile::open(Some(path.clone())).unwrap();
        log.write(b"one\n");
        std::fs::rename(&path, dir.path().join("0.log.old")).unwrap();
        log.write(b"two\n");
        log.reopen().unwrap();
        log.write(b"three\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"three\n");
        assert_eq!(std::fs::read(dir.path().join("0.log.old")).unwrap(), b"one\ntwo\n");
    }
}
