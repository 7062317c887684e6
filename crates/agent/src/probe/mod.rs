//! Probes: is a container started, alive, ready?
//!
//! ```text
//! pod actor ──tend──▶ PodProbes ──one task per probe──▶ ask (exec, httpGet, tcpSocket, grpc) ──▶ the container
//!     ▲                   │ watch                          │
//!     └─────verdicts──────┴◀────── course (thresholds) ◀───┘
//! ```
//! A probe belongs to one instance of a container: it starts when that instance runs and ends with it, so the answers
//! of an old instance never count for a new one. What counts as started, alive and ready is decided by [`course`],
//! which is pure; the tasks around it only wait and ask.

mod ask;
mod course;
mod delays;
mod gate;
mod metrics;
mod pace;
mod pod_probes;
mod record;
mod verdicts;
mod worker;

pub(crate) use ask::Asker;
pub(crate) use course::Verdict;
pub use delays::ProbeDelays;
pub(crate) use gate::Gate;
pub use gate::ProbeLimits;
pub(crate) use metrics::ProbeMetrics;
pub(crate) use pod_probes::{PodProbes, Prober};
pub(crate) use record::Record;
pub(crate) use verdicts::{OfContainer, Verdicts};
