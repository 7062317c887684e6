//! Lists of sandboxes and containers.

use std::sync::atomic::AtomicBool;

/// What a runtime turned out to lack, remembered for as long as its connection lasts.
#[derive(Debug, Default)]
pub(crate) struct Lacks {
    pub(crate) streamed_sandboxes: AtomicBool,
    pub(crate) streamed_containers: AtomicBool,
}
