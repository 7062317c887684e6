//! The embedded runtime: a CRI v1 server that runs real containers, from one binary and with nothing else installed.
//!
//! ```text
//! server  ── CRI calls ──▶  pod, container: act, with one lock per object
//!                             │   decide with: spec, user, filter, view, state (pure)
//!                             │   write with:  store (atomically)
//!                             ▼
//!                           supervise ◀── a socket ── shim (one per container, outlives us) ── container
//!                             └──▶ registry (memory: all that lists read) ──▶ events (fan-out)
//! ```
//! A sandbox is a set of namespaces held by mounts. No process keeps them alive, except in a pod that shares its
//! process namespace. A container is a folder, together with its shim and its control group. Everything is written to
//! disk before it takes effect, so the runtime may be killed at any moment: `recover` reads the folders, asks the shims
//! and continues.

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
