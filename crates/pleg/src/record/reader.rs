//! Reads a recording, up to where it is damaged.

use std::io::{self, BufRead, Read as _};

use serde::Deserialize;

use super::entry::{Header, Read, VERSION};
use super::frame::{self, LONGEST_ENTRY};

/// Why a recording cannot be read any further, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file ends in the middle of an entry, or lacks its last entry.
    #[error("the recording is cut off at byte {offset}")]
    CutOff {
        /// Where the file ends, or the entry that is cut off begins.
        offset: u64,
    },
    /// An entry is damaged.
    #[error("the recording is damaged at byte {offset}")]
    Damaged {
        /// Where the entry begins.
        offset: u64,
    },
    /// An entry is undamaged, but of a kind that this version does not know.
    #[error("byte {offset} of the recording was written by a version that this one cannot read: {reason}")]
    Unknown {
        /// Where the entry begins.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is not a recording.
    #[error("this is not a recording, or it is damaged at byte 0: {0}")]
    NotARecording(&'static str),
    /// More data follows the last entry.
    #[error(
        "the recording ends at byte {offset}, but more data follows; if that is another recording, replay each on \
         its own"
    )]
    MoreFollows {
        /// Where the recording ends.
        offset: u64,
    },
    /// The recording has a later version of the format.
    #[error("the recording has format {found}, but this version reads up to {VERSION}: use a newer rubelet")]
    Newer {
        /// The version of its format.
        found: u64,
    },
    /// The file cannot be read.
    #[error("cannot read the recording at byte {offset}: {reason}")]
    Unreadable {
        /// How far it could be read.
        offset: u64,
        /// The error of the system.
        reason: String,
    },
}

/// The longest header. A file may have no line at all, and be larger than all memory.
const LONGEST_HEADER: usize = 1 << 20;

/// The part of a header that every version has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Format {
    rubelet_recording: u64,
}

/// A recording that is being read.
#[derive(Debug)]
pub struct Recording<R> {
    source: R,
    /// Where the next entry begins.
    offset: u64,
    header: Header,
    ended: bool,
}

impl<R: BufRead> Recording<R> {
    /// Opens a recording.
    ///
    /// # Errors
    ///
    /// If it is none, or one that this version cannot read.
    pub fn open(mut source: R) -> Result<Self, Damage> {
        let mut offset = 0;
        let line = match read_line(&mut source, &mut offset, LONGEST_HEADER) {
            Ok(Some(line)) => line,
            Ok(None) => return Err(Damage::NotARecording("it is empty")),
            Err(damage) => return Err(damage.at_start()),
        };
        let none = Damage::NotARecording("it does not begin as one");
        let entry = frame::read(&line).ok_or(none.clone())?;
        let Format { rubelet_recording: found } = serde_json::from_str(entry).map_err(|_| none.clone())?;
        if found > u64::from(VERSION) {
            return Err(Damage::Newer { found });
        }
        let header: Header = serde_json::from_str(entry).map_err(|_| none)?;
        Ok(Self { source, offset, header, ended: false })
    }

    /// The header of the recording.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the next entry, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Read>, Damage> {
        let start = self.offset;
        if self.ended {
            return match self.source.fill_buf() {
                Ok([_, ..]) => Err(Damage::MoreFollows { offset: start }),
                Ok([]) | Err(_) => Ok(None),
            };
        }
        let Some(line) = read_line(&mut self.source, &mut self.offset, LONGEST_ENTRY)? else {
            return Err(Damage::CutOff { offset: start });
        };
        let entry = frame::read(&line).ok_or(Damage::Damaged { offset: start })?;
        let entry = serde_json::from_str(entry)
            .map_err(|error| Damage::Unknown { offset: start, reason: error.to_string() })?;
        self.ended = matches!(entry, Read::End);
        Ok(Some(entry))
    }
}

impl Damage {
    fn at_start(self) -> Self {
        match self {
            Self::CutOff { .. } | Self::Damaged { .. } => Self::NotARecording("it does not begin as one"),
            other => other,
        }
    }
}

/// Returns a line without its line end, or `None` at the end of the file. A line that is too long was never written by
/// a recorder.
fn read_line(source: &mut impl BufRead, offset: &mut u64, longest: usize) -> Result<Option<Vec<u8>>, Damage> {
    let start = *offset;
    let mut line = Vec::new();
    let mut source = source.by_ref().take(longest as u64);
    let read = loop {
        match source.read_until(b'\n', &mut line) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Damage::Unreadable { offset: start, reason: error.to_string() }),
            Ok(read) => break read,
        }
    };
    *offset += read as u64;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        // What follows it was not read.
        Some(_) if line.len() + 1 == longest => Err(Damage::Damaged { offset: start }),
        Some(_) => Err(Damage::CutOff { offset: start }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use rubelet_model::UnixNanos;

    use super::*;

    /// As after a crash of the machine, which may leave holes where data was written last.
    #[test]
    fn an_entry_without_end_is_not_read_to_its_end() {
        let header = Header {
            rubelet_recording: VERSION,
            rules: 1,
            began_at: UnixNanos::default(),
            about: "a test".to_owned(),
        };
        let mut begin = Vec::new();
        frame::write(&mut begin, &header);
        let length = LONGEST_ENTRY as u64;
        for (zeros, damage) in [
            (length - 1, Damage::CutOff { offset: begin.len() as u64 }),
            (length + 1, Damage::Damaged { offset: begin.len() as u64 }),
        ] {
            let source = BufReader::new(begin.chain(io::repeat(0).take(zeros)));
            let mut recording = Recording::open(source).expect("a recording");
            assert_eq!(recording.next().expect_err("there is no entry"), damage);
        }
    }
}
