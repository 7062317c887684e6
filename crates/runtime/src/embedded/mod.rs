//! The embedded runtime: a CRI v1 server that runs real containers, from one binary with nothing installed.
//!
//! ```text
//! server  ── CRI calls ──▶  pod, container: act, one lock an object
//!                             │   decide with: spec, user, filter, view, state (pure)
//!                             │   write with:  store (whole or not at all)
//!                             ▼
//!                           supervise ◀── a socket ── shim (one a container, outlives us) ── container
//!                             └──▶ registry (memory: all that lists read) ──▶ events (fan-out)
//! ```
//! A sandbox is namespaces held by mounts; no process keeps it, but for a pod that shares its process namespace.
//! A container is a folder; its shim and its control group. Everything is on disk before it is true, so the runtime may
//! be killed at any moment: `recover` reads the folders, asks the shims and goes on.

mod cgroup;
mod clock;
mod cni;
mod container;
mod device_filter;
mod enums;
mod error;
mod events;
mod exec;
mod facts;
mod filter;
mod id;
mod identity;
mod image_volumes;
mod mountinfo;
mod namespaces;
mod netlink;
mod orphan;
mod output;
mod pause;
mod pod;
mod process;
mod propagation;
#[cfg(test)]
mod properties;
mod record;
mod recover;
mod registry;
mod room;
mod rootfs;
mod rootless;
mod runtime;
mod seccomp;
mod server;
pub mod shim;
#[cfg(test)]
mod soup;
mod spec;
mod state;
mod stats;
mod status;
mod store;
mod supervise;
#[cfg(test)]
mod test_group;
mod update;
mod user;
mod view;

pub use error::Error;
pub use output::MAX_ANSWER as MAX_EXEC_OUTPUT;
pub use rootless::{Root, is_root};
pub use runtime::Options;
pub use server::{NAME, serve};
pub use store::is_anything_left;
