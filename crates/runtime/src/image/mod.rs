//! Images: a content-addressed store, archives, registries, and the root filesystems made from them.
//!
//! Start at [`ImageStore`]. In the life of a container:
//!
//! 1. [`ImageStore::resolve`] turns what a user wrote into an [`Image`];
//! 2. [`ImageStore::lease`] keeps its layers while the container exists, through restarts and removals;
//! 3. [`rootfs::mount`] makes the container's root from it, and [`rootfs::remove`] removes that root;
//! 4. [`ImageStore::release`] gives the layers up.
//!
//! The store may be opened by several processes at once, and survives being killed at any moment. Every call is
//! synchronous and touches the disk, so call it from `spawn_blocking`; only pulls are async.

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
