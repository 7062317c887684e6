//! A drawn table as text for a terminal, and how the previous one is erased.
//!
//! It is drawn in place, below what was printed before: no alternate screen, no raw mode, no hidden cursor. So there is
//! nothing to restore, however the program ends.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Effects};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier, Style};

/// A table that is ready to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    lines: Vec<FrameLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FrameLine {
    text: String,
    /// In columns, without the escape sequences.
    width: usize,
}

impl Frame {
    pub(super) fn new(buffer: &Buffer, has_colour: bool) -> Self {
        let width = usize::from(buffer.area.width).max(1);
        Self { lines: buffer.content.chunks(width).map(|cells| line(cells, has_colour)).collect() }
    }

    /// Returns what to print to show it. The cursor stays at the end of the last line.
    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\r\n")
    }

    /// Returns what to print to erase it from a terminal that now has this many columns: the terminal has wrapped lines
    /// that have become too long. It erases row by row, since some terminals (tmux) move what is cleared from the very
    /// top downwards into their scrollback.
    pub(super) fn erasure(&self, columns: usize) -> String {
        let wrapped = |line: &FrameLine| line.width.div_ceil(columns.max(1)).max(1);
        let rows: usize = self.lines.iter().map(wrapped).sum();
        match rows {
            0 => String::new(),
            rows => format!("\r\x1b[2K{}", "\x1b[A\x1b[2K".repeat(rows - 1)),
        }
    }
}

fn line(cells: &[Cell], has_colour: bool) -> FrameLine {
    let end = cells.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |last| last + 1);
    let (mut text, mut before) = (String::new(), anstyle::Style::new());
    let mut skip = 0;
    for cell in &cells[..end] {
        // A wide character also occupies the cells after it.
        if skip > 0 {
            skip -= 1;
            continue;
        }
        skip = ratatui::text::Span::raw(cell.symbol()).width().saturating_sub(1);
        let style = if has_colour { ansi(cell.style()) } else { anstyle::Style::new() };
        if style != before {
            let _ = write!(text, "{before:#}{style}");
            before = style;
        }
        text.push_str(cell.symbol());
    }
    let _ = write!(text, "{before:#}");
    FrameLine { text, width: end }
}

fn ansi(style: Style) -> anstyle::Style {
    let colour = match style.fg {
        Some(Color::Red) => Some(AnsiColor::Red.into()),
        Some(Color::Green) => Some(AnsiColor::Green.into()),
        Some(Color::Yellow) => Some(AnsiColor::Yellow.into()),
        _ => None,
    };
    let effects = [(Modifier::BOLD, Effects::BOLD), (Modifier::DIM, Effects::DIMMED)];
    let effects = effects.into_iter().filter(|(modifier, _)| style.add_modifier.contains(*modifier));
    let effects = effects.fold(Effects::new(), |all, (_, effect)| all | effect);
    anstyle::Style::new().fg_color(colour).effects(effects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lines: &[&str]) -> Frame {
        Frame::new(&Buffer::with_lines(lines.iter().copied()), true)
    }

    #[test]
    fn lines_end_where_their_text_does_and_wide_characters_are_whole() {
        let frame = frame(&["one", "", "日本 x  "]);
        assert_eq!(frame.text(), "one\r\n\r\n日本 x");
    }

    #[test]
    fn colours_are_switched_on_and_off_or_left_out() {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 6, 1));
        buffer.set_string(0, 0, "a", Style::new());
        buffer.set_string(1, 0, "bc", Style::new().fg(Color::Red));
        assert_eq!(Frame::new(&buffer, true).text(), "a\x1b[31mbc\x1b[0m");
        assert_eq!(Frame::new(&buffer, false).text(), "abc");
    }

    #[test]
    fn as_many_rows_are_wiped_as_it_takes_by_now() {
        let drawn = frame(&["0123456789", "", "01234"]);
        let rows = |erasure: String| {
            assert!(erasure.starts_with("\r\x1b[2K") && !erasure.contains("\x1b[J"), "{erasure:?}");
            (erasure.matches("\x1b[2K").count(), erasure.matches("\x1b[A").count())
        };
        assert_eq!(rows(drawn.erasure(80)), (3, 2));
        assert_eq!(rows(drawn.erasure(5)), (4, 3), "the first line has become two");
        assert_eq!(rows(drawn.erasure(4)), (6, 5), "three and one and two");
        assert_eq!(rows(frame(&["x"]).erasure(80)), (1, 0));
        assert_eq!(Frame::default().erasure(80), "", "nothing was drawn");
    }
}
