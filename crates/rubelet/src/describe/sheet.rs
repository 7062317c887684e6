//! Indented lines, with values in a column.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::clean::clean;
use crate::columns::width;

/// The indentation of one level.
const STEP: usize = 2;
/// The minimum column at which the values of a level start.
const COLUMN: usize = 16;

/// Indented lines.
#[derive(Debug)]
pub(super) struct Sheet {
    text: String,
    indent: usize,
    zone: TimeZone,
}

impl Sheet {
    /// Creates an empty sheet for readers in this time zone.
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { text: String::new(), indent: 0, zone }
    }

    /// Formats a time as kubectl does; empty if there is none.
    pub(super) fn moment(&self, at: Option<&Time>) -> String {
        let zoned = at.map(|at| at.0.to_zoned(self.zone.clone()));
        zoned.map(|at| at.strftime("%a, %d %b %Y %H:%M:%S %z").to_string()).unwrap_or_default()
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Adds one line.
    pub(super) fn line(&mut self, line: &str) {
        let indent = self.indent;
        let _ = writeln!(self.text, "{}", format!("{:indent$}{}", "", clean(line)).trim_end());
    }

    /// Adds all lines of a text.
    pub(super) fn lines(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    /// Adds names and values. Empty values are left out, and values with several lines go below their names.
    pub(super) fn fields(&mut self, fields: &[(&str, String)]) {
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            self.field(name, value);
        }
    }

    /// Adds a name and its value, even if that is empty.
    pub(super) fn field(&mut self, name: &str, value: &str) {
        let width = column(name);
        if value.trim_end().contains('\n') {
            self.line(&format!("{name}:"));
            self.indented(|sheet| sheet.lines(value));
        } else {
            self.line(&format!("{:<width$}{}", format!("{name}:"), value.trim_end()));
        }
    }

    /// Adds a name and values, the first beside it and the others below.
    pub(super) fn list(&mut self, name: &str, values: impl Iterator<Item = String>) {
        let mut title = format!("{name}:");
        let width = column(name);
        let mut is_empty = true;
        for value in values {
            self.line(&format!("{title:<width$}{value}"));
            title.clear();
            is_empty = false;
        }
        if is_empty {
            self.line(&format!("{title:<width$}{}", super::NONE));
        }
    }

    /// Indents what `write` adds by one level.
    pub(super) fn indented(&mut self, write: impl FnOnce(&mut Self)) {
        self.indent += STEP;
        write(self);
        self.indent -= STEP;
    }
}

/// Returns the width of the name column for this name.
fn column(name: &str) -> usize {
    width(COLUMN.max(name.len() + 3) - 1)
}

/// Formats rows below a header, as kubectl does within a description.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let rule = header.clone().map(|name| "-".repeat(name.len()));
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| clean(cell))).collect();
    let all = || [&header, &rule].into_iter().chain(&rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| width(all().map(|row| row[column].chars().count()).max().unwrap_or(0)));
    let mut text = String::new();
    for row in all() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}  "));
        let _ = writeln!(text, "{}", cells.collect::<String>().trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_cells_of_any_length_are_shown_whole() {
        for length in [1, COLUMN, 1000, 70_000] {
            let name = "N".repeat(length);
            let mut sheet = Sheet::new(TimeZone::UTC);
            sheet.field(&name, "value");
            sheet.list(&name, ["one".to_owned(), "two".to_owned()].into_iter());
            sheet.list(&name, std::iter::empty());
            sheet.lines(&table(["A", "B"], &[[name.clone(), "b".to_owned()]]));
            let text = sheet.finish();
            for wanted in ["value", "one", "two", "<none>", "b"] {
                assert!(text.lines().any(|line| line.ends_with(wanted)), "{wanted} beside {length}");
            }
            assert_eq!(text.matches(&name).count(), 4, "{length}");
        }
    }
}
