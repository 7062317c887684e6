//! A thread that prints, so that a terminal or pipe that takes nothing stalls nobody else.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{mpsc, oneshot};

use crate::signals;

/// How many lines may wait for the printer. When they do, whoever prints waits too.
const WAITING_LINES: usize = 64;

/// The printer prints no more.
#[derive(Debug)]
pub(crate) struct Stopped;

/// Whether somebody may still read the output. Who only writes when something happens learns of it long after.
pub(crate) fn has_reader() -> bool {
    let out = io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let answered = poll(&mut asked, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }));
    answered.is_err() || !asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Room for one line.
pub(crate) struct Room<'a>(mpsc::Permit<'a, Line>);

enum Line {
    /// For whoever reads the output.
    Output(String),
    /// Says when everything before it has been printed.
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
            // Whoever finds the channel closed asks why: that is told before.
            if let Err(error) = print_all(&mut waiting) {
                // Nobody asks any more if the command is ending anyway.
                let _ = failed.send(error);
            }
        });
        Self { lines, failure }
    }

    /// Why it stopped, if that was not because nobody reads what it prints.
    pub(crate) fn failure(&mut self) -> Option<io::Error> {
        self.failure.try_recv().ok().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// Prints a line of output.
    pub(crate) async fn print(&self, line: String) -> Result<(), Stopped> {
        self.lines.send(Line::Output(line)).await.map_err(|_| Stopped)
    }

    /// Waits for room, for those who have something else to do meanwhile.
    pub(crate) async fn room(&self) -> Result<Room<'_>, Stopped> {
        self.lines.reserve().await.map(Room).map_err(|_| Stopped)
    }

    /// Waits for what has been printed to be out, unless the printer is stuck.
    pub(crate) async fn flush_what_it_can(&self) {
        let (done, flushed) = oneshot::channel();
        if self.lines.try_send(Line::Mark(done)).is_ok() {
            let patience = std::time::Duration::from_millis(200);
            // Late or not, the command ends now.
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
                // Whoever waits may have lost patience.
                let _ = done.send(());
            }
        }
    }
    Ok(())
}
