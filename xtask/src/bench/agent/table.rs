//! The measurements, beside what is unavoidable.

use std::fmt;

use crate::bench::verdict::Verdict;

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    /// The value for the runtime without an agent, in the same run.
    pub(super) bare: Option<f64>,
    pub(super) ours: f64,
    /// The upper limit.
    pub(super) target: Option<f64>,
}

impl Row {
    pub(super) const HEAD: &'static str =
        "                                                            bare         ours   ratio   at most";

    pub(super) fn verdict(&self, runtime: &str) -> Option<Verdict> {
        let what = format!("{runtime}: {}, in {}", self.what, self.unit);
        self.target.map(|target| Verdict::at_most(&what, self.ours, target))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: f64| format!("{number:.3} {}", self.unit);
        let bare = self.bare.map_or_else(|| "–".to_owned(), number);
        let ratio = self.bare.filter(|bare| *bare > 0.0).map(|bare| format!("{:.2}", self.ours / bare));
        let target = self.target.map_or_else(String::new, |target| format!("{target} {}", self.unit));
        let ratio = ratio.unwrap_or_default();
        write!(f, "{:<52} {bare:>12} {:>12} {ratio:>7} {target:>9}", self.what, number(self.ours))
    }
}
