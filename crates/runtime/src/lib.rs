//! CRI runtimes as a library.
//!
//! - `embedded`: a runtime with real containers in one binary, based on libcontainer;
//! - `image`: the image store behind it (archives, registries, layers);
//! - `memory`: returns memory that a waiting process does not need;
//! - `writers`: determines whether a file is complete;
//! - `synthetic`: thousands of virtual pods without a process, driven step by step, with seeded faults.

#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "image")]
pub mod image;
#[cfg(feature = "embedded")]
pub mod memory;
#[cfg(feature = "synthetic")]
pub mod synthetic;
#[cfg(feature = "embedded")]
pub mod writers;
