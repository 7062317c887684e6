//! The terminal, with a table at its lower end and everything else printed above it.
//!
//! Nothing waits for the terminal: a new table replaces one that has not been printed yet, and if too many lines are
//! waiting, the oldest are dropped.

use std::io::{self, IsTerminal as _, Write as _};

use anstream::ColorChoice;

use super::frame::Frame;
use super::render::Size;
use crate::backlog::Backlog;
use crate::behind::{Behind, Moment, Waiting};

/// A terminal that can show a table. Clones refer to the same terminal.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    has_colour: bool,
    printer: Behind<Scene>,
}

/// What waits to be printed.
#[derive(Debug, Default)]
struct Scene {
    lines: Backlog,
    frame: Option<Frame>,
    /// Whether something else has written to the terminal, so that the drawn table is no longer where it was.
    is_lost: bool,
}

impl Waiting for Scene {
    fn is_empty(&self) -> bool {
        self.frame.is_none() && self.lines.is_empty()
    }

    fn add(&mut self, text: &str) {
        self.lines.add(text);
    }
}

impl Screen {
    /// Returns the terminal that both output and errors go to, if it can do more than print.
    pub(crate) fn of_terminal() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        if is_dumb || !io::stdout().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let has_colour = anstream::AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Some(Self { has_colour, printer: Behind::default() })
    }

    pub(super) fn has_colour(&self) -> bool {
        self.has_colour
    }

    /// The current size.
    pub(super) fn size(&self) -> Size {
        size()
    }

    /// Starts showing a table. From now on, panics are printed above it as well.
    pub(super) fn begin(&self) {
        let mut picture = Picture { has_colour: self.has_colour, ..Picture::default() };
        self.printer.start(move |scene, moment| {
            let text = picture.next(scene, moment, usize::from(size().columns));
            // Losing the terminal is no reason for the agent to end.
            let mut out = io::stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }

    /// Prints lines above the table.
    pub(crate) fn print(&self, text: &str) {
        self.printer.print(text);
    }

    /// Draws a table in place of the previous one.
    pub(super) fn draw(&self, frame: Frame) {
        self.printer.put(|scene| scene.frame = Some(frame));
    }

    /// Notes that the cursor is no longer where it was.
    pub(super) fn lost_its_place(&self) {
        self.printer.put(|scene| scene.is_lost = true);
    }

    /// Leaves the last table in place, with the cursor below it, and prints normally from then on.
    pub(crate) fn end(&self) {
        self.printer.end();
    }
}

fn size() -> Size {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(Size { columns: 80, rows: 24 }, |size| Size { columns: size.ws_col, rows: size.ws_row })
}

/// What the terminal shows.
#[derive(Debug, Default)]
struct Picture {
    has_colour: bool,
    drawn: Frame,
    /// Whether the table has been left for good; lines are then printed below it.
    is_left: bool,
}

impl Picture {
    /// Returns what to write so that the terminal shows what was waiting.
    fn next(&mut self, mut scene: Scene, moment: Moment, columns: usize) -> String {
        let lines = self.text_of(scene.lines.take());
        if self.is_left {
            return lines;
        }
        if scene.is_lost {
            self.drawn = Frame::default();
        }
        let mut text = self.drawn.erasure(columns);
        text.push_str(&lines);
        if let Some(frame) = scene.frame {
            self.drawn = frame;
        }
        text.push_str(&self.drawn.text());
        if moment == Moment::Ending {
            text.push_str("\r\n");
            self.is_left = true;
        }
        text
    }

    fn text_of(&self, lines: impl Iterator<Item = String>) -> String {
        let stripped = |line: String| {
            if self.has_colour { line } else { anstream::adapter::strip_str(&line).to_string() }
        };
        lines.map(|line| stripped(line) + "\r\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(text: &str) -> Scene {
        let mut scene = Scene::default();
        scene.add(text);
        scene
    }

    #[test]
    fn the_table_is_left_once_and_what_comes_then_is_below_it() {
        let mut picture = Picture::default();
        assert_eq!(
            picture.next(scene("\u{1b}[1mabove\u{1b}[0m"), Moment::Open, 80),
            "above\r\n",
            "no colour"
        );
        assert_eq!(picture.next(Scene::default(), Moment::Ending, 80), "\r\n", "the table is left");
        assert_eq!(picture.next(scene("goodbye"), Moment::Ending, 80), "goodbye\r\n");
    }
}
