//! The output for programs: one JSON object per line, each with a `type`.

use jiff::Timestamp;
use pleg::{Call, PeriodReason, PodEvent, Subject, Trigger};
use rubelet_model::{ContainerState, ContainerStatus, PodStatus, SandboxState, UnixNanos};
use serde::Serialize;

use super::{Item, Note};

/// Formats an item.
pub(super) fn line(item: &Item<'_>) -> String {
    let object = match item {
        Item::Watching { runtime, endpoint, .. } => {
            Object::Watching { runtime: runtime.to_string(), endpoint }
        }
        Item::Pod(status) => Object::Pod(pod(status)),
        Item::Event(event) => Object::Event(self::event(event)),
        Item::Note { note, at } => Object::from_note(note, rfc3339(*at)),
    };
    serde_json::to_string(&object).expect("these objects have no keys that are not text")
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Object<'a> {
    Watching {
        runtime: String,
        endpoint: &'a str,
    },
    Pod(Pod<'a>),
    Event(Event<'a>),
    EventsLeftAlone {
        time: Option<String>,
        runtime: String,
    },
    StoodStill {
        time: Option<String>,
        after_seconds: f64,
    },
    RuntimeLost {
        time: Option<String>,
        reason: &'a str,
    },
    RuntimeBack {
        time: Option<String>,
        after_seconds: Option<f64>,
    },
    ListHangs {
        time: Option<String>,
        call: Call,
        age_seconds: f64,
    },
    ListAnswers {
        time: Option<String>,
        after_seconds: f64,
    },
    LookHangs {
        time: Option<String>,
        namespace: &'a str,
        pod: &'a str,
        pod_uid: &'a str,
        age_seconds: f64,
        given_up: u64,
    },
    ListsOften {
        time: Option<String>,
        period_seconds: f64,
        reason: PeriodReason,
    },
    PodStuck(Stuck<'a>),
    PodUnstuck {
        time: Option<String>,
        namespace: &'a str,
        pod: &'a str,
        pod_uid: &'a str,
        after_seconds: f64,
    },
}

/// A pod whose status calls hang or fail.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stuck<'a> {
    time: Option<String>,
    namespace: &'a str,
    pod: &'a str,
    pod_uid: &'a str,
    age_seconds: f64,
    /// The call that hangs, if any, and the container or sandbox that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    failures: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

impl<'a> Object<'a> {
    fn from_note(note: &'a Note, time: Option<String>) -> Self {
        match note {
            Note::EventsLeftAlone { runtime } => Self::EventsLeftAlone { time, runtime: runtime.to_string() },
            Note::StoodStill(after) => Self::StoodStill { time, after_seconds: after.as_secs_f64() },
            Note::RuntimeLost { reason } => Self::RuntimeLost { time, reason },
            Note::RuntimeBack { after } => {
                Self::RuntimeBack { time, after_seconds: Some(after.as_secs_f64()) }
            }
            Note::Reconnected => Self::RuntimeBack { time, after_seconds: None },
            Note::ListHangs(call) => {
                Self::ListHangs { time, call: call.call, age_seconds: call.age.as_secs_f64() }
            }
            Note::ListAnswers { after } => Self::ListAnswers { time, after_seconds: after.as_secs_f64() },
            Note::LookHangs(look) => Self::LookHangs {
                time,
                namespace: &look.pod.namespace,
                pod: &look.pod.name,
                pod_uid: look.pod.uid.as_str(),
                age_seconds: look.age.as_secs_f64(),
                given_up: look.given_up,
            },
            Note::ListsOften { period, reason } => {
                Self::ListsOften { time, period_seconds: period.as_secs_f64(), reason: *reason }
            }
            Note::PodStuck(stuck) => Self::PodStuck(Stuck {
                time,
                namespace: &stuck.pod.namespace,
                pod: &stuck.pod.name,
                pod_uid: stuck.pod.uid.as_str(),
                age_seconds: stuck.age.as_secs_f64(),
                call: stuck.call.as_ref().map(|call| call.call),
                id: stuck.call.as_ref().and_then(|call| call.target.as_deref()),
                failures: stuck.failures,
                last_error: stuck.last_error.as_ref().map(ToString::to_string),
            }),
            Note::PodUnstuck { pod, after } => Self::PodUnstuck {
                time,
                namespace: &pod.namespace,
                pod: &pod.name,
                pod_uid: pod.uid.as_str(),
                after_seconds: after.as_secs_f64(),
            },
        }
    }
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
    /// The id of the container or sandbox.
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
    use rubelet_model::PodRef;

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
    fn a_correction_says_of_what_and_how_it_ended() {
        let event = PodEvent {
            seq: 4,
            kind: EventKind::PodSync,
            pod: PodRef::new("uid", "default", "web-0"),
            subject: Some(Subject::Container { id: "c0ffee".into(), name: "nginx".into(), attempt: 1 }),
            exit: Some(Exit { code: 137, reason: "OOMKilled".into(), oom_killed: true }),
            happened_at: None,
            seen_at: UnixNanos(0),
            trigger: Trigger::Relist,
            merged: 1,
        };
        insta::assert_snapshot!(line(&Item::Event(&event)), @r#"{"type":"event","time":"1970-01-01T00:00:00Z","event":"PodSync","namespace":"default","pod":"web-0","podUid":"uid","container":"nginx","id":"c0ffee","isSandbox":false,"attempt":1,"exitCode":137,"reason":"OOMKilled","oomKilled":true,"trigger":"relist","seq":4,"merged":1}"#);
    }

    #[test]
    fn control_characters_stay_inside_one_line() {
        let note = Note::RuntimeLost { reason: "two\nlines".into() };
        let line = line(&Item::Note { note: &note, at: UnixNanos(0) });
        assert_eq!(line, r#"{"type":"runtimeLost","time":"1970-01-01T00:00:00Z","reason":"two\nlines"}"#);
    }
}
