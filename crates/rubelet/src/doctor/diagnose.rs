//! Turns facts into findings.

use pleg::{Failure, GoDuration};

use super::calls;
use super::facts::{EndedRuntime, Facts};
use super::finding::{Finding, Severity};
use super::streams;

/// The wall clock may drift this far from the time that has passed, in seconds.
const CLOCK_JUMP: f64 = 1.0;
/// A jump of the wall clock is reported for this long.
const LATE: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Returns the findings, worst first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(seen) = &facts.silent_agent {
        findings.push(Finding {
            name: "agentSilent",
            severity: Severity::Problem,
            what: "the agent runs but does not answer: none of its pods is started, restarted or stopped"
                .to_owned(),
            evidence: seen.clone(),
            advice: "resume it if it is stopped (kill -CONT), else restart it (pods keep running). The findings \
                     below come from asking the runtime directly",
        });
    }
    if let Some(socket) = &facts.dead_agent {
        findings.push(Finding {
            name: "agentDead",
            severity: Severity::Problem,
            what: "the agent has died: none of its pods is started, restarted or stopped".to_owned(),
            evidence: format!("{socket} exists, but nothing listens on it; an agent that exits normally removes it"),
            advice: "start it again (pods keep running) and check the end of its log. If no agent should run, remove \
                     that socket. The findings below come from asking the runtime directly",
        });
    }
    match (unreachable(facts), &facts.ended_with_agent) {
        (Some(_), Some(EndedRuntime { folder, is_anything_left: false })) => findings.push(Finding {
            name: "noAgent",
            severity: Severity::Note,
            what: "no agent and no pods are running".to_owned(),
            evidence: format!("the last agent of {folder} has ended, and none of its pods is running"),
            advice: "start one (rubelet run PATH) to run pods; if you meant another runtime, name it with \
                     --runtime-endpoint",
        }),
        (Some(_), Some(EndedRuntime { folder, .. })) => findings.push(Finding {
            name: "runtimeEnded",
            severity: Severity::Problem,
            what: "no agent runs, and its embedded runtime ended with it: pods keep running, unattended".to_owned(),
            evidence: format!("the last agent of {folder} ran its own runtime, which no longer answers"),
            advice: "start it again (rubelet run) and it takes the pods over; if you meant another runtime, name it \
                     with --runtime-endpoint",
        }),
        // Everything else that does not work follows from this.
        (Some(reason), None) => findings.push(Finding {
            name: "runtimeUnreachable",
            severity: Severity::Problem,
            what: "no runtime answers, so its pods cannot be observed".to_owned(),
            evidence: reason.to_owned(),
            advice: "check that this is its socket (--runtime-endpoint), that it runs (systemctl status containerd, \
                     or crio), and what its log says",
        }),
        (None, _) => {
            conditions(facts, &mut findings);
            calls::judge(facts, &mut findings);
            streams::judge(facts, &mut findings);
        }
    }
    if let Some(agent) = &facts.agent {
        agent.diagnose(&mut findings);
    }
    clocks(facts, &mut findings);
    findings.extend(not_recorded(facts));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Reported because a recording is not missed until it is needed.
fn not_recorded(facts: &Facts) -> Option<Finding> {
    let why = facts.report.as_ref()?.not_recorded.as_ref()?;
    Some(Finding {
        name: "notRecorded",
        severity: Severity::Warning,
        what: "nothing is being recorded, although the agent was started with --record-dir".to_owned(),
        evidence: why.to_string(),
        advice: "free space on that disk, or allow the recording more with --record-size; the agent tries again \
                 every minute",
    })
}

/// Says why no runtime answers, if neither its status nor its lists are available. If only one call fails, a plugin may
/// be at fault.
fn unreachable(facts: &Facts) -> Option<&str> {
    if let Some(reason) = &facts.unreachable {
        return Some(reason);
    }
    let reason = facts.conditions.as_ref().err()?.not_reached()?;
    let is_unlisted = facts
        .lists
        .as_ref()
        .is_some_and(|lists| lists.as_ref().is_err_and(|unanswered| unanswered.not_reached().is_some()));
    // The runtime was there at the start of the examination, and is gone now.
    let lists_ended = facts.report.as_ref().is_some_and(|report| {
        report.health.list_error.as_ref().is_some_and(|error| error.failure == Failure::Unavailable)
    });
    (is_unlisted || lists_ended).then_some(reason)
}

fn conditions(facts: &Facts, findings: &mut Vec<Finding>) {
    let conditions = match &facts.conditions {
        Ok(conditions) => conditions,
        Err(unanswered) => {
            findings.push(calls::unanswered_status(unanswered));
            return;
        }
    };
    for condition in conditions.iter().filter(|condition| !condition.is_met) {
        let (name, severity, what, advice) = match condition.name.as_str() {
            "NetworkReady" => (
                "networkNotReady",
                Severity::Problem,
                "the pod network is not ready: only pods on the host's network can start",
                "check that there is a CNI configuration in /etc/cni/net.d and that the network's own pods run",
            ),
            "RuntimeReady" => (
                "runtimeNotReady",
                Severity::Problem,
                "the runtime reports that it is not ready",
                "check the runtime's log; if that does not help, restart the runtime",
            ),
            // Other conditions are the runtime's own, and nothing depends on them: containerd reports deprecated
            // settings this way.
            _ => (
                "runtimeComplains",
                Severity::Warning,
                "the runtime works, but reports a warning",
                "act on it before the next upgrade",
            ),
        };
        let said = [condition.reason.as_str(), condition.message.as_str()];
        let mut evidence = vec![format!("{} is false", condition.name)];
        evidence.extend(said.into_iter().filter(|said| !said.is_empty()).map(|said| format!("({said})")));
        findings.push(Finding {
            name,
            severity,
            what: what.to_owned(),
            evidence: evidence.join(" "),
            advice,
        });
    }
}

fn clocks(facts: &Facts, findings: &mut Vec<Finding>) {
    let earlier = facts.report.as_ref().and_then(|report| report.clock_jump);
    let jump = if facts.clock_jump.abs() >= CLOCK_JUMP {
        let evidence = format!("by {:+.1}s during this check", facts.clock_jump);
        Some((Severity::Warning, evidence))
    } else {
        earlier.map(|jump| {
            let severity = if jump.age < LATE { Severity::Warning } else { Severity::Note };
            (severity, format!("by {:+.1}s, {} ago", jump.seconds, GoDuration::in_seconds(jump.age)))
        })
    };
    if let Some((severity, evidence)) = jump {
        findings.push(Finding {
            name: "clockJump",
            severity,
            what: "the node's clock jumped".to_owned(),
            evidence,
            advice: "check the node's clock (chronyc tracking): kubelets and certificates depend on it",
        });
    }
    let from_the_future = facts.lists.as_ref().map_or(0, |lists| match lists {
        Ok(lists) => lists.from_the_future,
        Err(_) => 0,
    });
    if from_the_future > 0 {
        findings.push(Finding {
            name: "fromTheFuture",
            severity: Severity::Warning,
            what: "some containers were created in the future: the node's clock has been set back".to_owned(),
            evidence: format!("{from_the_future} of them"),
            advice: "check the node's clock (chronyc tracking): a kubelet sorts containers by their creation time",
        });
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
