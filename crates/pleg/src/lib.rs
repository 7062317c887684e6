//! A pod lifecycle event generator.
mod cache;
pub mod clock;
pub mod core;
#[cfg(feature = "cri")]
pub mod cri;
pub mod diff;
mod driver;
mod event;
mod feed;
mod go_duration;
mod handle;
mod health;
mod lanes;
mod metrics;
mod observe;
mod progress;
mod records;
mod requests;
mod shared;

pub use cache::{CacheReader, CachedStatus, Closed};
pub use clock::{Clock, Now, Stamp};
pub use core::Config;
pub use event::{EventKind, Exit, PodEvent, Subject, Trigger};
pub use feed::{PER_POD, Subscription};
pub use go_duration::GoDuration;
pub use handle::{Handle, Pleg};
pub use health::{Health, ListFacts, PodFacts, StuckPod};
pub use metrics::Metrics;
pub use observe::{Call, Failure, Listing, Observe, ObserveError, Progress};
pub use progress::{CallInFlight, CallReport, Stage};
pub use records::Snapshot;
pub use shared::Reach;
