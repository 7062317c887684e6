//! One line of a log.

/// Where a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// One line of a log, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// When it was written, as the runtime put it.
    pub(crate) time: &'a str,
    pub(crate) stream: Stream,
    /// Whether the line goes on in the next one.
    pub(crate) is_partial: bool,
    pub(crate) text: &'a str,
}

impl<'a> Line<'a> {
    /// Reads a line; `None` if it is none of a log.
    pub(crate) fn read(raw: &'a str) -> Option<Self> {
        let mut parts = raw.splitn(4, ' ');
        let (time, stream, tags) = (parts.next()?, parts.next()?, parts.next()?);
        let stream = match stream {
            "stdout" => Stream::Out,
            "stderr" => Stream::Err,
            _ => return None,
        };
        let is_partial = match tags.split(':').next()? {
            "P" => true,
            "F" => false,
            _ => return None,
        };
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
        let table = [
            (format!("{time} stdout F hello world"), line(Stream::Out, false, "hello world")),
            (format!("{time} stderr P:x half"), line(Stream::Err, true, "half")),
            (format!("{time} stdout F "), line(Stream::Out, false, "")),
            (format!("{time} stdout F"), line(Stream::Out, false, "")),
            ("not a log".to_owned(), None),
            (String::new(), None),
        ];
        for (raw, wanted) in &table {
            assert_eq!(Line::read(raw), *wanted, "{raw:?}");
        }
    }
}
