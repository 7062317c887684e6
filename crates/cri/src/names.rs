//! One copy of each text. Consecutive lists name the same things: an id that was seen before costs no new memory.

use std::collections::HashSet;
use std::sync::Arc;

/// Below this many texts a sweep is not worth its time.
const SMALL: usize = 1024;

/// The texts that are in use somewhere, shared.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashSet<Arc<str>>,
    /// Sweep when there are more texts than this.
    sweep_at: usize,
}

impl Names {
    /// The shared copy of `text`.
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.known.insert(Arc::clone(&new));
        new
    }

    /// Forgets the texts that nobody else uses any more, if enough have gathered since the last time.
    pub(crate) fn sweep(&mut self) {
        if self.known.len() > self.sweep_at.max(SMALL) {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.known.len() * 2;
            self.known.shrink_to(self.sweep_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_the_same_memory_for_as_long_as_someone_uses_it() {
        let mut names = Names::default();
        let first = names.share("a");
        assert!(Arc::ptr_eq(&first, &names.share("a")));
        assert!(!Arc::ptr_eq(&first, &names.share("b")));
    }

    #[test]
    fn unused_texts_do_not_pile_up() {
        let mut names = Names::default();
        let kept: Vec<_> = (0..2000).map(|n| names.share(&format!("kept-{n}"))).collect();
        for round in 0..100 {
            for n in 0..1000 {
                names.share(&format!("gone-{round}-{n}"));
            }
            names.sweep();
        }
        assert!(names.known.len() < 2 * kept.len() + 2 * SMALL, "{} texts", names.known.len());
        for (n, text) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(text, &names.share(&format!("kept-{n}"))));
        }
    }
}
