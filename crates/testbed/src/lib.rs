//! Real container runtimes for tests: each in a private folder, on a private socket, with images built on the spot and
//! a network of its own, and removed without a trace on drop.
//!
//! A test asks for a runtime and returns early if there is none:
//!
//! ```no_run
//! use rubelet_testbed::{Flavor, require};
//!
//! let Some(containerd) = require(Flavor::V2) else { return };
//! println!("CRI answers on {}", containerd.endpoint());
//! ```
//!
//! What is missing is printed on standard error. On a CI machine it is a failure, see [`requirement`]. `cargo xtask
//! test` installs what a machine lacks.

mod cgroup;
mod cni;
mod config;
mod containerd;
mod cri_probe;
mod daemon;
mod elf;
mod embedded;
mod error;
mod flavor;
pub mod go_cache;
mod group;
mod image;
mod kubelet;
mod mounts;
mod network;
mod processes;
pub mod program;
pub mod recording;
pub mod requirement;
mod slot;
mod spawner;
mod teardown;
pub mod wait;

pub use cni::Cni;
pub use containerd::Containerd;
pub use embedded::{Embedded, Place};
pub use error::Error;
pub use flavor::Flavor;
pub use group::Group;
pub use image::{BUSYBOX, PAUSE, VOLUMES, WEB, archive as image_archive};
pub use kubelet::Kubelet;
pub use requirement::require;
pub use slot::sweep_abandoned;
