//! Looks at a runtime for a few seconds, or asks the agent that does so all the time, and says in plain words what is
//! wrong. It only reads.
//!
//! Gathering facts and judging them are apart: [`diagnose()`] is a pure function of [`Facts`].

mod agent;
mod diagnose;
mod facts;
mod readers;
mod render;

use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{Config, Metrics, Pleg};
use rubelet_cri::{Endpoint, ListFilter, Options, RuntimeClient};
use rubelet_model::{ContainerState, UnixNanos};
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Found, NotFound, Runtime};
use crate::local::{AgentClient, AgentError};
use crate::runtime_kind::RuntimeKind;
use crate::watch::Events;

use agent::{AgentFacts, PodFacts};
pub(crate) use diagnose::{Finding, Severity, diagnose};
pub(crate) use facts::Facts;
use facts::{Clocks, Condition, Lists};
pub(crate) use render::{json, text};

/// Gathers what can be known of a runtime within `time`.
pub(crate) async fn examine(found: Result<Found, NotFound>, time: Duration, events: Events) -> Facts {
    let found = match found {
        Ok(found) => found,
        Err(error) => return Facts { unreachable: Some(error.to_string()), ..Facts::default() },
    };
    let end = Instant::now() + time;
    let kind = RuntimeKind::of(&found.runtime);
    let follow_events = events.are_followed_on(&found.runtime);
    let clocks = Clocks::read();
    let mut config = Config::default();
    config.follow_events = follow_events;
    let mut pleg = Pleg::new(CriObserver::new(found.client.clone()), config, Metrics::default());
    pleg.start();
    let handle = pleg.handle();
    let (conditions, lists) = tokio::join!(conditions(&found.client, end), lists(&found.client, end));
    tokio::time::sleep_until(end).await;
    let report = handle.report();
    let stream = follow_events.then(|| report.stream.clone());
    let jump = clocks.jump();
    let futures = future_containers(&handle, pleg::clock::wall_clock());
    pleg.stop().await;
    Facts {
        unreachable: None,
        runtime: found.runtime.to_string(),
        endpoint: found.client.endpoint().to_string(),
        kind,
        conditions,
        lists,
        report: Some(report),
        stream,
        stopped_readers: readers::stopped(found.client.endpoint().path()),
        clock_jump: jump,
        from_the_future: futures,
        looked_for: time,
        agent: None,
    }
}

/// Asks an agent what it knows, and its runtime no more than how it is: no second reader of its events.
pub(crate) async fn examine_agent(
    agent: &AgentClient,
    place: String,
    time: Duration,
) -> Result<Facts, AgentError> {
    let end = Instant::now() + time;
    let clocks = Clocks::read();
    let (report, pleg, pods) = (agent.report().await?, agent.pleg_report().await?, agent.pods().await?);
    let mut facts = Facts {
        endpoint: agent.about.runtime_endpoint.clone(),
        runtime: agent.about.runtime.clone(),
        stream: Some(pleg.stream.clone()),
        looked_for: report.uptime,
        report: Some(pleg),
        ..Facts::default()
    };
    let now = pleg::clock::wall_clock().0;
    let pods = pods.iter().map(|pod| PodFacts::of(pod, now)).collect();
    facts.agent = Some(AgentFacts { place, report, pods });
    match agent.about.runtime_endpoint.parse::<Endpoint>() {
        Ok(endpoint) => {
            let client = RuntimeClient::new(endpoint, Options::default(), rubelet_cri::Metrics::default());
            if let Ok(Ok(version)) = timeout_at(end, client.version()).await {
                let runtime = Runtime { name: version.runtime_name, version: version.runtime_version };
                facts.kind = RuntimeKind::of(&runtime);
                facts.runtime = runtime.to_string();
            }
            (facts.conditions, facts.lists) = tokio::join!(conditions(&client, end), lists(&client, end));
            facts.stopped_readers = readers::stopped(client.endpoint().path());
        }
        Err(error) => facts.conditions = Err(error.to_string()),
    }
    facts.clock_jump = clocks.jump();
    Ok(facts)
}

/// What the runtime says of itself; an error if it does not.
async fn conditions(client: &RuntimeClient, end: Instant) -> Result<Vec<Condition>, String> {
    let answer = match timeout_at(end, client.status(false)).await {
        Ok(answer) => answer.map_err(|error| error.explanation().to_string())?,
        Err(_) => return Err("no answer".to_owned()),
    };
    let conditions = answer.status.unwrap_or_default().conditions.into_iter();
    let condition = |of: rubelet_cri::v1::RuntimeCondition| Condition {
        name: of.r#type,
        is_met: of.status,
        reason: of.reason,
        message: of.message,
    };
    Ok(conditions.map(condition).collect())
}

/// What the lists are like, if they answer.
async fn lists(client: &RuntimeClient, end: Instant) -> Option<Lists> {
    let start = Instant::now();
    let sandboxes = timeout_at(end, client.list_sandboxes(&ListFilter::All)).await.ok()?.ok()?;
    let containers = timeout_at(end, client.list_containers(&ListFilter::All)).await.ok()?.ok()?;
    let in_state = |state| containers.iter().filter(|container| container.state == state).count();
    Some(Lists {
        took: start.elapsed(),
        sandboxes: sandboxes.len(),
        containers: containers.len(),
        running: in_state(ContainerState::Running),
        exited: in_state(ContainerState::Exited),
        unreadable: sandboxes.unreadable + containers.unreadable,
        largest_message: sandboxes.largest_message.max(containers.largest_message),
    })
}

/// How many containers were made more than a minute from now.
fn future_containers(handle: &pleg::Handle, now: UnixNanos) -> usize {
    let soon = now.0.saturating_add(60_000_000_000);
    let statuses = handle.cache().all().into_iter().filter_map(|(_, status)| status.ok());
    statuses.map(|status| status.containers.iter().filter(|made| made.created_at.0 > soon).count()).sum()
}
