//! The runtime's events, and their readers.

use std::time::Duration;

use pleg::{GoDuration, StreamError, StreamReport};

use super::facts::Facts;
use super::finding::{Finding, Severity};
use super::readers::Standstill;

/// How often all pods are listed when nothing else reveals changes.
const OFTEN: Duration = Duration::from_secs(1);

pub(super) fn judge(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.kind.hands_each_event_to_one_reader() {
        findings.push(one_reader_only(facts));
    }
    stalled_readers(facts, findings);
    let Some(stream) = &facts.stream else { return };
    if !stream.open {
        findings.extend(stream.last_error.as_ref().map(|error| no_stream(facts, error)));
    }
    if stream.unannounced > 0 && !facts.kind.hands_each_event_to_one_reader() {
        findings.push(lossy(facts, stream));
    }
}

fn period(facts: &Facts) -> Duration {
    facts.report.as_ref().map_or(OFTEN, |report| report.relist_period)
}

/// Whether every change has been announced recently: otherwise lists would be frequent.
fn is_complete_of_late(facts: &Facts) -> bool {
    period(facts) > OFTEN
}

fn one_reader_only(facts: &Facts) -> Finding {
    let missed = facts.stream.as_ref().map_or(0, |stream| stream.unannounced);
    let time = looked_for(facts);
    let evidence = match (&facts.stream, missed) {
        (None, _) => {
            format!(
                "{} does so; its events were not read here, to avoid taking any from other readers",
                facts.runtime
            )
        }
        (Some(_), 0) => {
            format!("{} does so; every change found in {time} had been announced here", facts.runtime)
        }
        (Some(_), missed) => {
            let of_late = if is_complete_of_late(facts) { "; none recently" } else { "" };
            format!("{missed} changes in {time} were announced to another reader, or not at all{of_late}")
        }
    };
    let is_robbed = missed > 0 && !is_complete_of_late(facts);
    Finding {
        name: "eventsStolen",
        severity: if is_robbed { Severity::Problem } else { Severity::Warning },
        what: "this runtime hands each event to one reader only: two readers take them from each other"
            .to_owned(),
        evidence,
        advice: "let only one program read events here (no `crictl events` beside an evented kubelet), or use \
                 containerd 2",
    }
}

fn stalled_readers(facts: &Facts, findings: &mut Vec<Finding>) {
    let is_danger = facts.kind.waits_for_slow_readers();
    for reader in &facts.stalled_readers {
        // Many processes block while they write; few of them read events.
        let is_problem = is_danger && reader.why == Standstill::Stopped;
        let (state, advice) = match reader.why {
            Standstill::Stopped => ("is stopped", "resume it (kill -CONT) or end it (kill)"),
            Standstill::WaitsToWrite => {
                ("is blocked writing to a pipe that nobody reads", "read its output or end it (kill)")
            }
        };
        findings.push(Finding {
            name: "stalledReader",
            severity: if is_problem { Severity::Problem } else { Severity::Warning },
            what: if is_danger {
                "a process connected to the runtime is stalled: if it reads events, no pod on this node can be \
                 created or removed once its buffers are full"
            } else {
                "a process connected to the runtime is stalled"
            }
            .to_owned(),
            evidence: format!("process {} ({}) {state} and holds a connection to {}", reader.pid, reader.command, facts.endpoint),
            advice,
        });
    }
}

fn no_stream(facts: &Facts, error: &StreamError) -> Finding {
    match error {
        StreamError::Unsupported => Finding {
            name: "eventsUnsupported",
            severity: Severity::Note,
            what: "the runtime has no event stream: changes are found by listing all pods every second".to_owned(),
            evidence: format!("{} answers GetContainerEvents with: unimplemented", facts.runtime),
            advice: "no action needed; containerd 2, or CRI-O 1.28 or newer with enable_pod_events, shows changes \
                     within milliseconds",
        },
        StreamError::SwitchedOff => Finding {
            name: "eventsDisabled",
            severity: Severity::Note,
            what: "the runtime's event stream is switched off: changes are found by listing all pods every second"
                .to_owned(),
            evidence: "the event stream ends at once, without an error".to_owned(),
            advice: "CRI-O: set enable_pod_events = true in crio.conf and restart it",
        },
        StreamError::Broken(_) | StreamError::Ended => Finding {
            name: "eventsBroken",
            severity: Severity::Warning,
            what: "the runtime's event stream does not stay open".to_owned(),
            evidence: error.to_string(),
            advice: "check the runtime's log; until this is fixed, changes are found by listing all pods every second",
        },
    }
}

fn lossy(facts: &Facts, stream: &StreamReport) -> Finding {
    let (severity, what) = if is_complete_of_late(facts) {
        (Severity::Note, "the runtime missed changes earlier; recently it has announced all of them")
    } else {
        (Severity::Warning, "the runtime does not announce every change, so all pods are listed every second")
    };
    Finding {
        name: "eventsLossy",
        severity,
        what: what.to_owned(),
        evidence: format!(
            "{} changes in {} were not announced; all pods are listed every {}",
            stream.unannounced,
            looked_for(facts),
            GoDuration(period(facts))
        ),
        advice: "failed starts are never announced; if more than those are missing, look for dropped events in the \
                 runtime's log",
    }
}

fn looked_for(facts: &Facts) -> GoDuration {
    GoDuration::in_tenths(facts.looked_for)
}
