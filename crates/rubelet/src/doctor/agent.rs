//! What a running agent reports about itself and its pods, and what that means.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;

use pleg::GoDuration;

use super::calls::HANGS;
use super::finding::{Finding, NAMED, Severity, one_by_one};
use crate::http::{AgentReport, CallReport};
use crate::local::PodInfo;
use crate::summary::{Mood, Summary};

/// Facts that only an agent knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentFacts {
    /// The folder through which it was found.
    pub(crate) place: String,
    pub(crate) report: AgentReport,
    pub(crate) pods: Vec<PodFacts>,
}

/// The agent's view of one of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodFacts {
    pub(crate) name: String,
    /// The one-word status.
    pub(crate) status: String,
    pub(crate) detail: Option<String>,
    pub(crate) mood: Mood,
    /// The image that is being pulled, and for how long.
    pub(crate) pulling: Option<(String, Duration)>,
    /// How long ago it should have ended, if its grace period is over.
    pub(crate) overdue: Option<Duration>,
}

/// A pull that takes longer than this is reported.
const SLOW_PULL: Duration = Duration::from_secs(120);
/// A pod that has not ended this long after its grace period is reported.
const SLOW_END: Duration = Duration::from_secs(60);
/// A call that has not been answered this long after it should have been is reported.
const CALL_HANGS: Duration = Duration::from_secs(30);
/// A probe that is this late is reported.
const LATE_PROBE: Duration = Duration::from_secs(5);

impl PodFacts {
    /// Extracts the facts from what an agent reports about a pod, at this time by the agent's clock.
    pub(super) fn of(info: &PodInfo, now: i64) -> Self {
        let summary = Summary::of_info(info);
        let age = |event: &Event| {
            let at = event.last_timestamp.as_ref().map_or(0, |time| time.0.as_nanosecond());
            Duration::from_nanos(u64::try_from(i128::from(now) - at).unwrap_or(0))
        };
        let is = |event: &Event, reason: &str| event.reason.as_deref() == Some(reason);
        let of_images = ["Pulling", "Pulled", "Failed", "BackOff"];
        let mut newest = std::collections::BTreeMap::new();
        for event in &info.events {
            if of_images.iter().any(|reason| is(event, reason)) {
                newest.insert(event.involved_object.field_path.clone(), event);
            }
        }
        let pulling = newest
            .into_values()
            .filter(|event| is(event, "Pulling"))
            .map(|event| (event.message.clone().unwrap_or_default(), age(event)))
            .max_by_key(|(_, age)| *age);
        let grace =
            info.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        // An older event is from an earlier restart of a container.
        let killed = info.events.iter().filter(|event| is(event, "Killing")).map(age).min();
        let overdue = killed.filter(|_| info.stage == "terminating").and_then(|age| age.checked_sub(grace));
        let Summary { name, status, detail, mood, .. } = summary;
        Self { name, status, detail, mood, pulling, overdue }
    }
}

impl AgentFacts {
    pub(super) fn diagnose(&self, findings: &mut Vec<Finding>) {
        if let Some(problem) = &self.report.sync_loop {
            findings.push(Finding {
                name: "syncLoopStands",
                severity: Severity::Problem,
                what: "the agent's sync loop is stuck: no pod is started, restarted or stopped".to_owned(),
                evidence: problem.clone(),
                advice: "restart the agent (pods keep running) and keep its log: this is a bug in rubelet",
            });
        }
        if let Some(unknown) = self.report.not_known_yet() {
            let is_young = self.report.uptime < HANGS;
            findings.push(Finding {
                name: "sourceNotHeard",
                severity: if is_young { Severity::Unclear } else { Severity::Problem },
                what: "the agent has not yet listed the runtime and read every source; until it has, it ends no pod".to_owned(),
                evidence: format!("{unknown}, {} after the agent started", GoDuration::in_tenths(self.report.uptime)),
                advice: "check that every path and URL it was given can be read, and that the runtime answers",
            });
        }
        for source in self.report.sources.iter().filter(|source| !source.problems.is_empty()) {
            findings.push(Finding {
                name: "sourceProblems",
                severity: Severity::Warning,
                what: format!("some manifests in {} cannot be used", source.name),
                evidence: first_of(&source.problems, "\n"),
                advice: "fix what is listed; until then those pods keep running as before",
            });
        }
        self.calls_that_hang(findings);
        self.probes_that_are_late(findings);
        self.pods_in_trouble(findings);
        self.images_that_do_not_come(findings);
        self.pods_that_do_not_end(findings);
    }

    fn images_that_do_not_come(&self, findings: &mut Vec<Finding>) {
        let slow = |pod: &PodFacts| {
            let (message, age) = pod.pulling.as_ref().filter(|(_, age)| *age >= SLOW_PULL)?;
            Some((pod.name.clone(), message.clone(), GoDuration::in_seconds(*age)))
        };
        let slow: Vec<_> = self.pods.iter().filter_map(slow).collect();
        let finding = |what: String, evidence: String| Finding {
            name: "pullHangs",
            severity: Severity::Warning,
            what,
            evidence,
            advice: "check whether the registry answers and whether the runtime's disk is full; with \
                     --parallel-pulls 1 (the default), other pods wait for their images as well",
        };
        findings.extend(one_by_one(
            &slow,
            |(pod, message, age)| {
                let what = format!("pod {pod}: its image pull does not finish");
                finding(what, format!("{message}: started {age} ago, neither finished nor failed"))
            },
            |more| {
                let names: Vec<String> = more.iter().map(|(pod, ..)| pod.clone()).collect();
                finding(
                    format!("the image pulls of {} more pods do not finish", more.len()),
                    first_of(&names, ", "),
                )
            },
        ));
    }

    fn pods_that_do_not_end(&self, findings: &mut Vec<Finding>) {
        let late = |pod: &PodFacts| {
            let late = pod.overdue.filter(|late| *late >= SLOW_END)?;
            Some((pod.name.clone(), GoDuration::in_seconds(late)))
        };
        let late: Vec<_> = self.pods.iter().filter_map(late).collect();
        let finding = |what: String, evidence: String| Finding {
            name: "podDoesNotEnd",
            severity: Severity::Warning,
            what,
            evidence,
            advice: "find out what its processes wait for (a process in state D, a volume that hangs), and what the \
                     runtime's log says about stopping it",
        };
        findings.extend(one_by_one(
            &late,
            |(pod, late)| {
                finding(format!("pod {pod} does not terminate"), format!("its grace period ended {late} ago"))
            },
            |more| {
                let names: Vec<String> = more.iter().map(|(pod, _)| pod.clone()).collect();
                finding(format!("{} more pods do not terminate", more.len()), first_of(&names, ", "))
            },
        ));
    }

    /// Finds calls that act on pods and hang. Calls that only read are made by the PLEG.
    fn calls_that_hang(&self, findings: &mut Vec<Finding>) {
        let is_late = |call: &&CallReport| {
            call.granted.is_some_and(|granted| call.age >= granted.saturating_add(CALL_HANGS))
        };
        let late: Vec<&CallReport> = self.report.calls.iter().filter(is_late).collect();
        findings.extend(one_by_one(&late, |call| call_hangs(call), |more| Finding {
            name: "callHangs",
            severity: Severity::Problem,
            what: format!("{} more calls of the agent hang", more.len()),
            evidence: format!("{} in total, for more than {}", late.len(), GoDuration(CALL_HANGS)),
            advice: "with so many at once, the pods are rarely to blame: check the runtime's log and its disk",
        }));
    }

    fn probes_that_are_late(&self, findings: &mut Vec<Finding>) {
        let probes = self.report.probes;
        if probes.longest < LATE_PROBE {
            return;
        }
        findings.push(Finding {
            name: "probesLate",
            severity: Severity::Warning,
            what: "probes run late, so failures are noticed late".to_owned(),
            evidence: format!(
                "the latest by {}; {} commands are queued",
                GoDuration::in_tenths(probes.longest),
                probes.waiting
            ),
            advice: "exec probes are expensive: probe less often, or use httpGet, tcpSocket or grpc; check whether \
                     the node has spare CPU",
        });
    }

    fn pods_in_trouble(&self, findings: &mut Vec<Finding>) {
        let bad: Vec<String> = self
            .pods
            .iter()
            .filter(|pod| pod.mood == Mood::Bad)
            .map(|pod| match &pod.detail {
                Some(detail) => format!("{}: {}: {detail}", pod.name, pod.status),
                None => format!("{}: {}", pod.name, pod.status),
            })
            .collect();
        if bad.is_empty() {
            return;
        }
        let plural = if bad.len() == 1 { "a pod is".to_owned() } else { format!("{} pods are", bad.len()) };
        findings.push(Finding {
            name: "podsInTrouble",
            severity: Severity::Warning,
            what: format!("{plural} in trouble; the agent is fine"),
            evidence: first_of(&bad, "\n"),
            advice: "`rubelet describe POD` shows what happened, `rubelet logs --previous POD` its last output",
        });
    }
}

fn call_hangs(call: &CallReport) -> Finding {
    let age = GoDuration::in_seconds(call.age);
    let target = call.target.as_ref().map(|target| format!(" of {target}")).unwrap_or_default();
    let granted = match call.granted {
        None | Some(Duration::ZERO) => String::new(),
        Some(granted) => format!(", of which {} were expected", GoDuration::in_seconds(granted)),
    };
    Finding {
        name: "callHangs",
        severity: Severity::Problem,
        what: match &call.pod {
            Some(pod) => format!("pod {pod} is blocked: {} hangs", call.call),
            None => format!("{} hangs", call.call),
        },
        evidence: format!("{}{target} in flight for {age}{granted}", call.call),
        advice: "check the runtime's log for what it waits for: a network plugin (CNI), a volume, a process that \
                 cannot be killed; other pods are not affected",
    }
}

/// Lists the first few, and says how many more there are.
fn first_of(all: &[String], between: &str) -> String {
    let mut text = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(between);
    if all.len() > NAMED {
        text.push_str(&format!("{between}and {} more", all.len() - NAMED));
    }
    text
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
