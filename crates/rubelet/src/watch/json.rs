//! What is printed for programs: one JSON object a line, each with a `type`.

use jiff::Timestamp;
use pleg::{CallReport, PodEvent, StuckPod, Subject, Trigger};
use rubelet_model::{ContainerState, ContainerStatus, PodRef, PodStatus, SandboxState, UnixNanos};
use serde::Serialize;

use super::{Item, Note};

/// The line for an item.
pub(super) fn line(item: &Item<'_>) -> String {
    let object = match item {
        Item::Watching { runtime, endpoint, .. } => Object::Watching { runtime, endpoint },
        Item::Pod(status) => Object::Pod(pod(status)),
        Item::Event(event) => Object::Event(self::event(event)),
        Item::Note(Note::RuntimeLost { reason }) => Object::RuntimeLost { reason },
        Item::Note(Note::RuntimeBack { after }) => {
            Object::RuntimeBack { after_seconds: Some(after.as_secs_f64()) }
        }
        Item::Note(Note::Reconnected) => Object::RuntimeBack { after_seconds: None },
        Item::Note(Note::ListHangs(call)) => Object::ListHangs(call),
        Item::Note(Note::ListAnswers { after }) => Object::ListAnswers { after_seconds: after.as_secs_f64() },
        Item::Note(Note::PodStuck(stuck)) => Object::PodStuck(stuck),
        Item::Note(Note::PodUnstuck { pod, after }) => {
            Object::PodUnstuck { pod, after_seconds: after.as_secs_f64() }
        }
    };
    serde_json::to_string(&object).expect("these objects have no keys that are not text")
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Object<'a> {
    Watching { runtime: &'a str, endpoint: &'a str },
    Pod(Pod<'a>),
    Event(Event<'a>),
    RuntimeLost { reason: &'a str },
    RuntimeBack { after_seconds: Option<f64> },
    ListHangs(&'a CallReport),
    ListAnswers { after_seconds: f64 },
    PodStuck(&'a StuckPod),
    PodUnstuck { pod: &'a PodRef, after_seconds: f64 },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pod<'a> {
    namespace: &'a str,
    pod: &'a str,
    pod_uid: &'a str,
    ips: &'a [std::net::IpAddr],
    sandboxes: Vec<Sandbox<'a>>,
    containers: Vec<Container<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sandbox<'a> {
    id: &'a str,
    attempt: u32,
    state: SandboxState,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Container<'a> {
    id: &'a str,
    name: &'a str,
    attempt: u32,
    state: ContainerState,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    image: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    time: Option<String>,
    event: &'static str,
    namespace: &'a str,
    pod: &'a str,
    pod_uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
    /// Of the container, or of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    is_sandbox: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    oom_killed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    happened_at: Option<String>,
    trigger: Trigger,
    seq: u64,
    /// How many events this one stands for.
    merged: u64,
}

fn pod(status: &PodStatus) -> Pod<'_> {
    let sandboxes = status.sandboxes.iter().map(|sandbox| Sandbox {
        id: sandbox.id.as_str(),
        attempt: sandbox.attempt,
        state: sandbox.state,
    });
    Pod {
        namespace: &status.pod.namespace,
        pod: &status.pod.name,
        pod_uid: status.pod.uid.as_str(),
        ips: &status.ips,
        sandboxes: sandboxes.collect(),
        containers: status.containers.iter().map(container).collect(),
    }
}

fn container(status: &ContainerStatus) -> Container<'_> {
    Container {
        id: status.id.as_str(),
        name: &status.name,
        attempt: status.attempt,
        state: status.state,
        exit_code: (status.state == ContainerState::Exited).then_some(status.exit_code),
        reason: &status.reason,
        image: &status.image,
    }
}

fn event(event: &PodEvent) -> Event<'_> {
    let (container, attempt) = match &event.subject {
        Some(Subject::Container { name, attempt, .. }) => (Some(&**name), Some(*attempt)),
        Some(Subject::Sandbox { attempt, .. }) => (None, Some(*attempt)),
        None => (None, None),
    };
    Event {
        time: rfc3339(event.seen_at),
        event: event.kind.as_str(),
        namespace: &event.pod.namespace,
        pod: &event.pod.name,
        pod_uid: event.pod.uid.as_str(),
        container,
        id: event.subject.as_ref().map(Subject::id),
        is_sandbox: event.subject.as_ref().is_some_and(Subject::is_sandbox),
        attempt,
        exit_code: event.exit.as_ref().map(|exit| exit.code),
        reason: event.exit.as_ref().map(|exit| &*exit.reason).filter(|reason| !reason.is_empty()),
        oom_killed: event.exit.as_ref().is_some_and(|exit| exit.oom_killed),
        happened_at: event.happened_at.and_then(rfc3339),
        trigger: event.trigger,
        seq: event.seq,
        merged: event.merged,
    }
}

fn rfc3339(at: UnixNanos) -> Option<String> {
    Timestamp::from_nanosecond(i128::from(at.0)).ok().map(|timestamp| timestamp.to_string())
}

#[cfg(test)]
mod tests {
    use pleg::{EventKind, Exit};

    use super::*;

    #[test]
    fn an_event_is_one_flat_object() {
        let event = PodEvent {
            seq: 3,
            kind: EventKind::ContainerDied,
            pod: PodRef::new("uid", "default", "web-0"),
            subject: Some(Subject::Container { id: "c0ffee".into(), name: "nginx".into(), attempt: 1 }),
            exit: Some(Exit { code: 137, reason: "OOMKilled".into(), oom_killed: true }),
            happened_at: Some(UnixNanos(1_700_000_000_000_000_000)),
            seen_at: UnixNanos(1_700_000_000_123_456_789),
            trigger: Trigger::Relist,
            merged: 1,
        };
        insta::assert_snapshot!(line(&Item::Event(&event)), @r#"{"type":"event","time":"2023-11-14T22:13:20.123456789Z","event":"ContainerDied","namespace":"default","pod":"web-0","podUid":"uid","container":"nginx","id":"c0ffee","isSandbox":false,"attempt":1,"exitCode":137,"reason":"OOMKilled","oomKilled":true,"happenedAt":"2023-11-14T22:13:20Z","trigger":"relist","seq":3,"merged":1}"#);
    }

    #[test]
    fn control_characters_stay_inside_one_line() {
        let line = line(&Item::Note(Note::RuntimeLost { reason: "two\nlines".into() }));
        assert_eq!(line, r#"{"type":"runtimeLost","reason":"two\nlines"}"#);
    }
}
