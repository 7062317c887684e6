//! Where a run says what is worth saying beside its output: above the table, or on standard error. Nobody who says something
//! waits for it to be read.

use std::io;

use super::table::Screen;
use crate::log::Log;

/// Clones are the same place.
#[derive(Clone, Debug)]
pub(crate) enum Remarks {
    /// A terminal that has a table.
    Table(Screen),
    Plain(Log),
}

impl Remarks {
    /// With a table if it is wanted and can be had.
    pub(crate) fn open(wants_table: bool) -> Self {
        match wants_table.then(Screen::of_terminal).flatten() {
            Some(screen) => Self::Table(screen),
            None => {
                let log = Log::default();
                log.start_on_stderr();
                Self::Plain(log)
            }
        }
    }

    /// Says something, in lines.
    pub(crate) fn print(&self, text: &str) {
        match self {
            Self::Table(screen) => screen.print(text),
            Self::Plain(log) => log.print(text),
        }
    }

    /// Where the table is, if there is one.
    pub(super) fn screen(&self) -> Option<&Screen> {
        match self {
            Self::Table(screen) => Some(screen),
            Self::Plain(_) => None,
        }
    }

    /// Waits for what was said to be out, but not for ever.
    pub(crate) fn end(&self) {
        match self {
            Self::Table(screen) => screen.end(),
            Self::Plain(log) => log.end(),
        }
    }
}

/// Says each piece that is written to it: what is logged.
impl io::Write for Remarks {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.print(&String::from_utf8_lossy(piece));
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
