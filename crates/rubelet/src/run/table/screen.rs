//! The terminal, with a table at its lower end and everything else printed above it.
//!
//! A thread of its own prints, so that a terminal that takes nothing (Ctrl-S, a slow line) holds nobody up: the newest
//! table replaces one that was not printed yet, and of the lines that wait the oldest are left out when there are too
//! many.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anstream::ColorChoice;
use parking_lot::{Condvar, Mutex};

use super::frame::Frame;
use super::render::Size;
use crate::backlog::Backlog;
use crate::log::{last_words, remark};

/// How long to wait for the last of it to be printed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A terminal that can show a table. Clones are the same terminal.
#[derive(Clone, Debug)]
pub(crate) struct Screen(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    has_colour: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    lines: Backlog,
    frame: Option<Frame>,
    /// Whether somebody else has written to the terminal, so that what was drawn is not where it was.
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// There is no table yet: lines are printed at once.
    #[default]
    Before,
    Shown,
    /// What waits is printed, and then nothing more.
    Ending,
    Ended,
    /// The thread is stuck, and nobody reads.
    GivenUp,
}

impl Screen {
    /// The terminal that output and errors go to, if both do, and if it can do more than print.
    pub(crate) fn of_terminal() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        if is_dumb || !io::stdout().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let has_colour = anstream::AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Some(Self::new(has_colour))
    }

    fn new(has_colour: bool) -> Self {
        Self(Arc::new(Shared { has_colour, state: Mutex::default(), changed: Condvar::new() }))
    }

    pub(super) fn has_colour(&self) -> bool {
        self.0.has_colour
    }

    /// How large it is now.
    pub(super) fn size(&self) -> Size {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or(Size { columns: 80, rows: 24 }, |size| Size { columns: size.ws_col, rows: size.ws_row })
    }

    /// From now on there is a table. Panics are printed above it, too.
    pub(super) fn begin(&self) {
        self.begin_with(|text| {
            // A terminal that is gone is no reason for the agent to end.
            let mut out = io::stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
        let screen = self.clone();
        std::panic::set_hook(Box::new(move |panic| screen.print(&last_words(panic))));
    }

    fn begin_with(&self, print: impl Fn(&str) + Send + 'static) {
        self.0.state.lock().stage = Stage::Shown;
        let screen = self.clone();
        std::thread::spawn(move || screen.print_all(print));
    }

    /// Prints lines above the table.
    pub(crate) fn print(&self, text: &str) {
        let mut state = self.0.state.lock();
        match state.stage {
            Stage::Before | Stage::Ended => {
                drop(state);
                remark(text.trim_end());
            }
            Stage::Shown | Stage::Ending => {
                state.lines.add(text);
                self.0.changed.notify_one();
            }
            Stage::GivenUp => {}
        }
    }

    /// Draws another table in place of the last one.
    pub(super) fn draw(&self, frame: Frame) {
        self.0.state.lock().frame = Some(frame);
        self.0.changed.notify_one();
    }

    /// Says that the cursor is not where it was.
    pub(super) fn lost_its_place(&self) {
        self.0.state.lock().is_lost = true;
    }

    /// Leaves the last table where it is, with the cursor below it, and prints as usual from then on.
    pub(crate) fn end(&self) {
        let _ = std::panic::take_hook();
        let mut state = self.0.state.lock();
        if state.stage != Stage::Shown {
            return;
        }
        state.stage = Stage::Ending;
        self.0.changed.notify_all();
        // A terminal that takes nothing does not keep us from ending.
        let is_ending = |state: &mut State| state.stage == Stage::Ending;
        self.0.changed.wait_while_for(&mut state, is_ending, PATIENCE);
        if state.stage == Stage::Ending {
            state.stage = Stage::GivenUp;
        }
    }

    fn print_all(&self, print: impl Fn(&str)) {
        let mut drawn = Frame::default();
        loop {
            let mut state = self.0.state.lock();
            let is_idle = |state: &mut State| {
                state.stage == Stage::Shown && state.frame.is_none() && state.lines.is_empty()
            };
            self.0.changed.wait_while(&mut state, is_idle);
            let is_ending = state.stage != Stage::Shown;
            if std::mem::take(&mut state.is_lost) {
                drawn = Frame::default();
            }
            let lines = state.lines.take();
            let next = state.frame.take();
            drop(state);

            let columns = usize::from(self.size().columns);
            let mut text = drawn.erasure(columns);
            text.push_str(&self.text_of(lines));
            drawn = next.unwrap_or(drawn);
            text.push_str(&drawn.text());
            if is_ending {
                text.push_str("\r\n");
            }
            print(&text);
            if is_ending {
                return self.print_the_last(print);
            }
        }
    }

    /// Prints what came while the table was left, below it.
    fn print_the_last(&self, print: impl Fn(&str)) {
        loop {
            let mut state = self.0.state.lock();
            if state.lines.is_empty() {
                if state.stage == Stage::Ending {
                    state.stage = Stage::Ended;
                }
                self.0.changed.notify_all();
                return;
            }
            let lines = state.lines.take();
            drop(state);
            print(&self.text_of(lines));
        }
    }

    fn text_of(&self, lines: impl Iterator<Item = String>) -> String {
        let stripped = |line: String| {
            if self.has_colour() { line } else { anstream::adapter::strip_str(&line).to_string() }
        };
        lines.map(|line| stripped(line) + "\r\n").collect()
    }
}

/// Prints each piece that is written to it: what is logged.
impl io::Write for Screen {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.print(&String::from_utf8_lossy(piece));
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_end_does_not_wait_for_a_terminal_that_takes_nothing() {
        let screen = Screen::new(false);
        let (_takes, terminal) = mpsc::channel::<()>();
        screen.begin_with(move |_| {
            let _ = terminal.recv();
        });
        screen.print("nobody sees this");
        screen.end();
        assert_eq!(screen.0.state.lock().stage, Stage::GivenUp);
        screen.print("nor this");
        assert!(screen.0.state.lock().lines.is_empty());
    }

    #[test]
    fn what_comes_while_the_table_is_left_is_printed_below_it() {
        let screen = Screen::new(false);
        let (printing, is_printing) = mpsc::channel();
        let (takes, terminal) = mpsc::channel::<()>();
        screen.begin_with(move |text| {
            printing.send(text.to_owned()).expect("the test waits");
            let _ = terminal.recv();
        });
        let ending = std::thread::spawn({
            let screen = screen.clone();
            move || screen.end()
        });
        assert!(is_printing.recv().expect("it prints").ends_with("\r\n"), "the table is left");
        screen.print("goodbye");
        drop(takes);
        assert_eq!(is_printing.recv().expect("it prints"), "goodbye\r\n");
        ending.join().expect("it ends");
        assert_eq!(screen.0.state.lock().stage, Stage::Ended);
    }
}
