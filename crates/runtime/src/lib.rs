//! CRI runtimes in a library.
//!
//! - `embedded`: real containers from one binary, on libcontainer;
//! - `image`: the image store behind it (archives, registries, layers);
//! - `memory`: gives back what a process that waits does not need;
//! - `writers`: whether a file is complete;
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
