//! Observes a runtime for a few seconds, or asks the agent that does so all the time, and says in plain words what is
//! wrong. It only reads.
//!
//! Gathering facts and judging them are separate: [`diagnose()`] is a pure function of [`Facts`].

mod agent;
mod calls;
mod diagnose;
mod facts;
mod finding;
mod inspections;
mod readers;
mod render;
mod streams;

use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{Config, Metrics, Pleg};
use rubelet_cri::{Endpoint, Error, ListFilter, Operation, Options, RuntimeClient};
use rubelet_model::ContainerState;
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Found, NotFound, Runtime};
use crate::local::{AgentClient, AgentError};
use crate::runtime_kind::RuntimeKind;
use crate::watch::Events;

use agent::{AgentFacts, PodFacts};
use calls::HANGS;
pub(crate) use diagnose::diagnose;
use facts::{Clocks, Condition, Lists, Unanswered};
pub(crate) use facts::{EndedRuntime, Facts};
pub(crate) use finding::{Finding, Severity, Verdict};
pub(crate) use render::{json, text};

/// A container whose creation time is further in the future than this was created while the wall clock was different.
const SOON: Duration = Duration::from_secs(60);

/// How often to ask a runtime for its status while it is observed.
const ASKED_EVERY: Duration = Duration::from_secs(1);
/// How late a timer may be.
const LATE: Duration = Duration::from_millis(100);

/// Gathers what can be found out about a runtime within `time`.
pub(crate) async fn examine(found: Result<Found, NotFound>, time: Duration, events: Events) -> Facts {
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let endpoint = error.endpoint().map(ToString::to_string).unwrap_or_default();
            if time < HANGS && error.silence().is_some() {
                return Facts::of_silence(endpoint, time);
            }
            return Facts { unreachable: Some(error.to_string()), endpoint, ..Facts::default() };
        }
    };
    let end = Instant::now() + time;
    let kind = RuntimeKind::of(&found.runtime);
    let follow_events = events.are_followed_on(&found.runtime);
    let clocks = Clocks::read();
    let mut config = Config::default();
    config.follow_events = follow_events;
    // In these few seconds every change counts, even unannounced ones: a list every second finds them.
    config.longest_period = config.relist_period;
    let mut pleg = Pleg::new(CriObserver::new(found.client.clone()), config, Metrics::default());
    pleg.start();
    let handle = pleg.handle();
    let (conditions, lists) = tokio::join!(conditions_until(&found.client, end), lists(&found.client, end));
    tokio::time::sleep_until(end).await;
    let report = handle.report();
    let stream = follow_events.then(|| report.stream.clone());
    let jump = clocks.jump();
    pleg.stop().await;
    let stalled_readers = readers::stalled(found.client.endpoint().path()).await;
    Facts {
        runtime: found.runtime.to_string(),
        endpoint: found.client.endpoint().to_string(),
        kind,
        conditions,
        lists: Some(lists),
        report: Some(report),
        stream,
        stalled_readers,
        clock_jump: jump,
        looked_for: time,
        ..Facts::default()
    }
}

/// Asks an agent what it knows, and its runtime only for its status, so as not to be a second reader of its events.
///
/// The runtime is asked first: whatever hangs for the doctor has by then hung for the agent as well.
pub(crate) async fn examine_agent(
    agent: &AgentClient,
    place: String,
    time: Duration,
) -> Result<Facts, AgentError> {
    let end = Instant::now() + time;
    let clocks = Clocks::read();
    let mut facts = Facts {
        endpoint: agent.about.runtime_endpoint.clone(),
        runtime: agent.about.runtime.clone(),
        ..Facts::default()
    };
    match agent.about.runtime_endpoint.parse::<Endpoint>() {
        Ok(endpoint) => {
            let client = RuntimeClient::new(endpoint, Options::default(), rubelet_cri::Metrics::default());
            let (version, conditions, lists) = tokio::join!(
                timeout_at(end, client.version()),
                conditions(&client, end),
                lists(&client, end)
            );
            if let Ok(Ok(version)) = version {
                let runtime = Runtime { name: version.runtime_name, version: version.runtime_version };
                facts.kind = RuntimeKind::of(&runtime);
                facts.runtime = runtime.to_string();
            }
            (facts.conditions, facts.lists) = (conditions, Some(lists));
            facts.stalled_readers = readers::stalled(client.endpoint().path()).await;
        }
        Err(error) => {
            let (operation, error) = (Operation::Status, error.to_string());
            facts.conditions = Err(Unanswered::Failed { operation, error, reached: false });
        }
    }
    facts.clock_jump = clocks.jump();
    let (report, pleg, pods) = (agent.report().await?, agent.pleg_report().await?, agent.pods().await?);
    let now = pleg::clock::wall_clock().0;
    let pods = pods.iter().map(|pod| PodFacts::of(pod, now)).collect();
    facts.looked_for = report.uptime;
    facts.stream = Some(pleg.stream.clone());
    facts.report = Some(pleg);
    facts.agent = Some(AgentFacts { place, report, pods });
    Ok(facts)
}

/// Makes one call to the runtime, which may take until `end`.
async fn ask<T>(
    operation: Operation,
    end: Instant,
    question: impl Future<Output = Result<T, Error>>,
) -> Result<T, Unanswered> {
    let asked = Instant::now();
    match timeout_at(end, question).await {
        Ok(Ok(answer)) => Ok(answer),
        // The client has timeouts of its own.
        Ok(Err(error)) if error.is_timeout() => {
            Err(Unanswered::Waited { operation, waited: asked.elapsed() })
        }
        Ok(Err(error)) => Err(Unanswered::Failed {
            operation,
            error: error.explanation().to_string(),
            reached: !error.is_unavailable(),
        }),
        Err(_) => Err(Unanswered::Waited { operation, waited: asked.elapsed() }),
    }
}

/// Returns the conditions that the runtime reports at the end. A runtime that was well at first may hang while it is
/// observed, and a PLEG that receives events has no reason to call it in the meantime.
async fn conditions_until(client: &RuntimeClient, end: Instant) -> Result<Vec<Condition>, Unanswered> {
    loop {
        let said = conditions(client, end).await;
        match next_question(Instant::now(), end) {
            Some(again) => tokio::time::sleep_until(again).await,
            None => return said,
        }
    }
}

/// Returns when to ask again. The last call is made as late as possible, yet early enough to see that it hangs.
fn next_question(now: Instant, end: Instant) -> Option<Instant> {
    let last = end.checked_sub(calls::HANGS + LATE)?;
    (now < last).then(|| last.min(now + ASKED_EVERY))
}

/// Asks the runtime for its conditions.
async fn conditions(client: &RuntimeClient, end: Instant) -> Result<Vec<Condition>, Unanswered> {
    let answer = ask(Operation::Status, end, client.status(false)).await?;
    let conditions = answer.status.unwrap_or_default().conditions.into_iter();
    let condition = |of: rubelet_cri::v1::RuntimeCondition| Condition {
        name: of.r#type,
        is_met: of.status,
        reason: of.reason,
        message: of.message,
    };
    Ok(conditions.map(condition).collect())
}

/// Measures the lists.
async fn lists(client: &RuntimeClient, end: Instant) -> Result<Lists, Unanswered> {
    let start = Instant::now();
    let all = &ListFilter::All;
    let sandboxes = ask(Operation::ListPodSandbox, end, client.list_sandboxes(all)).await?;
    let containers = ask(Operation::ListContainers, end, client.list_containers(all)).await?;
    let in_state = |state| containers.iter().filter(|container| container.state == state).count();
    let soon = pleg::clock::wall_clock().0.saturating_add(SOON.as_nanos() as i64);
    Ok(Lists {
        took: start.elapsed(),
        sandboxes: sandboxes.len(),
        containers: containers.len(),
        running: in_state(ContainerState::Running),
        exited: in_state(ContainerState::Exited),
        unreadable: sandboxes.unreadable + containers.unreadable,
        size: sandboxes.size.max(containers.size),
        in_parts: sandboxes.in_parts || containers.in_parts,
        from_the_future: containers.iter().filter(|container| container.created_at.0 > soon).count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_question_has_time_enough_to_hang_and_comes_no_sooner_than_it_must() {
        let shortest = calls::HANGS + ASKED_EVERY;
        for (steps, answered_in) in (0..200).flat_map(|steps| [(steps, 0), (steps, 7), (steps, 300)]) {
            let begun = Instant::now();
            let end = begun + shortest + Duration::from_millis(50) * steps;
            let (mut asked, answered_in) = (begun, Duration::from_millis(answered_in));
            while let Some(next) = next_question(asked + answered_in, end) {
                asked = next;
            }
            let left = end - asked;
            let most = calls::HANGS + LATE + answered_in;
            assert!((calls::HANGS..=most).contains(&left), "{left:?} of {:?}", end - begun);
        }
    }
}
