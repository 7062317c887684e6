//! Standard error, for what a program says of itself.

use std::fmt::Display;
use std::io::Write as _;

use crate::backlog::Backlog;
use crate::behind::Behind;

/// Says something on standard error. Nobody may be there to read it, which is no reason to end.
pub(crate) fn remark(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// What a program that goes on says of itself: the oldest lines are left out when too many wait, and how many is said as
/// soon as somebody reads again.
pub(crate) type Log = Behind<Backlog>;

impl Log {
    /// From now on a thread prints to standard error.
    pub(crate) fn start_on_stderr(&self) {
        self.start(|mut lines, _| {
            let text: String = lines.take().map(|line| line + "\n").collect();
            // Nobody may be there to read it, which is no reason to end.
            let _ = anstream::stderr().lock().write_all(text.as_bytes());
        });
    }
}
