//! Rows with aligned columns.

use std::fmt::Write as _;

use crate::clean::clean;

/// The maximum width of a column; longer cells stick out. Padding to more than 65535 characters would panic.
const WIDEST: usize = 1000;

const BOLD: anstyle::Style = anstyle::Style::new().bold();

/// Returns the width of a column whose longest text has this length.
pub(crate) fn width(longest: usize) -> usize {
    longest.min(WIDEST)
}

/// Formats rows below a header, with each column as wide as its widest cell.
pub(crate) fn columns<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| clean(cell))).collect();
    let all = || std::iter::once(&header).chain(&rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| width(all().map(|row| row[column].chars().count()).max().unwrap_or(0)));
    let mut text = String::new();
    for (number, row) in all().enumerate() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}   ");
        }
        let line = line.trim_end();
        let _ = if number == 0 { writeln!(text, "{BOLD}{line}{BOLD:#}") } else { writeln!(text, "{line}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["web".to_owned(), "Running".to_owned()], ["a-long-name".to_owned(), "x".to_owned()]];
        let text = anstream::adapter::strip_str(&columns(["NAME", "STATUS"], &rows)).to_string();
        assert_eq!(text, "NAME          STATUS\nweb           Running\na-long-name   x\n");
    }

    #[test]
    fn a_cell_of_any_length_is_shown_whole() {
        for length in [WIDEST, WIDEST + 1, 70_000] {
            let rows = [["x".repeat(length), "Running".to_owned()], ["web".to_owned(), "y".to_owned()]];
            let text = columns(["NAME", "STATUS"], &rows);
            let lengths: Vec<usize> = text.lines().skip(1).map(str::len).collect();
            assert_eq!(lengths, [length + 3 + 7, WIDEST + 3 + 1]);
        }
    }

    #[test]
    fn a_cell_is_one_line_and_cannot_upset_the_terminal() {
        let rows = [["web".to_owned(), "a\u{1b}[2J\nb".to_owned()]];
        let text = columns(["NAME", "STATUS"], &rows);
        assert_eq!(text.lines().nth(1), Some("web    a\u{fffd}[2J b"));
    }
}
