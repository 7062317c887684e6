//! Lines that wait while their printing is blocked, by a stalled terminal or a pipe that nobody reads.

use std::collections::VecDeque;

use crate::behind::Waiting;

/// How many lines may wait.
const MOST_LINES: usize = 1_000;
/// Longer lines are truncated.
const LONGEST_LINE: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    lines: VecDeque<String>,
    left_out: usize,
}

impl Waiting for Backlog {
    /// Adds lines; if there are too many, the oldest are dropped.
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            if self.lines.len() >= MOST_LINES {
                self.lines.pop_front();
                self.left_out += 1;
            }
            self.lines.push_back(cut(line).to_owned());
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl Backlog {
    /// Takes all lines, after a line that says how many were dropped.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = String> + use<> {
        let left_out = std::mem::take(&mut self.left_out);
        let gap = (left_out > 0).then(|| format!("({left_out} lines omitted)"));
        gap.into_iter().chain(std::mem::take(&mut self.lines))
    }
}

fn cut(line: &str) -> &str {
    let end = (0..=LONGEST_LINE.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
    &line[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_the_others_counted() {
        let mut backlog = Backlog::default();
        backlog.add("a\nb\n");
        assert_eq!(backlog.take().collect::<Vec<_>>(), ["a", "b"]);
        assert!(backlog.is_empty());
        for number in 0..MOST_LINES + 2 {
            backlog.add(&number.to_string());
        }
        let lines: Vec<String> = backlog.take().collect();
        assert_eq!(lines[..2], ["(2 lines omitted)", "2"]);
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(backlog.take().count(), 0, "what was left out is said once");
        backlog.add(&"ä".repeat(LONGEST_LINE));
        backlog.add(&("x".to_owned() + &"ä".repeat(LONGEST_LINE)));
        let lengths: Vec<usize> = backlog.take().map(|line| line.len()).collect();
        assert_eq!(lengths, [LONGEST_LINE, LONGEST_LINE - 1], "long lines are cut between characters");
    }
}
