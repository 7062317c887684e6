//! The HTTP interface of a running agent: health, metrics and pods on loopback, and a little more on a socket in the
//! agent's folder.
//!
//! It has a thread of its own and only reads what exists already, so it answers whatever hangs.

mod bounded;
mod health;
mod metrics;
mod report;
mod server;
mod vitals;

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Path, State as Extract};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use k8s_openapi::api::core::v1::Event;
use prometheus_client::registry::Registry;
use rubelet_agent::board::{PodView, Stage};
use rubelet_agent::event::to_event;
use rubelet_agent::metrics::Metrics;
use rubelet_agent::runtime::CallBook;
use rubelet_agent::sync_loop::{AgentHandle, PodSelector};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub(crate) use report::{AgentReport, CallReport, not_known_yet};
#[cfg(test)]
pub(crate) use report::{ProbeReport, SourceReport};
pub(crate) use server::{Server, ServerError};
pub(crate) use vitals::Vitals;

/// What clients on the same machine need to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    pub(crate) runtime_endpoint: String,
    pub(crate) runtime: String,
    pub(crate) pod_logs: PathBuf,
    /// The suffix of pod names.
    pub(crate) node_name: String,
}

/// The state that requests are answered from.
#[derive(Clone)]
pub(crate) struct State(Arc<Shared>);

struct Shared {
    agent: AgentHandle,
    pleg: pleg::Handle,
    calls: CallBook,
    numbers: Metrics,
    registry: Registry,
    about: About,
    started: Instant,
}

/// Handles to the parts of an agent that know its state.
pub(crate) struct Witnesses {
    pub(crate) agent: AgentHandle,
    pub(crate) pleg: pleg::Handle,
    pub(crate) calls: CallBook,
    pub(crate) numbers: Metrics,
}

impl State {
    pub(crate) fn new(witnesses: Witnesses, registry: Registry, about: About) -> Self {
        let Witnesses { agent, pleg, calls, numbers } = witnesses;
        Self(Arc::new(Shared { agent, pleg, calls, numbers, registry, about, started: Instant::now() }))
    }
}

/// The endpoints for everybody on this machine.
fn public(state: State) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::metrics))
        .route("/pods", get(pods))
        .route("/debug/pleg", get(debug_pleg))
        .with_state(state)
}

/// The endpoints for those with access to the agent's folder.
fn private(state: State) -> Router {
    Router::new()
        .route("/about", get(about))
        .route("/report", get(report::report))
        .route("/views", get(views))
        .route("/views/{uid}", get(one_view))
        .route("/stop", post(stop))
        .with_state(state.clone())
        .merge(public(state))
}

/// A `v1.PodList`.
async fn pods(Extract(state): Extract<State>) -> Response {
    let items = state.0.agent.board().all().iter().map(|view| view.to_pod()).collect();
    let list = k8s_openapi::List::<k8s_openapi::api::core::v1::Pod> { items, ..Default::default() };
    Json(list).into_response()
}

async fn debug_pleg(Extract(state): Extract<State>) -> Response {
    Json(state.0.pleg.report()).into_response()
}

async fn about(Extract(state): Extract<State>) -> Json<About> {
    Json(state.0.about.clone())
}

/// A pod, with what only this agent knows about it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    pod: k8s_openapi::api::core::v1::Pod,
    stage: Stage,
    events: Vec<Event>,
}

impl View {
    fn of(view: &PodView) -> Self {
        Self {
            pod: view.to_pod(),
            stage: view.stage,
            events: view.events.iter().map(|event| to_event(event, &view.pod)).collect(),
        }
    }
}

async fn views(Extract(state): Extract<State>) -> Response {
    let all = state.0.agent.board().all();
    Json(all.iter().map(|view| View::of(view)).collect::<Vec<_>>()).into_response()
}

/// Only an agent that knows all pods, or has seen the pod go, can say that it does not exist.
async fn one_view(Extract(state): Extract<State>, Path(uid): Path<String>) -> Response {
    let (agent, uid) = (&state.0.agent, uid.as_str().into());
    match agent.board().get(&uid) {
        Some(view) => Json(View::of(&view)).into_response(),
        None if agent.ready().borrow().is_ready() || agent.board().is_gone(&uid) => {
            StatusCode::NOT_FOUND.into_response()
        }
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Which pods to stop.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StopRequest {
    /// The pod; all pods if `None`.
    pub(crate) uid: Option<String>,
    /// The grace period in seconds.
    pub(crate) grace: Option<u64>,
}

async fn stop(Extract(state): Extract<State>, Json(request): Json<StopRequest>) -> StatusCode {
    let which = request.uid.map_or(PodSelector::All, |uid| PodSelector::One(uid.as_str().into()));
    state.0.agent.stop(which, request.grace);
    StatusCode::ACCEPTED
}
