//! One pod: what it should be, what to do about it, and the task that does it.
//!
//! ```text
//! mailbox ──▶ lifecycle ──▶ plan ──▶ act ──▶ runtime
//!  (merges)     (next)      (pure)    │
//!                 ▲                   └──▶ status, events
//!                 └── a status read after the last action ── PLEG's cache
//! ```

mod backoff;
mod config;
mod grace;
mod hash;
mod lifecycle;
mod mailbox;
mod order;
mod plan;
mod restart;
mod spec;
#[cfg(test)]
pub(crate) mod testkit;

pub(crate) use config::qos_class;
pub(crate) use restart::{restarts_after, should_start};
pub(crate) use spec::{containers, init_containers, is_being_deleted, is_sidecar, uses_host_network};
