//! A pod lifecycle event generator (PLEG): it watches a container runtime, turns its changes into pod lifecycle events,
//! and keeps a cache of pod statuses that knows how fresh it is.
//!
//! ```text
//!             ┌────────────── Pleg ───────────────────────────────┐
//!  runtime ◀──┤ Observe ◀─ calls ── driver ── inputs ──▶ core     │
//!             │                        │                 (pure)   │
//!             │                        ◀── effects ───────┘       │
//!             │                        ├──▶ cache ──▶ get, newer_than
//!             │                        └──▶ feed  ──▶ any number of subscribers
//!             └───────────────────────────────────────────────────┘
//! ```
//!
//! This program prints the pod events of a runtime:
//!
#![cfg_attr(feature = "cri", doc = "```no_run")]
#![cfg_attr(not(feature = "cri"), doc = "```ignore")]
//! use pleg::{Config, Metrics, Pleg, cri::CriObserver};
//! use rubelet_cri::{Options, RuntimeClient};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let endpoint = "unix:///run/containerd/containerd.sock".parse()?;
//!     let client = RuntimeClient::new(endpoint, Options::default(), rubelet_cri::Metrics::default());
//!     let mut pleg = Pleg::new(CriObserver::new(client), Config::default(), Metrics::default());
//!     let mut events = pleg.handle().subscribe();
//!     pleg.start();
//!     while let Some(event) = events.next().await {
//!         let subject = event.subject.as_ref().map_or("", |subject| subject.id());
//!         println!("{} {} {subject}", event.pod, event.kind);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Terms
//!
//! - A *list* shows all pods with the states of their sandboxes and containers (the list view). A *look* is a list of a
//!   single pod.
//! - An *inspection* reads the status of everything in one pod. When it succeeds, the list view that it was made for is
//!   *committed*, and what differs from the view committed before becomes events.
//! - A *hint* makes the PLEG look at a pod sooner. It is either a *nudge*, from a program ([`Handle::nudge`]), or an
//!   *announcement*, from the event stream of the runtime ([`Announcement`]).
//! - A pod is *settled* if the newest list or look showed nothing that has not been inspected and committed. Otherwise
//!   it is *held*.
//! - The *global time* is a [`Stamp`]: as of this moment, the cache is right about every pod that is not held
//!   ([`CacheReader::as_of`]). Each successful full list advances it, except the first one after a reconnect.
//!
//! # Guarantees
//!
//! - **One writer** (P1). Only lists and inspections change what is known. A hint changes when something is noticed,
//!   never what.
//! - **A total table** (P2). Every pair of an old and a new state has a row; the same view twice yields no events.
//! - **Facts once, in order** (P3). `ContainerStarted`, `ContainerDied` and `ContainerRemoved` each follow a real
//!   change; death comes before removal, and nothing comes after it. Applying all events to an empty node yields the
//!   current state.
//! - **No commit without an inspection** (P4). A failed inspection is retried, and its error is in the cache.
//! - **Honest freshness** (P5). [`newer_than(t)`](CacheReader::newer_than) never returns anything that was read before
//!   `t`: stamps are taken before the runtime is asked, on a monotonic clock.
//! - **Cache, then event, then global time** (P6). Whoever receives an event can already read the change in the cache.
//! - **Isolation** (P7). A pod whose inspection hangs or fails delays no other pod's events or freshness, nor the
//!   health of the PLEG. It is [named](Health::stuck_pods), with the call and its age.
//! - **No event lost** (P8). A slow subscriber gets a pod's waiting events as one [`PodSync`](EventKind::PodSync) that
//!   says how many events it stands for.
//! - **Short lives are reported** (P9). A container that came and went between two lists or looks is reported if the
//!   runtime announced it, and an announced exit code is not lost with its container.
//! - **Not understood is not removed** (P10). A list that fails changes nothing, and after a reconnect a removal needs
//!   two lists that agree.
//! - **The event stream is followed for ever** (P11), and read without delay whatever else hangs.
//! - **Lists are as rare as possible** (P12): once a second, and down to once a minute while the runtime announces
//!   every change.
//!
//! These properties are tested over random histories. `docs/pleg.md` in the repository says how this PLEG differs from
//! the kubelet's, and why.
//!
//! # Features
//!
//! - `cri`: the `cri` module, an observer that uses a CRI client. Without it, the crate needs neither tonic nor
//!   protobuf.
//! - `record`: the `record` module, a flight recorder and its replay.
//!
//! Neither is enabled by default. [`model`] is the crate `rubelet-model`, whose types appear in most signatures here.

mod announce;
mod cache;
pub mod clock;
mod core;
#[cfg(feature = "cri")]
pub mod cri;
mod diff;
mod driver;
mod event;
mod feed;
mod go_duration;
mod handle;
mod health;
mod hints;
mod lanes;
mod live_metrics;
mod metrics;
mod observe;
mod pairs;
mod progress;
#[cfg(feature = "record")]
pub mod record;
mod records;
mod report;
mod requests;
mod shared;
mod stream_facts;
mod told;

pub use rubelet_model as model;

// Makes `cargo test` compile the READMEs' examples.
#[cfg(all(doctest, feature = "cri"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use announce::{Announcement, Announcements, LifeStep, NoAnnouncements, StreamError};
pub use cache::{CacheReader, CachedStatus, Closed};
pub use clock::{Clock, ClockJump, Now, Stamp};
pub use core::{Config, PeriodReason};
pub use event::{EventKind, Exit, PodEvent, Subject, Trigger};
pub use feed::{PER_POD, Subscription};
pub use go_duration::{GoDuration, optional_seconds, seconds};
pub use handle::{Handle, Pleg};
pub use health::{Health, HungLook, StuckPod};
pub use metrics::Metrics;
pub use observe::{Call, Failure, Listing, Observe, ObserveError};
pub use progress::{CallReport, Calling, Progress};
pub use report::{Report, StageReport, StreamReport};
pub use shared::Reach;
pub use stream_facts::StreamFacts;
