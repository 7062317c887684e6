//! One line of a log.

/// The stream that a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// A line of a log, or part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// When it was written, in the runtime's format.
    pub(crate) time: &'a str,
    pub(crate) stream: Stream,
    /// Whether the line continues in the next one.
    pub(crate) is_partial: bool,
    /// What the container wrote, which need not be valid text.
    pub(crate) text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Parses a line; `None` if it is not a log line.
    pub(crate) fn read(raw: &'a [u8]) -> Option<Self> {
        let mut parts = raw.splitn(4, |byte| *byte == b' ');
        let (time, stream, tags) = (parts.next()?, parts.next()?, parts.next()?);
        let stream = match stream {
            b"stdout" => Stream::Out,
            b"stderr" => Stream::Err,
            _ => return None,
        };
        let is_partial = match tags.split(|byte| *byte == b':').next()? {
            b"P" => true,
            b"F" => false,
            _ => return None,
        };
        let time = std::str::from_utf8(time).ok()?;
        Some(Self { time, stream, is_partial, text: parts.next().unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_and_in_part() {
        let time = "2026-08-01T12:00:00.000000001Z";
        let line = |stream, is_partial, text| Some(Line { time, stream, is_partial, text });
        let raw = |rest: &[u8]| [time.as_bytes(), b" ", rest].concat();
        let table: [(Vec<u8>, Option<Line<'_>>); 7] = [
            (raw(b"stdout F hello world"), line(Stream::Out, false, b"hello world")),
            (raw(b"stderr P:x half"), line(Stream::Err, true, b"half")),
            (raw(b"stdout F \xff\xfe"), line(Stream::Out, false, b"\xff\xfe")),
            (raw(b"stdout F "), line(Stream::Out, false, b"")),
            (raw(b"stdout F"), line(Stream::Out, false, b"")),
            (b"not a log".to_vec(), None),
            (Vec::new(), None),
        ];
        for (raw, wanted) in &table {
            assert_eq!(Line::read(raw), *wanted, "{raw:?}");
        }
    }
}
