//! The table as cells: a pure function of what to show and of the size of the terminal.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, Widget as _};

use super::view::{Event, View};
use crate::summary::{Mood, Summary};

const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const BAD: Style = Style::new().fg(Color::Red);

/// The size of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: u16,
    pub(super) rows: u16,
}

/// The minimum width at which the problem of a pod is shown.
const WIDE: u16 = 72;
/// The minimum width at which restarts are shown.
const MEDIUM: u16 = 64;
/// The space between columns.
const SPACING: u16 = 2;
/// How many problems and events are shown at most.
const MOST_PROBLEMS: usize = 3;
const MOST_EVENTS: usize = 6;

/// Draws the table, leaving at least one column and one row of the terminal free: some terminals wrap a line that fills
/// the last column, and one line of earlier output stays visible.
pub(super) fn render(view: &View, size: Size) -> Buffer {
    let width = size.columns.saturating_sub(1).max(1);
    let room = Room::divide(view, usize::from(size.rows.saturating_sub(1).max(1)));
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, room.height()));
    let mut top = 0;
    if room.table > 1 {
        top = pods(view, room.table, &mut buffer);
    }
    top += u16::from(room.gaps > 0 && room.problems > 0);
    for problem in view.problems.iter().take(room.problems) {
        put(&mut buffer, top, &Line::styled(problem.clone(), BAD));
        top += 1;
    }
    top += u16::from(room.gaps > 0 && room.events > 0);
    for event in &view.events[view.events.len() - room.events..] {
        put(&mut buffer, top, &event_line(event));
        top += 1;
    }
    let last = buffer.area.height - 1;
    put(&mut buffer, last, &footer(view, width));
    buffer
}

/// How many lines each part gets.
#[derive(Debug, PartialEq, Eq)]
struct Room {
    /// The header, the pods, and the line that says how many more there are.
    table: usize,
    problems: usize,
    events: usize,
    /// Empty lines between the parts.
    gaps: usize,
}

impl Room {
    /// Divides the lines among the parts. Pods come first, but problems of manifests and a few events are shown even if
    /// not all pods fit.
    fn divide(view: &View, lines: usize) -> Self {
        let nothing = Self { table: 0, problems: 0, events: 0, gaps: 0 };
        let Some(lines) = lines.checked_sub(1).filter(|lines| *lines >= 2) else { return nothing };
        let table = if view.pods.is_empty() { 0 } else { view.pods.len() + 1 };
        let problems = view.problems.len().min(MOST_PROBLEMS).min(lines / 4);
        let parts =
            |events: usize| usize::from(problems > 0) + usize::from(events > 0) + usize::from(table > 0);
        let spare = lines.saturating_sub(table + problems);
        let guaranteed = lines / 4;
        let events = view.events.len().min(MOST_EVENTS).min(spare.saturating_sub(3).max(guaranteed));
        let gaps = if lines >= 12 { parts(events) } else { 0 };
        let table = table.min(lines - problems - events - gaps);
        Self { table, problems, events, gaps }
    }

    fn height(&self) -> u16 {
        let lines = self.table + self.problems + self.events + self.gaps + 1;
        u16::try_from(lines).unwrap_or(u16::MAX)
    }
}

/// Draws the pods below a header, and returns the row after them.
fn pods(view: &View, lines: usize, buffer: &mut Buffer) -> u16 {
    let width = buffer.area.width;
    let shown = shown_pods(&view.pods, lines - 1);
    let longest = |text: fn(&Summary) -> &str, head: &str| {
        let widths = view.pods.iter().map(|pod| Span::raw(text(pod)).width());
        widths.max().unwrap_or(0).max(head.len()) as u16
    };
    let status = longest(|pod| &pod.status, "STATUS").min(width / 2);
    let name = longest(|pod| &pod.name, "POD").min(width.saturating_sub(status + 9).max(width / 4));
    let mut widths = vec![Constraint::Length(name), Constraint::Length(5), Constraint::Length(status)];
    let mut head = vec!["POD", "READY", "STATUS"];
    if width >= MEDIUM {
        widths.push(Constraint::Length(8));
        head.push("RESTARTS");
    }
    if width >= WIDE {
        widths.push(Constraint::Fill(1));
        head.push("");
    }
    let columns = head.len();
    let detail = width.saturating_sub(name + 5 + status + 8 + 4 * SPACING);
    let rows = shown.iter().map(|pod| {
        let cells = [
            Cell::from(fitting(&pod.name, name)),
            Cell::from(format!("{}/{}", pod.ready, pod.containers)),
            Cell::from(Span::styled(fitting(&pod.status, status), style_of(pod.mood))),
            Cell::from(if pod.restarts == 0 { String::new() } else { pod.restarts.to_string() }),
            Cell::from(Span::styled(fitting(pod.detail.as_deref().unwrap_or_default(), detail), FAINT)),
        ];
        Row::new(cells.into_iter().take(columns).collect::<Vec<_>>())
    });
    let height = (shown.len() + 1) as u16;
    let table = Table::new(rows, widths).header(Row::new(head).style(HEAD)).column_spacing(SPACING);
    table.render(Rect::new(0, 0, width, height), buffer);
    let more = view.pods.len() - shown.len();
    if more == 0 {
        return height;
    }
    let hidden_trouble = in_trouble(&view.pods) > in_trouble(shown.iter().copied());
    let how = if hidden_trouble { "rubelet ps shows all" } else { "none of them in trouble" };
    put(buffer, height, &Line::styled(format!("… and {more} more, {how}"), FAINT));
    height + 1
}

/// Selects the pods that fit, in order: all of them, or else first those in trouble and then those in progress.
fn shown_pods(pods: &[Summary], lines: usize) -> Vec<&Summary> {
    if pods.len() <= lines {
        return pods.iter().collect();
    }
    let of = |mood| pods.iter().filter(move |pod| pod.mood == mood);
    let all = of(Mood::Bad).chain(of(Mood::Busy)).chain(of(Mood::Well));
    all.take(lines.saturating_sub(1)).collect()
}

fn in_trouble<'a>(pods: impl IntoIterator<Item = &'a Summary>) -> usize {
    pods.into_iter().filter(|pod| pod.mood == Mood::Bad).count()
}

fn event_line(event: &Event) -> Line<'static> {
    let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
    let style = if event.is_warning { style_of(Mood::Busy) } else { Style::new() };
    Line::from(vec![
        Span::styled(format!("{}  ", event.time), FAINT),
        Span::raw(format!("{}  ", event.pod)),
        Span::styled(event.reason.clone(), style),
        Span::raw(format!("{times}  ")),
        Span::styled(event.message.clone(), FAINT),
    ])
}

/// The number of pods in each state, which is all that very small terminals show.
fn footer(view: &View, width: u16) -> Line<'static> {
    let count = |mood| view.pods.iter().filter(|pod| pod.mood == mood).count();
    let pods = match view.pods.len() {
        0 => "no pods yet".to_owned(),
        1 => "1 pod:".to_owned(),
        many => format!("{many} pods:"),
    };
    let mut spans = vec![Span::raw(pods)];
    let mut between = " ";
    for (mood, word) in Mood::WORDS {
        if count(mood) > 0 {
            spans.push(Span::raw(between));
            spans.push(Span::styled(format!("{} {word}", count(mood)), style_of(mood)));
            between = ", ";
        }
    }
    if !view.problems.is_empty() {
        let plural = if view.problems.len() == 1 { "" } else { "s" };
        spans.push(Span::styled(format!(", {} manifest problem{plural}", view.problems.len()), BAD));
    }
    let hint = Span::styled(format!("; {}", view.hint), FAINT);
    let used: usize = spans.iter().map(Span::width).sum();
    if !view.hint.is_empty() && used + hint.width() <= usize::from(width) {
        spans.push(hint);
    }
    Line::from(spans)
}

fn style_of(mood: Mood) -> Style {
    Style::new().fg(match mood {
        Mood::Well => Color::Green,
        Mood::Busy => Color::Yellow,
        Mood::Bad => Color::Red,
    })
}

/// Shortens a text to this many columns, with an ellipsis if something was cut.
fn fitting(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width).collect();
    while !cut.is_empty() && Span::raw(&*cut).width() + 1 > width {
        cut.pop();
    }
    cut + "…"
}

/// Draws a line in this row, with an ellipsis if it does not fit.
fn put(buffer: &mut Buffer, y: u16, line: &Line<'_>) {
    let width = buffer.area.width;
    if y >= buffer.area.height {
        return;
    }
    buffer.set_line(0, y, line, width);
    if line.width() > usize::from(width) {
        buffer.set_string(width - 1, y, "…", Style::new());
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
