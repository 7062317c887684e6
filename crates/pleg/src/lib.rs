//! A pod lifecycle event generator: it watches a container runtime, turns its changes into pod lifecycle events, and
//! keeps a cache of pod statuses that is always fresh.
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
//! Print the pod events of a runtime:
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
//! # What it guarantees
//!
//! - **One writer** (P1). Only lists and inspections change what is known. A [nudge](Handle::nudge), or an
//!   [announcement](Announcement) of the runtime, changes when something is noticed, never what.
//! - **A total table** (P2). Every pair of old and new state has a row; the same view twice tells nothing.
//! - **Facts once, in order** (P3). `ContainerStarted`, `ContainerDied` and `ContainerRemoved` each follow a real change;
//!   death comes before removal, nothing after it. Folding all events over the empty node gives what is there.
//! - **No commit without an inspection** (P4). A failed one is made again, and its error is in the cache.
//! - **Freshness that does not lie** (P5). [`newer_than(t)`](CacheReader::newer_than) never returns something read
//!   before `t`: moments are taken before the runtime is asked, on a monotonic clock.
//! - **Cache, then event, then global time** (P6). Whoever hears of a change can already read it.
//! - **Isolation** (P7). A pod whose inspection hangs or fails delays nobody else's events, freshness or health. It is
//!   [named](Health::stuck_pods), with the call and its age.
//! - **No event lost** (P8). A slow subscriber gets a pod's waiting events as one [`PodSync`](EventKind::PodSync) that says
//!   how many it stands for.
//! - **Short lives are told** (P9). What came and went between two looks is told if the runtime announced it, and an exit
//!   code that was announced is not lost with its container.
//! - **Not understood is not removed** (P10). A list that fails changes nothing, and after a reconnect removal needs two
//!   lists that agree.
//! - **A stream is followed for ever** (P11), and read without delay whatever else hangs.
//! - **Lists are as rare as they may be** (P12): once a second, and up to once a minute while the runtime announces every
//!   change.
//!
//! The properties are tested over random histories; `docs/pleg.md` in the repository tells how it differs from the
//! kubelet's, and why.
//!
//! # Features
//!
//! - `cri`: the `cri` module, an observer over a CRI client. Without it the crate needs neither tonic nor protobuf.
//! - `record`: the `record` module, a flight recorder and its replay.
//!
//! Neither is on by default. [`model`] is the crate `rubelet-model`, whose types stand in most signatures here.

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

// What the READMEs say compiles.
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
