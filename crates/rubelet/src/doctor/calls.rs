//! Calls that are not answered, or not properly.

use std::time::Duration;

use pleg::{Failure, GoDuration, HungLook, Report};

use super::facts::{Facts, Lists, Unanswered};
use super::finding::{Finding, Severity, one_by_one, some_names};
use super::inspections;

/// On a healthy node, both lists together take no longer than this.
const SLOW_LIST: Duration = Duration::from_secs(1);
/// A call without an answer for this long hangs. The limit is that of a watch: slow runtimes take a second or two.
pub(super) const HANGS: Duration = Duration::from_secs(3);
/// The largest message that runtimes send, and that most clients accept.
const MESSAGE_LIMIT: usize = 16 << 20;
/// More dead containers than any clean-up leaves.
const MANY_DEAD: usize = 1_000;

const TOO_LARGE: &str = "remove dead containers (crictl rm, or the kubelet's maximum-dead-containers) and look for \
                         large annotations: runtimes send at most 16 MiB, even to clients that accept more";
const LIST_HANGS: &str = "the runtime itself waits for something: a disk that hangs (dmesg, iostat) or a lock; dump \
                          its stacks (SIGUSR1 to containerd) before restarting it";
const LOOK_HANGS: &str = "a kubelet lists a single pod whenever it acts on it: dump the runtime's stacks while the \
                          call hangs (SIGUSR1 to containerd), and look for a lock or a slow disk (dmesg, iostat)";

pub(super) fn judge(facts: &Facts, findings: &mut Vec<Finding>) {
    let list_trouble = list_trouble(facts);
    if let Some(Ok(lists)) = &facts.lists {
        judge_lists(lists, findings);
    }
    let Some(report) = &facts.report else {
        findings.extend(list_trouble);
        return;
    };
    // A list that hangs is the cause, and its finding says more.
    let pleg_stands = if list_trouble.is_none() { pleg_trouble(facts, report) } else { None };
    findings.extend(list_trouble.or(pleg_stands));
    findings.extend(one_by_one(&report.health.hung_looks, hung_look, more_hung_looks));
    inspections::judge(facts, report, findings);
}

/// Says why there is no list, as experienced by whichever waited for it: the PLEG or the doctor itself.
fn list_trouble(facts: &Facts) -> Option<Finding> {
    let health = facts.report.as_ref().map(|report| &report.health);
    if let Some(call) = health.and_then(|health| health.list_call.as_ref()).filter(|call| call.age >= HANGS) {
        return Some(list_hangs(call.call.as_str(), call.age));
    }
    if let Some(error) = health.and_then(|health| health.list_error.as_ref()) {
        let mut finding = list_fails(error.to_string());
        if error.failure == Failure::TooLarge {
            finding.advice = TOO_LARGE;
        }
        return Some(finding);
    }
    match facts.lists.as_ref()?.as_ref().err()? {
        Unanswered::Waited { operation, waited } if *waited >= HANGS => {
            Some(list_hangs(operation.as_str(), *waited))
        }
        Unanswered::Waited { operation, waited } => Some(too_short(operation.as_str(), *waited)),
        Unanswered::Failed { operation, error, .. } => Some(list_fails(format!("{operation}: {error}"))),
    }
}

fn list_hangs(call: &str, age: Duration) -> Finding {
    Finding {
        name: "listHangs",
        severity: Severity::Problem,
        what: format!("the runtime does not answer {call}, so nothing on this node can be observed"),
        evidence: format!("{call} in flight for {}", GoDuration::in_tenths(age)),
        advice: LIST_HANGS,
    }
}

fn list_fails(evidence: String) -> Finding {
    Finding {
        name: "listFails",
        severity: Severity::Problem,
        what: "the runtime fails to list its pods".to_owned(),
        evidence,
        advice: "check the runtime's log",
    }
}

/// There was too little time to tell a slow runtime from one that hangs.
pub(super) fn too_short(call: &str, waited: Duration) -> Finding {
    Finding {
        name: "tooShort",
        severity: Severity::Unclear,
        what: format!("there was not enough time to tell whether the runtime answers {call}"),
        evidence: format!("no answer yet after {}", GoDuration::in_millis(waited)),
        advice: "run again with --for 10s: a call needs 3s before a slow runtime can be told from a hung one",
    }
}

/// The runtime does not report its status.
pub(super) fn unanswered_status(unanswered: &Unanswered) -> Finding {
    let evidence = match unanswered {
        Unanswered::Waited { operation, waited } if *waited < HANGS => {
            return too_short(operation.as_str(), *waited);
        }
        Unanswered::Waited { operation, waited } => {
            format!("{operation} in flight for {}", GoDuration::in_tenths(*waited))
        }
        Unanswered::Failed { operation, error, .. } => format!("{operation}: {error}"),
    };
    Finding {
        name: "statusFails",
        severity: Severity::Problem,
        what: "the runtime does not report its status".to_owned(),
        evidence,
        advice: "check the runtime's log; if other calls are answered, its plugins may have failed to load",
    }
}

/// The PLEG itself reports that it does not work.
fn pleg_trouble(facts: &Facts, report: &Report) -> Option<Finding> {
    if report.health.healthy {
        return None;
    }
    let problem = report.health.problem.clone().unwrap_or_default();
    if facts.looked_for < HANGS {
        return Some(Finding {
            name: "tooShort",
            severity: Severity::Unclear,
            what: "there was not enough time to tell whether pods can be observed".to_owned(),
            evidence: problem,
            advice: "run again in a moment",
        });
    }
    Some(Finding {
        name: "plegStands",
        severity: Severity::Problem,
        what: "pods are not observed, although the runtime answers: nothing that happens to them is noticed"
            .to_owned(),
        evidence: problem,
        advice: "restart the agent (pods keep running) and keep its log",
    })
}

/// Whether the look is slow or hangs is unknown: it is waited for no longer than the full list that replaces it.
fn hung_look(look: &HungLook) -> Finding {
    Finding {
        name: "lookHangs",
        severity: Severity::Warning,
        what: format!(
            "pod {}: the runtime does not answer a list of this pod alone; changes are still found by listing all \
             pods, but later",
            look.pod
        ),
        evidence: look.to_string(),
        advice: LOOK_HANGS,
    }
}

fn more_hung_looks(more: &[HungLook]) -> Finding {
    Finding {
        name: "lookHangs",
        severity: Severity::Warning,
        what: format!("{} more pods cannot be listed alone", more.len()),
        evidence: some_names(more.iter().map(|look| &look.pod)),
        advice: LOOK_HANGS,
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
            what: "the runtime is slow to list its pods".to_owned(),
            evidence: format!("{} for {counted}", GoDuration::in_tenths(lists.took)),
            advice: "a kubelet lists every second: look for a slow disk, too little CPU, and dead containers to \
                     remove",
        });
    }
    if lists.in_parts || lists.size > MESSAGE_LIMIT {
        findings.push(Finding {
            name: "listTooLarge",
            severity: Severity::Problem,
            what: "a list of all pods or containers no longer fits into one message: it can only be read in parts, \
                   and a kubelet is blind"
                .to_owned(),
            evidence: counted.clone(),
            advice: TOO_LARGE,
        });
    } else if lists.size >= MESSAGE_LIMIT / 2 {
        findings.push(Finding {
            name: "listNearLimit",
            severity: Severity::Warning,
            what: "a list of all containers is close to the largest message that clients accept; beyond that, a \
                   kubelet goes blind"
                .to_owned(),
            evidence: format!(
                "{:.1} MiB of {} MiB, for {counted}",
                lists.size as f64 / f64::from(1 << 20),
                MESSAGE_LIMIT >> 20
            ),
            advice: "remove dead containers (crictl rm, or the kubelet's maximum-dead-containers) and look for large annotations",
        });
    }
    if lists.exited >= MANY_DEAD {
        findings.push(Finding {
            name: "deadContainers",
            severity: Severity::Warning,
            what: "dead containers pile up: every list and every cleanup gets slower".to_owned(),
            evidence: counted,
            advice: "check whether the kubelet's garbage collection runs; `crictl rm $(crictl ps -a -q --state \
                     exited)` removes them",
        });
    }
    if lists.unreadable > 0 {
        findings.push(Finding {
            name: "unreadable",
            severity: Severity::Warning,
            what: "the runtime lists entries that cannot be understood".to_owned(),
            evidence: format!("{} entries without a readable id or owner", lists.unreadable),
            advice: "while there are any, nothing missing from a list is taken as removed; check the runtime's store \
                     for damage",
        });
    }
}
