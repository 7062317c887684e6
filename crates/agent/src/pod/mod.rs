//! One pod: what it should be, what to do about it, and the task that does it.
//!
//! ```text
//! mailbox ──▶ lifecycle ──▶ plan ──▶ act ──▶ runtime
//!  (merges)     (next)      (pure)    │
//!                 ▲                   └──▶ status, events
//!                 └── a status read after the last action ── PLEG's cache
//! ```

mod act;
mod actor;
pub(crate) mod app_armor;
mod backoff;
mod config;
pub(crate) mod demand;
mod files;
mod grace;
mod grants;
mod hash;
mod journal;
mod last_words;
mod lifecycle;
mod mailbox;
mod order;
mod plan;
mod replaced;
mod resize;
mod restart;
mod spec;
pub(crate) mod stop_signal;
#[cfg(test)]
pub(crate) mod testkit;
mod unapplied;
mod written;

pub(crate) use act::Tools;
pub use act::{EndedWithoutAgent, LoneContainer};
pub(crate) use actor::{Actor, Parts as ActorParts};
pub use backoff::Growth;
pub use config::{Machine, NodeDns, SecuritySettings};
pub(crate) use config::{NODE_CRITICAL, PodAmounts, QosClass, pod_amounts, qos_class, shares};
pub(crate) use demand::{Amounts, limit, limits_of_containers, notation, requests, requests_of_containers};
pub(crate) use files::remove_logs_of_pod;
pub(crate) use grants::{Grants, Sizes};
pub(crate) use journal::Journal;
pub(crate) use mailbox::{End, Mail, Mailbox, Refused, Wish};
pub(crate) use replaced::Replaced;
pub(crate) use resize::{asks_for_more, changed_for_good, is_resized, with_sizes_of};
pub(crate) use restart::{asks_for_all, could_ask_for_all, init_exit_code, restarts_after};
pub(crate) use spec::{
    ContainerKind, RestartPolicy, all_containers, containers, full_name, init_containers, is_being_deleted,
    is_orphan, is_sidecar, orphan, pod_ref, uses_host_network,
};
