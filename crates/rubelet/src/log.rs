//! Standard error, for messages about the program itself.

use std::fmt::Display;
use std::io::Write as _;

use crate::backlog::Backlog;
use crate::behind::Behind;

/// Prints a message on standard error. A reader that is gone is no reason to end.
pub(crate) fn remark(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Messages of a program that keeps running: when too many wait, the oldest are dropped, and their number is printed as
/// soon as somebody reads again.
pub(crate) type Log = Behind<Backlog>;

impl Log {
    /// Starts a thread that prints to standard error.
    pub(crate) fn start_on_stderr(&self) {
        self.start(|mut lines, _| {
            let text: String = lines.take().map(|line| line + "\n").collect();
            // A reader that is gone is no reason to end.
            let _ = anstream::stderr().lock().write_all(text.as_bytes());
        });
    }
}
