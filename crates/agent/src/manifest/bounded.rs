//! Bounded lists of problems. Nobody reads more than a few, and a hostile manifest has millions: the rest is only
//! counted.

/// How many are kept.
pub(super) const MOST: usize = 100;

/// The first items, and a count of the remaining ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounded<T> {
    pub(super) kept: Vec<T>,
    pub(super) left_out: usize,
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), left_out: 0 }
    }
}

impl<T> Bounded<T> {
    /// Adds an item, which is only created if it is kept.
    pub(super) fn push(&mut self, one: impl FnOnce() -> T) {
        if self.kept.len() < MOST {
            self.kept.push(one());
        } else {
            self.left_out += 1;
        }
    }
}
