//! Interns strings that recur.

use std::sync::Arc;

use foldhash::HashSet;

/// How many strings to keep; with more than that, it starts over: they do not recur, and keeping them would be a leak.
const MOST: usize = 1024;

/// The strings seen so far.
#[derive(Debug, Default)]
pub(super) struct Texts(HashSet<Arc<str>>);

impl Texts {
    /// Replaces a string by the shared copy.
    pub(super) fn share(&mut self, text: &mut Arc<str>) {
        if let Some(seen) = self.0.get(text) {
            *text = seen.clone();
            return;
        }
        if self.0.len() == MOST {
            self.0.clear();
        }
        self.0.insert(text.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_become_one_and_there_are_never_too_many() {
        let mut texts = Texts::default();
        let mut first: Arc<str> = "nginx".into();
        let mut second: Arc<str> = "nginx".into();
        texts.share(&mut first);
        texts.share(&mut second);
        assert!(Arc::ptr_eq(&first, &second));
        for number in 0..3 * MOST {
            texts.share(&mut number.to_string().into());
            assert!(texts.0.len() <= MOST);
        }
    }
}
