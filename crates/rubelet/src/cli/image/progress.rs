//! The progress of an image pull or import: on a terminal one line that changes, in a pipe one line per step.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use rubelet_runtime::image::{Digest, Event, Progress};

use super::table::size;
use crate::clean::clean;
use crate::count::count;

const BAR: usize = 20;
/// Returns to the beginning of the line, and erases it.
const CLEAR: &str = "\r\x1b[2K";

/// A progress display on standard error.
#[derive(Clone)]
pub(super) struct Display {
    state: Arc<Mutex<State>>,
    verb: &'static str,
    terminal: bool,
}

/// The progress so far.
#[derive(Debug, Default)]
struct State {
    /// The bytes received and the total, by layer.
    bytes: BTreeMap<Digest, (u64, u64)>,
    ready: usize,
    finished: bool,
}

impl Display {
    pub(super) fn new(verb: &'static str) -> Self {
        Self { state: Arc::default(), verb, terminal: std::io::stderr().is_terminal() }
    }

    pub(super) fn progress(&self) -> Progress {
        let display = self.clone();
        Progress::new(move |event| display.show(&event))
    }

    fn show(&self, event: &Event) {
        let mut state = self.state.lock();
        let line = state.line(event);
        state.apply(event);
        if state.finished {
            return;
        }
        // A failure to print is no reason to stop.
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal {
            let remark = matches!(event, Event::Retrying { .. }).then_some(line).flatten();
            let remark = remark.map(|line| format!("{line}\n")).unwrap_or_default();
            write!(out, "{CLEAR}{remark}{} {}", self.verb, state.summary()).and_then(|()| out.flush())
        } else {
            line.map_or(Ok(()), |line| writeln!(out, "{line}"))
        };
    }

    /// Ends the display, and leaves an empty line for what is printed next.
    pub(super) fn finish(&self) {
        self.state.lock().finished = true;
        if self.terminal {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "{CLEAR}").and_then(|()| out.flush());
        }
    }
}

impl State {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Layers(layers) => {
                for (layer, size) in layers {
                    self.bytes.entry(layer.clone()).or_insert((0, *size));
                }
            }
            Event::Downloading { layer, done, total } => {
                self.bytes.insert(layer.clone(), (*done, *total));
            }
            Event::Present(layer) | Event::Unpacked(layer) => {
                if let Some((done, total)) = self.bytes.get_mut(layer) {
                    *done = *total;
                }
                self.ready += 1;
            }
            _ => {}
        }
    }

    /// Summarizes everything in one short line.
    fn summary(&self) -> String {
        let (done, total) =
            self.bytes.values().fold((0_u64, 0_u64), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let filled =
            if total == 0 { BAR } else { (done.min(total) as u128 * BAR as u128 / total as u128) as usize };
        format!(
            "[{}{}] {}/{} layers {}/{}",
            "#".repeat(filled),
            ".".repeat(BAR - filled),
            self.ready.min(self.bytes.len()),
            self.bytes.len(),
            size(done),
            size(total)
        )
    }

    /// Returns a line for an event, if it deserves one.
    fn line(&self, event: &Event) -> Option<String> {
        let short = |layer: &Digest| layer.hex()[..12].to_owned();
        match event {
            Event::Layers(layers) => {
                let total = size(layers.iter().map(|(_, size)| size).sum());
                Some(format!("{}, {total}", count(layers.len() as u64, "layer")))
            }
            Event::Present(layer) => Some(format!("{}: already present", short(layer))),
            Event::Downloading { layer, done, total } if done == total => {
                Some(format!("{}: downloaded {}", short(layer), size(*total)))
            }
            Event::Retrying { layer, reason } => {
                Some(format!("{}: retrying: {}", short(layer), clean(reason)))
            }
            Event::Unpacked(layer) => Some(format!("{}: unpacked", short(layer))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_lines_and_a_summary() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let mut state = State::default();
        let mut lines = Vec::new();
        let mut bars = Vec::new();
        for event in [
            Event::Layers(vec![(a.clone(), 3_000_000), (b.clone(), 1_000_000)]),
            Event::Present(b.clone()),
            Event::Downloading { layer: a.clone(), done: 1_000_000, total: 3_000_000 },
            Event::Retrying { layer: a.clone(), reason: "cut".to_owned() },
            Event::Downloading { layer: a.clone(), done: 3_000_000, total: 3_000_000 },
            Event::Unpacking(a.clone()),
            Event::Unpacked(a.clone()),
        ] {
            lines.extend(state.line(&event));
            state.apply(&event);
            bars.push(state.summary());
        }
        insta::assert_snapshot!(lines.join("\n"), @r"
        2 layers, 4.00MB
        3e23e8160039: already present
        ca978112ca1b: retrying: cut
        ca978112ca1b: downloaded 3.00MB
        ca978112ca1b: unpacked
        ");
        assert_eq!(bars[1], "[#####...............] 1/2 layers 1.00MB/4.00MB");
        assert_eq!(bars[2], "[##########..........] 1/2 layers 2.00MB/4.00MB");
        assert_eq!(bars[6], "[####################] 2/2 layers 4.00MB/4.00MB");
        assert_eq!(State::default().summary(), "[####################] 0/0 layers 0B/0B");
    }
}
