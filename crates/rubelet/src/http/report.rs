//! How an agent is, for `rubelet doctor`.

use std::time::Duration;

use axum::Json;
use axum::extract::State as Extract;
use rubelet_agent::manifest::Severity;
use serde::{Deserialize, Serialize};

use super::State;

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
}

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
    Json(AgentReport {
        uptime: state.0.started.elapsed(),
        sync_loop: agent.pulse().check().err().map(|error| error.to_string()),
        ready: agent.ready().borrow().is_ready(),
        sources,
    })
}
