//! One pod: what it should be, what to do about it, and the task that does it.
//!
//! ```text
//! mailbox ──▶ lifecycle ──▶ plan ──▶ act ──▶ runtime
//!  (merges)     (next)      (pure)    │
//!                 ▲                   └──▶ status, events
//!                 └── a status read after the last action ── PLEG's cache
//! ```

mod backoff;
mod grace;
mod hash;
mod lifecycle;
mod mailbox;
mod order;
mod plan;
mod restart;
mod spec;
#[cfg(test)]
mod testkit;
