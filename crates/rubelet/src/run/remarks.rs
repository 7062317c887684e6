//! Where a run prints what is not its output: above the table, or on standard error. Printing never waits for a reader.

use std::io;

use super::table::Screen;
use crate::log::Log;

/// The destination of remarks. Clones print to the same place.
#[derive(Clone, Debug)]
pub(crate) enum Remarks {
    /// A terminal that shows a table.
    Table(Screen),
    Plain(Log),
}

impl Remarks {
    /// Opens the destination, with a table if that is wanted and possible.
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

    /// Prints lines of text.
    pub(crate) fn print(&self, text: &str) {
        match self {
            Self::Table(screen) => screen.print(text),
            Self::Plain(log) => log.print(text),
        }
    }

    /// Returns the screen of the table, if there is one.
    pub(super) fn screen(&self) -> Option<&Screen> {
        match self {
            Self::Table(screen) => Some(screen),
            Self::Plain(_) => None,
        }
    }

    /// Waits, within limits, until everything has been printed.
    pub(crate) fn end(&self) {
        match self {
            Self::Table(screen) => screen.end(),
            Self::Plain(log) => log.end(),
        }
    }
}

/// Prints each piece that is written, which is how log messages get here.
impl io::Write for Remarks {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.print(&String::from_utf8_lossy(piece));
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
