//! A thread that prints, so that a terminal or pipe that is stalled blocks nothing else.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{mpsc, oneshot};

use crate::signals;

/// How many lines may wait for the printer. Beyond that, callers wait as well.
const WAITING_LINES: usize = 64;

/// The printer has stopped.
#[derive(Debug)]
pub(crate) struct Stopped;

/// Whether the output may still have a reader. A program that prints only when something happens would otherwise notice
/// long after.
pub(crate) fn has_reader() -> bool {
    let out = io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let answered = poll(&mut asked, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }));
    answered.is_err() || !asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Room for one line.
pub(crate) struct Room<'a>(mpsc::Permit<'a, Line>);

enum Line {
    /// For the reader of the output.
    Output(String),
    /// Signals that everything before it has been printed.
    Mark(oneshot::Sender<()>),
}

pub(crate) struct Printer {
    lines: mpsc::Sender<Line>,
    failure: oneshot::Receiver<io::Error>,
}

impl Printer {
    pub(crate) fn start() -> Self {
        let (lines, mut waiting) = mpsc::channel(WAITING_LINES);
        let (failed, failure) = oneshot::channel();
        std::thread::spawn(move || {
            signals::output::never_stops_this_thread();
            // A caller that finds the channel closed asks for the reason, so the reason is sent first.
            if let Err(error) = print_all(&mut waiting) {
                // When the command is ending anyway, nobody asks any more.
                let _ = failed.send(error);
            }
        });
        Self { lines, failure }
    }

    /// Returns why it stopped, unless that was because the reader is gone.
    pub(crate) fn failure(&mut self) -> Option<io::Error> {
        self.failure.try_recv().ok().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// Prints a line of output.
    pub(crate) async fn print(&self, line: String) -> Result<(), Stopped> {
        self.lines.send(Line::Output(line)).await.map_err(|_| Stopped)
    }

    /// Waits for room, so that callers can do other work until there is some.
    pub(crate) async fn room(&self) -> Result<Room<'_>, Stopped> {
        self.lines.reserve().await.map(Room).map_err(|_| Stopped)
    }

    /// Waits until everything has been printed, unless the printer is stuck.
    pub(crate) async fn flush_what_it_can(&self) {
        let (done, flushed) = oneshot::channel();
        if self.lines.try_send(Line::Mark(done)).is_ok() {
            let patience = std::time::Duration::from_millis(200);
            // The command ends now in any case.
            let _ = tokio::time::timeout(patience, flushed).await;
        }
    }
}

impl Room<'_> {
    /// Prints a line of output.
    pub(crate) fn print(self, line: String) {
        self.0.send(Line::Output(line));
    }
}

fn print_all(waiting: &mut mpsc::Receiver<Line>) -> io::Result<()> {
    while let Some(line) = waiting.blocking_recv() {
        match line {
            Line::Output(line) => {
                let mut out = anstream::stdout().lock();
                writeln!(out, "{line}")?;
                out.flush()?;
            }
            Line::Mark(done) => {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
    }
    Ok(())
}
