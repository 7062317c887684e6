//! What is under way right now, the oldest first: each thing for as long as somebody holds on to it, and so no more of them
//! than there are who do.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Things that are under way. Clones are the same ones.
#[derive(Debug)]
pub(crate) struct UnderWay<T>(Arc<Mutex<Things<T>>>);

#[derive(Debug)]
struct Things<T> {
    last: u64,
    all: BTreeMap<u64, T>,
}

impl<T> Clone for UnderWay<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for UnderWay<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Things { last: 0, all: BTreeMap::new() })))
    }
}

impl<T> UnderWay<T> {
    /// A thing begins; it is under way until the returned value is dropped.
    #[must_use = "it ends when this is dropped"]
    pub(crate) fn begin(&self, thing: T) -> Held<T> {
        let mut things = self.0.lock();
        things.last += 1;
        let number = things.last;
        things.all.insert(number, thing);
        Held { of: self.clone(), number }
    }

    /// What is seen of all of them now.
    pub(crate) fn seen<U>(&self, see: impl FnMut(&T) -> U) -> Vec<U> {
        self.0.lock().all.values().map(see).collect()
    }
}

/// Something that is under way.
#[derive(Debug)]
pub(crate) struct Held<T> {
    of: UnderWay<T>,
    number: u64,
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.of.0.lock().all.remove(&self.number);
    }
}
