//! Prints the lines of a log for people: as whole lines, on the stream that they were written to.

use std::io::{self, Write};

use jiff::Timestamp;

use super::line::{Line, Stream};

/// Parts of a line are joined up to this length. Of a longer line, what has arrived is printed.
const LONGEST: usize = 256 << 10;

/// How lines are printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Style {
    /// Printed before every line.
    pub(crate) prefix: String,
    /// Whether the time of each line is printed.
    pub(crate) timestamps: bool,
    /// Older lines are left out.
    pub(crate) since: Option<Timestamp>,
}

/// The streams that lines are printed to.
pub(crate) struct Streams<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
}

/// A line whose end has not arrived yet.
#[derive(Debug, Default)]
struct Open {
    text: Vec<u8>,
    /// Whether part of it has been printed.
    has_begun: bool,
}

/// Prints the lines of one log.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    style: Style,
    out: Open,
    err: Open,
}

impl Printer {
    pub(crate) fn new(style: Style) -> Self {
        Self { style, ..Self::default() }
    }

    /// Prints a raw line of a log. Anything that is not a log line is skipped.
    pub(crate) fn show(&mut self, raw: &[u8], streams: &mut Streams<'_>) -> io::Result<()> {
        let Some(line) = Line::read(raw) else { return Ok(()) };
        let is_old = |since: &Timestamp| line.time.parse::<Timestamp>().is_ok_and(|time| time < *since);
        if self.style.since.as_ref().is_some_and(is_old) {
            return Ok(());
        }
        let (open, to) = match line.stream {
            Stream::Out => (&mut self.out, &mut *streams.out),
            Stream::Err => (&mut self.err, &mut *streams.err),
        };
        if open.text.is_empty() && !open.has_begun {
            open.text.extend_from_slice(self.style.prefix.as_bytes());
            if self.style.timestamps {
                open.text.extend_from_slice(line.time.as_bytes());
                open.text.push(b' ');
            }
        }
        open.text.extend_from_slice(line.text);
        if !line.is_partial {
            open.text.push(b'\n');
        } else if open.text.len() < LONGEST {
            return Ok(());
        }
        open.has_begun = line.is_partial;
        to.write_all(&std::mem::take(&mut open.text))
    }

    /// Prints the beginnings of unfinished lines, since their ends may take long to arrive and everything written so
    /// far has been read. With a prefix it does nothing: other containers' lines may be printed in between.
    pub(crate) fn catch_up(&mut self, streams: &mut Streams<'_>) -> io::Result<()> {
        if !self.style.prefix.is_empty() {
            return Ok(());
        }
        self.each_open(streams, |open, to| {
            open.has_begun = true;
            to.write_all(&std::mem::take(&mut open.text))
        })
    }

    /// Ends unfinished lines: the instance that wrote them has ended, and the next output is another instance's.
    pub(crate) fn end_lines(&mut self, streams: &mut Streams<'_>) -> io::Result<()> {
        self.each_open(streams, |open, to| {
            let mut text = std::mem::take(open).text;
            text.push(b'\n');
            to.write_all(&text)
        })
    }

    /// Prints unfinished lines at the end of a log, where nothing follows. Among the lines of other containers each
    /// becomes a whole line; alone, it is printed exactly as written.
    pub(crate) fn finish(&mut self, streams: &mut Streams<'_>) -> io::Result<()> {
        if self.style.prefix.is_empty() { self.catch_up(streams) } else { self.end_lines(streams) }
    }

    fn each_open(
        &mut self,
        streams: &mut Streams<'_>,
        show: impl Fn(&mut Open, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        for (open, to) in [(&mut self.out, &mut *streams.out), (&mut self.err, &mut *streams.err)] {
            if open.has_begun || !open.text.is_empty() {
                show(open, to)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(style: Style, lines: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut streams = Streams { out: &mut out, err: &mut err };
        let mut printer = Printer::new(style);
        for line in lines {
            printer.show(line, &mut streams).unwrap();
        }
        printer.finish(&mut streams).unwrap();
        (out, err)
    }

    fn texts(style: &Style, lines: &[&str]) -> (String, String) {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let (out, err) = shown(style.clone(), &lines);
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn lines_in_parts_are_put_together_on_their_own_stream() {
        let lines = [
            "2026-08-01T12:00:00Z stdout P one, ",
            "2026-08-01T12:00:01Z stderr F oh",
            "2026-08-01T12:00:02Z stdout P two, ",
            "2026-08-01T12:00:03Z stdout F three",
            "this is no log",
            "2026-08-01T12:00:04Z stdout P no end",
        ];
        let table = [
            (Style::default(), "one, two, three\nno end", "oh\n"),
            (
                Style { prefix: "[web] ".to_owned(), ..Style::default() },
                "[web] one, two, three\n[web] no end\n",
                "[web] oh\n",
            ),
            (
                Style { timestamps: true, ..Style::default() },
                "2026-08-01T12:00:00Z one, two, three\n2026-08-01T12:00:04Z no end",
                "2026-08-01T12:00:01Z oh\n",
            ),
            (
                Style { since: Some("2026-08-01T12:00:03Z".parse().unwrap()), ..Style::default() },
                "three\nno end",
                "",
            ),
        ];
        for (style, out, err) in &table {
            assert_eq!(texts(style, &lines), ((*out).to_owned(), (*err).to_owned()), "{style:?}");
        }
    }

    #[test]
    fn last_words_are_shown_when_they_are_written_and_are_no_beginning_of_what_another_writes() {
        let plain = Style::default();
        let prefixed = Style { prefix: "[web] ".to_owned(), ..plain.clone() };
        let timed = Style { timestamps: true, ..plain.clone() };
        // First what is printed once everything has been read, then what is printed once another instance has started
        // to write.
        let table = [
            (plain, "fatal: boom", "fatal: boom\nstarting\n"),
            (timed, "12:00 fatal: boom", "12:00 fatal: boom\n12:01 starting\n"),
            // Other containers may print in between.
            (prefixed, "", "[web] fatal: boom\n[web] starting\n"),
        ];
        for (style, at_once, in_the_end) in table {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut printer = Printer::new(style.clone());
            let mut with = |what: &mut dyn FnMut(&mut Printer, &mut Streams<'_>) -> io::Result<()>| {
                what(&mut printer, &mut Streams { out: &mut out, err: &mut err }).unwrap();
                String::from_utf8(out.clone()).unwrap()
            };
            with(&mut |printer, streams| printer.show(b"12:00 stdout P fatal: ", streams));
            with(&mut Printer::catch_up);
            with(&mut |printer, streams| printer.show(b"12:00 stdout P boom", streams));
            for _ in 0..2 {
                assert_eq!(with(&mut Printer::catch_up), at_once, "{style:?}");
            }
            with(&mut Printer::end_lines);
            with(&mut |printer, streams| printer.show(b"12:01 stdout F starting", streams));
            assert_eq!(with(&mut Printer::end_lines), in_the_end, "{style:?}: nothing is left to end");
        }
    }

    #[test]
    fn bytes_are_shown_as_they_are() {
        assert_eq!(shown(Style::default(), &[b"t stdout F \xff\x00\xfe"]).0, b"\xff\x00\xfe\n");
    }

    #[test]
    fn a_line_without_end_is_shown_in_pieces_and_begins_once() {
        let part = [b"t stdout P ".as_slice(), &vec![b'x'; LONGEST / 2]].concat();
        let style = Style { prefix: "> ".to_owned(), ..Style::default() };
        let (out, _) = shown(style, &[&part, &part, &part, b"t stdout F end", b"t stdout F next"]);
        let wanted = format!("> {}end\n> next\n", "x".repeat(LONGEST / 2 * 3));
        assert!(out == wanted.as_bytes(), "{} bytes", out.len());
    }
}
