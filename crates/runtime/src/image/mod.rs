//! Images: a content-addressed store, archives, registries, and root filesystems made of them.
//!
//! Start at [`ImageStore`]. A container's life with it:
//!
//! 1. [`ImageStore::resolve`] turns what a user wrote into an [`Image`];
//! 2. [`ImageStore::lease`] keeps its layers while the container exists, through restarts and removals;
//! 3. [`rootfs::mount`] makes the container's root of it, and [`rootfs::remove`] takes it away;
//! 4. [`ImageStore::release`] lets go of the layers.
//!
//! The store is safe to open from several processes at once and after being killed at any moment. Every
//! call here is synchronous and touches the disk: call it from `spawn_blocking`. Pulls alone are async.

mod archive;
mod config;
mod digest;
pub(crate) mod files;
mod host;
mod import;
mod index;
mod ingest;
mod lease;
mod limits;
mod manifest;
mod marks;
mod name;
mod platform;
mod progress;
mod pull;
mod record;
pub mod rootfs;
mod rules;
mod staging;
mod store;
mod streams;
mod tape;
mod unpack;

pub use config::{ConfigError, ImageConfig};
pub use digest::{Digest, DigestError};
pub use host::HOST_IMAGE;
pub use import::{ImportError, ImportOptions, ImportReason};
pub use ingest::IngestError;
pub use lease::Lease;
pub use limits::Limits;
pub use manifest::ManifestError;
pub use name::{ImageName, NameError, Selector};
pub use platform::Platform;
pub use progress::{Event, Progress};
pub use pull::{Auth, AuthError, PullError, PullOptions, PullReason};
pub use record::{Content, Image};
pub use rules::PathError;
pub use store::{FsUsage, ImageStore, Removed, StoreError};
pub use streams::OverLimit;
pub use tape::TarError;
pub use unpack::{UnpackError, UnpackReason};
