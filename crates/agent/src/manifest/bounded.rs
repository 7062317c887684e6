//! Lists of what is wrong. Nobody reads more than some of it, and a hostile manifest has millions: the rest is counted.

/// So many are kept.
pub(super) const MOST: usize = 100;

/// The first of many, and how many there were beyond.
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
    /// One more: it is made only if it is kept.
    pub(super) fn push(&mut self, one: impl FnOnce() -> T) {
        if self.kept.len() < MOST {
            self.kept.push(one());
        } else {
            self.left_out += 1;
        }
    }
}
