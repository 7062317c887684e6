//! Everything there is to know about a PLEG at one moment, for programs: the body of `/debug/pleg`.

use std::sync::Arc;
use std::time::Duration;

use rubelet_model::PodRef;
use serde::{Deserialize, Serialize};

use crate::announce::StreamError;
use crate::clock::{ClockJump, Stamp};
use crate::core::{Core, PeriodReason};
use crate::health::Health;
use crate::progress::{CallInFlight, CallReport, Stage};
use crate::stream_facts::StreamFacts;

/// The state of a PLEG.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether all is well and, if not, what hangs.
    pub health: Health,
    /// The state of the event stream.
    pub stream: StreamReport,
    /// The current period: the time from the end of one full list to the start of the next.
    #[serde(rename = "relistPeriodSeconds", with = "crate::go_duration::seconds")]
    pub relist_period: Duration,
    /// Why the period last changed, if it ever has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relist_reason: Option<PeriodReason>,
    /// The number of known pods.
    pub pods: usize,
    /// The number of pods that are being inspected.
    pub inspections_in_flight: usize,
    /// The calls in progress, and what they are made for.
    pub calls: Vec<StageReport>,
    /// The last jump of the wall clock, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_jump: Option<ClockJump>,
    /// Why recording, although requested, does not happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_recorded: Option<Arc<str>>,
}

/// The state of the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamReport {
    /// Whether the stream is open.
    pub open: bool,
    /// How long it has been open, if it is.
    #[serde(
        default,
        rename = "openSeconds",
        skip_serializing_if = "Option::is_none",
        with = "crate::go_duration::optional_seconds"
    )]
    pub open_for: Option<Duration>,
    /// How long ago the last announcement was received.
    #[serde(
        default,
        rename = "lastHeardSeconds",
        skip_serializing_if = "Option::is_none",
        with = "crate::go_duration::optional_seconds"
    )]
    pub last_heard: Option<Duration>,
    /// Why it last ended, if it has, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<Arc<str>>,
    /// Why it last ended, if it has, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<StreamError>,
    /// How often it was opened.
    pub opened: u64,
    /// How many announcements were received.
    pub heard: u64,
    /// How many changes were found that had not been announced.
    pub unannounced: u64,
    /// How many containers and sandboxes lived and were gone before anybody looked.
    pub short_lives: u64,
}

/// A call in progress, and what it is made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageReport {
    /// `list`, `look` or `inspect`.
    pub stage: Arc<str>,
    /// The pod; `None` for a list of all pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The call.
    #[serde(flatten)]
    pub call: CallReport,
}

impl Report {
    pub(crate) fn new(core: &Core, calls: &[(Stage, CallInFlight)], now: Stamp) -> Self {
        let stage = |(stage, call): &(Stage, CallInFlight)| {
            let (stage, pod) = match stage {
                Stage::List => ("list", None),
                Stage::Look(pod) => ("look", Some(core.named(pod))),
                Stage::Inspect(pod) => ("inspect", Some(core.named(pod))),
            };
            StageReport { stage: stage.into(), pod, call: call.report(now) }
        };
        Self {
            health: core.health(calls, now),
            stream: StreamReport::new(core.stream_facts(), now),
            relist_period: core.period(),
            relist_reason: core.period_reason(),
            pods: core.pod_count(),
            inspections_in_flight: core.inspections_in_flight(),
            calls: calls.iter().map(stage).collect(),
            clock_jump: None,
            not_recorded: None,
        }
    }
}

impl StreamReport {
    /// Converts facts to a report as of `now`, with ages in place of moments.
    #[must_use]
    pub fn new(facts: &StreamFacts, now: Stamp) -> Self {
        Self {
            open: facts.open_since.is_some(),
            open_for: facts.open_since.map(|since| since.until(now)),
            last_heard: facts.last_heard.map(|at| at.until(now)),
            last_end: facts.last_end.as_ref().map(|(_, error)| error.to_string().into()),
            last_error: facts.last_end.as_ref().map(|(_, error)| error.clone()),
            opened: facts.opened,
            heard: facts.heard,
            unannounced: facts.unannounced,
            short_lives: facts.short_lives,
        }
    }
}
