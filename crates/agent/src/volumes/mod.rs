//! The volumes of a pod: made before its sandbox, refreshed while it runs, taken down after it ended.
//!
//! All of this blocks on disks and mounts: call it off the async threads. Every call can be repeated: an agent that was
//! restarted prepares again what is already there.

mod error;
mod layout;
mod mount;

pub use error::VolumeError;
pub use layout::{DataDirectory, PodDirectory};
pub use mount::{Mount, Propagation, RecursiveReadOnly};
