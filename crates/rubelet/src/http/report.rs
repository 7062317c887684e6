//! How an agent is, for `rubelet doctor`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State as Extract;
use rubelet_agent::manifest::Severity;
use rubelet_agent::runtime::{CallUnderWay, Target};
use rubelet_model::PodStatus;
use serde::{Deserialize, Serialize};

use super::{Shared, State};

/// How an agent is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentReport {
    /// For how long it has run.
    pub(crate) uptime: Duration,
    /// What is wrong with the sync loop, if something is.
    pub(crate) sync_loop: Option<String>,
    /// Whether the runtime was seen and every source was heard.
    pub(crate) ready: bool,
    /// The sources that something was ever wrong with.
    pub(crate) sources: Vec<SourceReport>,
    /// Calls of the agent itself that the runtime has not answered for a while, the oldest first.
    #[serde(default)]
    pub(crate) calls: Vec<CallReport>,
    /// How late its probes are.
    #[serde(default)]
    pub(crate) probes: ProbeReport,
}

/// A call that was not answered yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallReport {
    /// The kubelet's word for it.
    pub(crate) call: String,
    /// Of which pod, if that is known: namespace and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<String>,
    /// About which sandbox, container or image, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// For how long.
    pub(crate) age: Duration,
    /// How long what it starts may take: the grace of a container, the timeout of a command.
    pub(crate) granted: Duration,
}

/// How late probes are.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProbeReport {
    /// Commands that are due and wait for their turn.
    pub(crate) waiting: usize,
    /// How late the latest is.
    pub(crate) longest: Duration,
}

/// Calls that are younger are as they should be.
const YOUNG: Duration = Duration::from_secs(1);
/// So many calls are told.
const MOST_CALLS: usize = 100;

/// How a source of pods is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceReport {
    pub(crate) name: String,
    /// Manifests that cannot be used.
    pub(crate) problems: Vec<String>,
}

pub(super) async fn report(Extract(state): Extract<State>) -> Json<AgentReport> {
    let agent = &state.0.agent;
    let sources = agent
        .problems()
        .borrow()
        .iter()
        .map(|(source, problems)| SourceReport {
            name: source.to_string(),
            problems: problems
                .iter()
                .filter(|problem| problem.severity == Severity::Error)
                .map(ToString::to_string)
                .collect(),
        })
        .collect();
    let delays = state.0.numbers.probe_delays();
    Json(AgentReport {
        uptime: state.0.started.elapsed(),
        sync_loop: agent.pulse().check().err().map(|error| error.to_string()),
        ready: agent.ready().borrow().is_ready(),
        sources,
        calls: calls(&state.0),
        probes: ProbeReport { waiting: delays.waiting, longest: delays.longest },
    })
}

/// The calls that are not young any more. The book knows ids; whose they are, the cache does.
fn calls(state: &Shared) -> Vec<CallReport> {
    let old: Vec<CallUnderWay> =
        state.calls.under_way().into_iter().filter(|call| call.age >= YOUNG).take(MOST_CALLS).collect();
    if old.is_empty() {
        return Vec::new();
    }
    let pods: Vec<Arc<PodStatus>> =
        state.pleg.cache().all().into_iter().filter_map(|(_, status)| status.ok()).collect();
    let owner = |id: &str| {
        let has_it = |status: &&Arc<PodStatus>| {
            status.containers.iter().any(|container| container.id.as_str() == id)
                || status.sandboxes.iter().any(|sandbox| sandbox.id.as_str() == id)
        };
        pods.iter().find(has_it).map(|status| status.pod.to_string())
    };
    let report = |call: CallUnderWay| {
        let (pod, target) = match call.target {
            Target::Pod(pod) => (Some(pod), None),
            Target::Thing(id) => (owner(&id), Some(id)),
            Target::Image(image) => (None, Some(image)),
            Target::Node => (None, None),
        };
        let call_name = call.operation.as_str().to_owned();
        CallReport { call: call_name, pod, target, age: call.age, granted: call.granted }
    };
    old.into_iter().map(report).collect()
}
