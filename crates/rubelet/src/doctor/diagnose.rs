//! What the facts mean.

use std::time::Duration;

use pleg::{GoDuration, StreamError, StuckPod};
use serde::Serialize;

use super::facts::{Facts, Lists};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Good to know.
    Note,
    /// Will hurt sooner or later.
    Warning,
    /// Hurts now.
    Problem,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// A name for programs, which stays the same.
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    /// In one sentence.
    pub(crate) what: String,
    /// What was seen.
    pub(crate) evidence: String,
    /// What to do.
    pub(crate) advice: &'static str,
}

/// Both lists together take no longer than this on a node that is well.
const SLOW_LIST: Duration = Duration::from_secs(1);
/// The largest message that runtimes send, and that most clients take.
const MESSAGE_LIMIT: usize = 16 << 20;
/// So many dead containers are more than any clean-up leaves.
const MANY_DEAD: usize = 1_000;
/// How often all pods are listed when nothing else tells of changes.
const OFTEN: Duration = Duration::from_secs(1);
/// The time of day moves by no more than this beside the time that passes.
const CLOCK_JUMP: f64 = 1.0;

/// What is wrong, the worst first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(reason) = &facts.unreachable {
        findings.push(Finding {
            name: "runtimeUnreachable",
            severity: Severity::Problem,
            what: "no runtime answers, so nothing of its pods can be seen".to_owned(),
            evidence: reason.clone(),
            advice: "see whether this is its socket (--runtime-endpoint), whether it runs (systemctl status containerd, or crio), \
                     and what it logs",
        });
        return findings;
    }
    conditions(facts, &mut findings);
    calls(facts, &mut findings);
    if let Some(lists) = &facts.lists {
        judge_lists(lists, &mut findings);
    }
    events(facts, &mut findings);
    if let Some(agent) = &facts.agent {
        agent.diagnose(&mut findings);
    }
    clocks(facts, &mut findings);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn conditions(facts: &Facts, findings: &mut Vec<Finding>) {
    let conditions = match &facts.conditions {
        Ok(conditions) => conditions,
        Err(error) => {
            findings.push(Finding {
                name: "statusFails",
                severity: Severity::Problem,
                what: "the runtime does not say how it is".to_owned(),
                evidence: format!("Status: {error}"),
                advice: "look into the runtime's log; if the other calls answer, its plugins may have failed to load",
            });
            return;
        }
    };
    for condition in conditions.iter().filter(|condition| !condition.is_met) {
        let is_network = condition.name == "NetworkReady";
        let (name, what, advice) = if is_network {
            (
                "networkNotReady",
                "the pod network is not ready: only pods on the host's network can start",
                "see whether a CNI configuration is in /etc/cni/net.d and the network's own pods run",
            )
        } else {
            (
                "runtimeNotReady",
                "the runtime says that it is not ready",
                "look into the runtime's log and restart it if that says nothing better",
            )
        };
        let said = [condition.reason.as_str(), condition.message.as_str()];
        let mut evidence = vec![format!("{} is false", condition.name)];
        evidence.extend(said.into_iter().filter(|said| !said.is_empty()).map(|said| format!("({said})")));
        findings.push(Finding {
            name,
            severity: Severity::Problem,
            what: what.to_owned(),
            evidence: evidence.join(" "),
            advice,
        });
    }
}

/// What does not answer.
fn calls(facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(report) = &facts.report else { return };
    if let Some(call) = report.health.list_call.as_ref().filter(|call| call.age >= SLOW_LIST) {
        findings.push(Finding {
            name: "listHangs",
            severity: Severity::Problem,
            what: format!("the runtime does not answer {}: nothing on this node can be seen", call.call),
            evidence: format!("{} in flight for {}", call.call, GoDuration(rounded(call.age))),
            advice: "the runtime waits for something itself: a disk that hangs (dmesg, iostat) or a lock; \
                     take its stacks (SIGUSR1 to containerd) before restarting it",
        });
    } else if let Some(error) = &report.health.list_error {
        findings.push(Finding {
            name: "listFails",
            severity: Severity::Problem,
            what: "the runtime does not list its pods".to_owned(),
            evidence: error.to_string(),
            advice: "look into the runtime's log",
        });
    }
    for stuck in &report.health.stuck_pods {
        findings.push(stuck_pod(stuck));
    }
}

fn stuck_pod(stuck: &StuckPod) -> Finding {
    let hangs = stuck.call.as_ref().filter(|call| call.age >= Duration::from_millis(500));
    let what = match hangs {
        Some(call) => {
            format!("pod {}: {} hangs; the other pods are served all the same", stuck.pod, call.call)
        }
        None => format!("pod {} cannot be inspected; the other pods are served all the same", stuck.pod),
    };
    Finding {
        name: "podStuck",
        severity: Severity::Problem,
        what,
        evidence: stuck.to_string(),
        advice: "see what the pod's processes wait for (a volume on a dead NFS server, a full disk); \
                 until it answers, a kubelet lets all other pods wait for this one",
    }
}

fn judge_lists(lists: &Lists, findings: &mut Vec<Finding>) {
    let counted = format!(
        "{} sandboxes and {} containers, {} of them running and {} exited",
        lists.sandboxes, lists.containers, lists.running, lists.exited
    );
    if lists.took >= SLOW_LIST {
        findings.push(Finding {
            name: "listSlow",
            severity: Severity::Warning,
            what: "the runtime takes long to list its pods".to_owned(),
            evidence: format!("{} for {counted}", GoDuration(rounded(lists.took))),
            advice: "a kubelet asks every second: look for a slow disk, for too little CPU, and for dead containers to remove",
        });
    }
    if lists.largest_message >= MESSAGE_LIMIT / 2 {
        findings.push(Finding {
            name: "listNearLimit",
            severity: Severity::Warning,
            what: "a list of all containers is near the largest message that clients take; beyond it a kubelet goes blind"
                .to_owned(),
            evidence: format!(
                "{:.1} MiB of {} MiB, for {counted}",
                lists.largest_message as f64 / f64::from(1 << 20),
                MESSAGE_LIMIT >> 20
            ),
            advice: "remove dead containers (crictl rm, or the kubelet's maximum-dead-containers) and look for large annotations",
        });
    }
    if lists.exited >= MANY_DEAD {
        findings.push(Finding {
            name: "deadContainers",
            severity: Severity::Warning,
            what: "dead containers pile up: every list and every clean-up gets slower".to_owned(),
            evidence: counted,
            advice: "see whether the kubelet's garbage collection runs; `crictl rm $(crictl ps -a -q --state exited)` removes them",
        });
    }
    if lists.unreadable > 0 {
        findings.push(Finding {
            name: "unreadable",
            severity: Severity::Warning,
            what: "the runtime lists things that cannot be understood".to_owned(),
            evidence: format!("{} entries without a readable id or owner", lists.unreadable),
            advice: "while there are any, nothing that is missing from a list is taken as removed; look for damage in its store",
        });
    }
}

fn events(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.kind.hands_each_event_to_one_reader() {
        let measured = facts.stream.as_ref().map_or(0, |stream| stream.unannounced);
        let evidence = match (&facts.stream, measured) {
            (None, _) => format!(
                "{} does so; the events were not read here, so as to take none from others",
                facts.runtime
            ),
            (Some(_), 0) => format!(
                "{} does so; every change in {} was announced to us",
                facts.runtime,
                looked_for(facts)
            ),
            (Some(_), missed) => format!(
                "{missed} changes in {} were announced to somebody else, or to nobody",
                looked_for(facts)
            ),
        };
        findings.push(Finding {
            name: "eventsStolen",
            severity: if measured > 0 { Severity::Problem } else { Severity::Warning },
            what: "this runtime hands each event to one reader only: two readers steal them from each other".to_owned(),
            evidence,
            advice: "let one program only read events here (no `crictl events` beside an evented kubelet), or use containerd 2",
        });
    }
    for reader in &facts.stopped_readers {
        let is_danger = facts.kind.waits_for_slow_readers();
        findings.push(Finding {
            name: "stalledReader",
            severity: if is_danger { Severity::Problem } else { Severity::Warning },
            what: if is_danger {
                "a process that is connected to the runtime stands still: if it reads events, then no pod on this node can be \
                 created or removed once its buffers are full"
            } else {
                "a process that is connected to the runtime stands still"
            }
            .to_owned(),
            evidence: format!("process {} ({}) is stopped, and holds a connection to {}", reader.pid, reader.command, facts.endpoint),
            advice: "let it go on (kill -CONT) or end it (kill)",
        });
    }
    let Some(stream) = &facts.stream else { return };
    match &stream.last_error {
        Some(StreamError::Unsupported) => findings.push(Finding {
            name: "eventsUnsupported",
            severity: Severity::Note,
            what: "the runtime has no events: changes are found by a list every second".to_owned(),
            evidence: format!("{} answers GetContainerEvents with: unimplemented", facts.runtime),
            advice: "nothing is lost; with containerd 2 or CRI-O 1.26 changes are seen within milliseconds",
        }),
        Some(StreamError::SwitchedOff) => findings.push(Finding {
            name: "eventsDisabled",
            severity: Severity::Note,
            what: "the runtime's events are switched off: changes are found by a list every second"
                .to_owned(),
            evidence: "the event stream ends at once, without an error".to_owned(),
            advice: "CRI-O: set enable_pod_events = true in crio.conf and restart it",
        }),
        Some(error @ (StreamError::Broken(_) | StreamError::Ended)) if !stream.open => {
            findings.push(Finding {
                name: "eventsBroken",
                severity: Severity::Warning,
                what: "the runtime's event stream does not stay open".to_owned(),
                evidence: error.to_string(),
                advice: "look into the runtime's log; until then changes are found by a list every second",
            });
        }
        Some(_) | None => {}
    }
    if stream.unannounced > 0 && !facts.kind.hands_each_event_to_one_reader() {
        let period = facts.report.as_ref().map_or(OFTEN, |report| report.relist_period);
        let (severity, what) = if period > OFTEN {
            (Severity::Note, "the runtime did not announce every change; of late it has")
        } else {
            (
                Severity::Warning,
                "the runtime does not announce every change, so all pods are listed every second",
            )
        };
        findings.push(Finding {
            name: "eventsLossy",
            severity,
            what: what.to_owned(),
            evidence: format!(
                "{} changes in {} were not announced; all pods are listed every {}",
                stream.unannounced,
                looked_for(facts),
                GoDuration(period)
            ),
            advice: "failed starts are never announced; if it is more than those, look for dropped events in the runtime's log",
        });
    }
}

fn clocks(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.clock_jump.abs() >= CLOCK_JUMP {
        findings.push(Finding {
            name: "clockJump",
            severity: Severity::Warning,
            what: "the time of day jumped while we looked".to_owned(),
            evidence: format!("by {:+.1}s in {}", facts.clock_jump, looked_for(facts)),
            advice: "see to the node's time (chronyc tracking): kubelets and certificates go by it",
        });
    }
    if facts.from_the_future > 0 {
        findings.push(Finding {
            name: "fromTheFuture",
            severity: Severity::Warning,
            what: "containers were made later than now: the time of day has been set back".to_owned(),
            evidence: format!("{} of them", facts.from_the_future),
            advice: "see to the node's time (chronyc tracking): a kubelet sorts containers by when they were made",
        });
    }
}

fn looked_for(facts: &Facts) -> GoDuration {
    GoDuration(rounded(facts.looked_for))
}

/// To the tenth of a second.
fn rounded(duration: Duration) -> Duration {
    Duration::from_millis((duration.as_millis() as u64 + 50) / 100 * 100)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
