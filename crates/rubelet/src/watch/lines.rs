//! The output for people: one line per item.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pleg::{EventKind, GoDuration, PodEvent, Subject, Trigger};
use rubelet_model::{ContainerState, ContainerStatus, PodStatus, SandboxState, UnixNanos};

use super::{Item, Note};
use crate::clean::clean;

const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// Formats an item. If the output is not a terminal, colours are removed later.
pub(super) fn line(item: &Item<'_>) -> String {
    match item {
        Item::Watching { runtime, endpoint, was_searched } => {
            let how = if *was_searched { " (found)" } else { "" };
            format!("{DIM}watching {} at {endpoint}{how}{DIM:#}", clean(&runtime.to_string()))
        }
        Item::Pod(status) => pod(status),
        Item::Event(event) => self::event(event, &TimeZone::system()),
        Item::Note { note, at } => {
            format!("{DIM}{}{DIM:#}  {}", time(*at, &TimeZone::system()), self::note(note))
        }
    }
}

fn pod(status: &PodStatus) -> String {
    let mut line = format!("{BOLD}{}{BOLD:#}", clean(&status.pod.to_string()));
    match status.sandboxes.first().map(|sandbox| sandbox.state) {
        Some(SandboxState::Ready) => {}
        Some(SandboxState::NotReady) => push(&mut line, YELLOW, "not ready"),
        Some(SandboxState::Unknown) => push(&mut line, YELLOW, "state unknown"),
        None => push(&mut line, YELLOW, "no sandbox"),
    }
    for ip in &status.ips {
        push(&mut line, DIM, &ip.to_string());
    }
    for container in &status.containers {
        let (style, state) = state_of(container);
        let _ = write!(line, "  {} {style}{state}{style:#}", clean(&container.name));
    }
    line
}

fn state_of(container: &ContainerStatus) -> (Style, String) {
    match container.state {
        ContainerState::Created => (YELLOW, "created".to_owned()),
        ContainerState::Running => (GREEN, "running".to_owned()),
        ContainerState::Unknown => (YELLOW, "unknown".to_owned()),
        ContainerState::Exited => {
            let style = if container.exit_code == 0 { DIM } else { RED };
            (style, format!("exited {}", exit(container.exit_code, &container.reason)))
        }
    }
}

fn exit(code: i32, reason: &str) -> String {
    if reason.is_empty() { code.to_string() } else { format!("{code} {}", clean(reason)) }
}

fn event(event: &PodEvent, zone: &TimeZone) -> String {
    let failed = event.exit.as_ref().is_some_and(|exit| exit.code != 0);
    let style = match event.kind {
        EventKind::ContainerStarted => GREEN,
        EventKind::ContainerDied if failed => RED,
        EventKind::ContainerDied => YELLOW,
        EventKind::ContainerRemoved => DIM,
        EventKind::PodSync | EventKind::ContainerChanged => AnsiColor::Cyan.on_default(),
    };
    let subject = match &event.subject {
        Some(Subject::Container { name, id, .. }) if name.is_empty() => short(id.as_str()),
        Some(Subject::Container { name, .. }) => clean(name),
        Some(Subject::Sandbox { .. }) => "(sandbox)".to_owned(),
        None => "-".to_owned(),
    };
    let trigger = match event.trigger {
        Trigger::Relist => "relist",
        Trigger::Nudge => "nudge",
        Trigger::Event => "event",
    };
    let has_more = event.exit.is_some() || event.merged > 1;
    let mut line = format!(
        "{DIM}{} {trigger:<6}{DIM:#}  {BOLD}{:<24}{BOLD:#}  {subject:<12}  {style}{:<width$}{style:#}",
        time(event.seen_at, zone),
        clean(&event.pod.to_string()),
        event.kind,
        width = if has_more { EventKind::ContainerRemoved.as_str().len() } else { 0 },
    );
    if let Some(exited) = &event.exit {
        let _ = write!(line, "  {style}exit {}{style:#}", exit(exited.code, &exited.reason));
    }
    if event.merged > 1 {
        let _ = write!(line, "  {YELLOW}(stands for {} events){YELLOW:#}", event.merged);
    }
    line
}

fn note(note: &Note) -> String {
    match note {
        Note::EventsLeftAlone { runtime } => format!(
            "{YELLOW}{} hands each event to one reader only, so events are left to the kubelet and changes are seen \
             once a second; if nothing else reads them, use --events on{YELLOW:#}",
            clean(&runtime.to_string())
        ),
        Note::StoodStill(after) => {
            format!(
                "{GREEN}resumed after {}; what happened in the meantime follows{GREEN:#}",
                GoDuration::in_millis(*after)
            )
        }
        Note::RuntimeLost { reason } => {
            format!("{YELLOW}the runtime does not answer: {}; waiting for it{YELLOW:#}", clean(reason))
        }
        Note::RuntimeBack { after } => {
            format!("{GREEN}the runtime is back after {}{GREEN:#}", GoDuration::in_millis(*after))
        }
        Note::Reconnected => {
            format!("{YELLOW}reconnected to the runtime; it may have restarted{YELLOW:#}")
        }
        Note::ListHangs(call) => format!(
            "{YELLOW}the runtime has not answered {} for {}; nothing is seen until it does{YELLOW:#}",
            call.call,
            GoDuration::in_millis(call.age)
        ),
        Note::ListAnswers { after } => {
            format!(
                "{GREEN}the runtime answers again, after more than {}{GREEN:#}",
                GoDuration::in_millis(*after)
            )
        }
        Note::LookHangs(look) => {
            format!("{YELLOW}{}; its changes are seen a little later{YELLOW:#}", clean(&look.to_string()))
        }
        Note::ListsOften { period, reason } => {
            format!(
                "{YELLOW}from now on all pods are listed every {}: {reason}{YELLOW:#}",
                GoDuration(*period)
            )
        }
        Note::PodStuck(stuck) => format!("{YELLOW}{}{YELLOW:#}", clean(&stuck.to_string())),
        Note::PodUnstuck { pod, after } => {
            format!(
                "{GREEN}pod {} can be inspected again, after {}{GREEN:#}",
                clean(&pod.to_string()),
                GoDuration::in_millis(*after)
            )
        }
    }
}

fn time(at: UnixNanos, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(i128::from(at.0)) {
        Ok(timestamp) => timestamp.to_zoned(zone.clone()).strftime("%H:%M:%S.%3f").to_string(),
        Err(_) => "?".to_owned(),
    }
}

fn push(line: &mut String, style: Style, text: &str) {
    let _ = write!(line, "  {style}{text}{style:#}");
}

/// Returns the part of an id that people read.
fn short(id: &str) -> String {
    clean(id).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anstream::adapter::strip_str;
    use pleg::{Exit, HungLook, StuckPod};
    use rubelet_model::PodRef;

    use super::*;
    use crate::endpoint::Runtime;

    fn plain(line: &str) -> String {
        strip_str(line).to_string()
    }

    fn died(code: i32, reason: &str) -> PodEvent {
        PodEvent {
            seq: 3,
            kind: EventKind::ContainerDied,
            pod: PodRef::new("uid", "default", "web-0"),
            subject: Some(Subject::Container { id: "c0ffee".into(), name: "nginx".into(), attempt: 1 }),
            exit: Some(Exit { code, reason: reason.into(), oom_killed: reason == "OOMKilled" }),
            happened_at: None,
            seen_at: UnixNanos(1_700_000_000_123_456_789),
            trigger: Trigger::Relist,
            merged: 1,
        }
    }

    #[test]
    fn events_read_as_time_pod_container_event_and_exit() {
        let line = |event: &PodEvent| plain(&event_line(event));
        fn event_line(event: &PodEvent) -> String {
            super::event(event, &TimeZone::UTC)
        }
        assert_eq!(
            line(&died(137, "OOMKilled")),
            "22:13:20.123 relist  default/web-0             nginx         ContainerDied     exit 137 OOMKilled"
        );
        let started = PodEvent {
            kind: EventKind::ContainerStarted,
            exit: None,
            subject: Some(Subject::Sandbox { id: "s".into(), attempt: 0 }),
            ..died(0, "")
        };
        assert_eq!(
            line(&started),
            "22:13:20.123 relist  default/web-0             (sandbox)     ContainerStarted"
        );
        let merged =
            PodEvent { kind: EventKind::PodSync, exit: None, subject: None, merged: 12, ..died(0, "") };
        assert_eq!(
            line(&merged),
            "22:13:20.123 relist  default/web-0             -             PodSync           (stands for 12 events)"
        );
        let corrected = PodEvent { kind: EventKind::PodSync, ..died(137, "OOMKilled") };
        assert_eq!(
            line(&corrected),
            "22:13:20.123 relist  default/web-0             nginx         PodSync           exit 137 OOMKilled"
        );
    }

    #[test]
    fn what_a_runtime_says_cannot_upset_the_terminal() {
        let mut event = died(1, "Error\u{1b}[2J\nforged line");
        event.pod.name = "web\u{7}\r0".into();
        let line = plain(&super::event(&event, &TimeZone::UTC));
        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
    }

    #[test]
    fn notes_say_what_happened_and_for_how_long() {
        let stuck = StuckPod {
            pod: PodRef::new("uid", "default", "web-0"),
            age: Duration::from_secs(10),
            last_success: None,
            call: None,
            failures: 2,
            last_error: None,
        };
        let hung = HungLook {
            pod: PodRef::new("uid", "default", "web-0"),
            age: Duration::from_millis(1_049),
            call: None,
            given_up: 1,
        };
        let notes = [
            (
                Note::RuntimeLost { reason: "nobody listens on /run/x.sock".into() },
                "the runtime does not answer: nobody listens on /run/x.sock; waiting for it",
            ),
            (
                Note::EventsLeftAlone {
                    runtime: Runtime { name: "containerd".to_owned(), version: "v1.7.34".to_owned() },
                },
                "containerd v1.7.34 hands each event to one reader only, so events are left to the kubelet and \
                 changes are seen once a second; if nothing else reads them, use --events on",
            ),
            (
                Note::StoodStill(Duration::from_secs(7)),
                "resumed after 7s; what happened in the meantime follows",
            ),
            (Note::RuntimeBack { after: Duration::from_micros(3_200_999) }, "the runtime is back after 3.2s"),
            (Note::PodStuck(stuck), "pod default/web-0 not inspected for 10s"),
            (
                Note::LookHangs(hung),
                "pod default/web-0: single-pod lists unanswered for 1.049s, abandoned once in favour of a full list; \
                 its changes are seen a little later",
            ),
        ];
        for (note, expected) in notes {
            assert_eq!(plain(&super::note(&note)), expected);
        }
    }
}
