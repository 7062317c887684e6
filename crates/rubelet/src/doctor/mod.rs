//! Looks at a runtime for a few seconds, and says in plain words what is wrong with it. It only reads.
//!
//! Gathering facts and judging them are apart: [`diagnose()`] is a pure function of [`Facts`].

mod diagnose;
mod facts;
mod readers;
mod render;

use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{Config, Metrics, Pleg};
use rubelet_cri::{ListFilter, RuntimeClient};
use rubelet_model::{ContainerState, UnixNanos};
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Found, NotFound};
use crate::runtime_kind::RuntimeKind;
use crate::watch::Events;

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
    let stream = follow_events.then(|| handle.stream_facts());
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
    }
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
