//! The state of an agent, for `rubelet doctor`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State as Extract;
use rubelet_agent::manifest::Severity;
use rubelet_agent::runtime::{CallUnderWay, Target};
use rubelet_model::PodStatus;
use serde::{Deserialize, Serialize};

use super::{Shared, State};

/// The state of an agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentReport {
    /// How long it has been running.
    #[serde(rename = "uptimeSeconds", with = "pleg::seconds")]
    pub(crate) uptime: Duration,
    /// What is wrong with the sync loop, if anything.
    pub(crate) sync_loop: Option<String>,
    /// Whether it knows which of its pods exist on this machine.
    #[serde(default = "yes")]
    pub(crate) surveyed: bool,
    /// The sources that it has not read yet.
    #[serde(default)]
    pub(crate) unheard: Vec<String>,
    /// The sources that have ever had a problem.
    pub(crate) sources: Vec<SourceReport>,
    /// The agent's own calls that the runtime has not answered for a while, oldest first.
    #[serde(default)]
    pub(crate) calls: Vec<CallReport>,
    /// How late its probes are.
    #[serde(default)]
    pub(crate) probes: ProbeReport,
}

/// The default for agents that do not report it.
fn yes() -> bool {
    true
}

impl AgentReport {
    /// Says what it does not know yet: until it does, its lists may lack pods.
    pub(crate) fn not_known_yet(&self) -> Option<String> {
        not_known_yet(self.surveyed, &self.unheard)
    }
}

/// Says in words what is not known yet.
pub(crate) fn not_known_yet(surveyed: bool, unheard: &[impl ToString]) -> Option<String> {
    if !surveyed {
        return Some("the pods on this machine have not been listed yet".to_owned());
    }
    let names: Vec<String> = unheard.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| format!("not read yet: {}", names.join(", ")))
}

/// A call that has not been answered yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallReport {
    /// The kubelet's name for the call.
    pub(crate) call: String,
    /// The namespace and name of its pod, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<String>,
    /// The sandbox, container or image that it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// How long ago it was made.
    #[serde(rename = "ageSeconds", with = "pleg::seconds")]
    pub(crate) age: Duration,
    /// How long the operation may take: the grace period of a container, or the timeout of a command. `None` if it has
    /// no limit, as with an image pull.
    #[serde(default, rename = "grantedSeconds", with = "pleg::optional_seconds")]
    pub(crate) granted: Option<Duration>,
}

/// How late probes are.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProbeReport {
    /// Commands that are due and wait for their turn.
    pub(crate) waiting: usize,
    /// The delay of the latest one.
    #[serde(rename = "longestSeconds", with = "pleg::seconds")]
    pub(crate) longest: Duration,
}

/// Calls younger than this are normal.
const YOUNG: Duration = Duration::from_secs(1);
/// The maximum number of reported calls.
const MOST_CALLS: usize = 100;

/// The state of a source of pods.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceReport {
    pub(crate) name: String,
    /// Its manifests that cannot be used.
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
    let readiness = agent.ready().borrow().clone();
    Json(AgentReport {
        uptime: state.0.started.elapsed(),
        sync_loop: agent.pulse().check().err().map(|error| error.to_string()),
        surveyed: readiness.was_surveyed,
        unheard: readiness.unheard.iter().map(ToString::to_string).collect(),
        sources,
        calls: calls(&state.0),
        probes: ProbeReport { waiting: delays.waiting, longest: delays.longest },
    })
}

/// Returns the calls that are no longer young. The call book knows ids; the cache knows which pods they belong to.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_seconds_for_programs() {
        let call = CallReport {
            call: "stop_container".to_owned(),
            pod: Some("shop/web".to_owned()),
            target: Some("c0ffee".to_owned()),
            age: Duration::from_millis(1_500),
            granted: Some(Duration::from_secs(30)),
        };
        let report = AgentReport {
            uptime: Duration::from_millis(62_500),
            surveyed: true,
            unheard: vec!["file /pods".to_owned()],
            calls: vec![
                call,
                CallReport { granted: None, call: "pull_image".to_owned(), ..CallReport::default() },
            ],
            probes: ProbeReport { waiting: 1, longest: Duration::from_millis(250) },
            ..AgentReport::default()
        };
        let wanted = serde_json::json!({
            "uptimeSeconds": 62.5,
            "syncLoop": null,
            "surveyed": true,
            "unheard": ["file /pods"],
            "sources": [],
            "calls": [{
                "call": "stop_container", "pod": "shop/web", "target": "c0ffee", "ageSeconds": 1.5, "grantedSeconds": 30.0,
            }, {
                "call": "pull_image", "ageSeconds": 0.0, "grantedSeconds": null,
            }],
            "probes": {"waiting": 1, "longestSeconds": 0.25},
        });
        assert_eq!(serde_json::to_value(&report).unwrap(), wanted);
        let read: AgentReport = serde_json::from_value(wanted).unwrap();
        assert_eq!((read.uptime, read.calls[0].age), (report.uptime, report.calls[0].age));
        assert_eq!(
            read.calls.iter().map(|call| call.granted).collect::<Vec<_>>(),
            [Some(Duration::from_secs(30)), None]
        );
    }

    #[test]
    fn an_agent_of_before_is_understood() {
        let before = serde_json::json!({"uptimeSeconds": 62.5, "syncLoop": null, "sources": []});
        let read: AgentReport = serde_json::from_value(before).unwrap();
        assert_eq!(read.not_known_yet(), None);
    }
}
