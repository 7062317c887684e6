//! Pods whose inspection fails, hangs or is slow.

use pleg::{Failure, Report, StuckPod};

use super::calls::{HANGS, too_short};
use super::facts::Facts;
use super::finding::{Finding, Severity, one_by_one, some_names};

/// Why a pod is not inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A call is in progress that may still be answered.
    Slow,
    Hangs,
    /// The runtime answers, but not with a status.
    Refused,
    /// The runtime is not running.
    Unavailable,
}

impl Cause {
    fn of(stuck: &StuckPod) -> Self {
        let waited = stuck.call.as_ref().map_or(stuck.age, |call| call.age);
        let failure = stuck.last_error.as_ref().map(|error| error.failure);
        match failure {
            _ if stuck.call.is_some() && waited >= HANGS => Self::Hangs,
            Some(Failure::Deadline) => Self::Hangs,
            Some(Failure::Unavailable | Failure::Reconnected) => Self::Unavailable,
            Some(Failure::TooLarge | Failure::Refused | Failure::Invalid | Failure::Panicked) => {
                Self::Refused
            }
            None if waited >= HANGS => Self::Hangs,
            None => Self::Slow,
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Slow => {
                "look for a slow disk and too little CPU; a kubelet inspects one pod after another, so all of them \
                 wait"
            }
            Self::Hangs => {
                "find out what the pod's processes wait for (a volume on a dead NFS server, a full disk); until it \
                 answers, a kubelet keeps every other pod waiting"
            }
            Self::Refused => {
                "look for this error in the runtime's log: what the runtime stored about the pod may be damaged \
                 (`crictl inspectp` and `crictl inspect` show it); if so, remove the pod (`crictl rmp -f`)"
            }
            Self::Unavailable => {
                "check that the runtime runs (systemctl status containerd, or crio), and what its log says"
            }
        }
    }
}

pub(super) fn judge(facts: &Facts, report: &Report, findings: &mut Vec<Finding>) {
    let (slow, stuck): (Vec<&StuckPod>, Vec<&StuckPod>) =
        report.health.stuck_pods.iter().partition(|stuck| Cause::of(stuck) == Cause::Slow);
    findings.extend(one_by_one(&stuck, |stuck| stuck_pod(stuck), more_stuck_pods));
    findings.extend(slow_pods(&slow, facts));
    if report.health.waiting_pods > 0 {
        findings.push(Finding {
            name: "inspectionsWait",
            severity: Severity::Warning,
            what: format!(
                "{} pods wait for inspection: all inspection slots are taken by calls that hang",
                report.health.waiting_pods
            ),
            evidence: format!("{} inspections in flight", report.inspections_in_flight),
            advice: "fix the pods whose calls hang; the rest will follow",
        });
    }
}

fn more_stuck_pods(more: &[&StuckPod]) -> Finding {
    Finding {
        name: "podStuck",
        severity: Severity::Problem,
        what: format!("{} more pods cannot be inspected", more.len()),
        evidence: some_names(more.iter().map(|stuck| &stuck.pod)),
        advice: "with so many at once, the pods are rarely to blame: check the runtime's log and its disk",
    }
}

fn stuck_pod(stuck: &StuckPod) -> Finding {
    let cause = Cause::of(stuck);
    let hangs = stuck.call.as_ref().filter(|_| cause == Cause::Hangs);
    let what = match hangs {
        Some(call) => {
            format!("pod {}: {} hangs; the runtime still answers for other pods", stuck.pod, call.call)
        }
        None => format!("pod {} cannot be inspected; the runtime still answers for other pods", stuck.pod),
    };
    Finding {
        name: "podStuck",
        severity: Severity::Problem,
        what,
        evidence: stuck.to_string(),
        advice: cause.advice(),
    }
}

/// One finding for all slow pods, since a slow runtime is slow for all. With too little time, slow cannot be told from
/// hung.
fn slow_pods(slow: &[&StuckPod], facts: &Facts) -> Option<Finding> {
    let worst = slow.first()?;
    if facts.looked_for < HANGS {
        let call = worst.call.as_ref();
        let waited = call.map_or(worst.age, |call| call.age);
        return Some(too_short(call.map_or("status calls", |call| call.call.as_str()), waited));
    }
    let what = match slow {
        [one] => format!("pod {} is slow to inspect", one.pod),
        _ => format!(
            "{} pods are slow to inspect: {}",
            slow.len(),
            some_names(slow.iter().map(|slow| &slow.pod))
        ),
    };
    Some(Finding {
        name: "podSlow",
        severity: Severity::Warning,
        what,
        evidence: worst.to_string(),
        advice: Cause::Slow.advice(),
    })
}
