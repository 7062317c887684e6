//! Operations in progress, oldest first. Each is listed for as long as its guard is held, so there are never more of
//! them than guards.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// A list of operations in progress. Clones share the same list.
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
    /// Adds an operation, which is in progress until the returned value is dropped.
    #[must_use = "it ends when this is dropped"]
    pub(crate) fn begin(&self, thing: T) -> Held<T> {
        let mut things = self.0.lock();
        things.last += 1;
        let number = things.last;
        things.all.insert(number, thing);
        Held { of: self.clone(), number }
    }

    /// Maps all current operations.
    pub(crate) fn seen<U>(&self, see: impl FnMut(&T) -> U) -> Vec<U> {
        self.0.lock().all.values().map(see).collect()
    }
}

/// The guard of an operation in progress.
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
