//! Whether the PLEG does its work and, if not, what it is waiting for.
//!
//! Health is a pure function of recorded facts. The sentence is the kubelet's, so that searching for it finds the usual
//! answers; after it comes the cause: which call, for which pod, for how long. A pod that cannot be inspected is named,
//! but does not make the PLEG unhealthy, since the other pods are still served.

use std::fmt;
use std::time::Duration;

use rubelet_model::PodRef;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::core::Config;
use crate::go_duration::GoDuration;
use crate::observe::ObserveError;
use crate::progress::{CallInFlight, CallReport, Stage};

/// How the full lists have gone so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ListFacts {
    /// When the last successful list was requested.
    pub last_success: Option<Stamp>,
    /// How many lists have failed since.
    pub failures: u64,
    /// The last failure, and when it happened.
    pub last_failure: Option<(Stamp, ObserveError)>,
    /// How many entries of the last successful list could not be read.
    pub unreadable: usize,
}

impl ListFacts {
    pub(crate) fn succeeded(&mut self, asked: Stamp, unreadable: usize) {
        self.last_success = Some(asked);
        self.failures = 0;
        self.last_failure = None;
        self.unreadable = unreadable;
    }

    pub(crate) fn failed(&mut self, at: Stamp, error: ObserveError) {
        self.failures += 1;
        self.last_failure = Some((at, error));
    }
}

/// A pod that cannot be inspected.
#[derive(Clone, Debug)]
pub(crate) struct PodFacts {
    /// Which pod.
    pub pod: PodRef,
    /// When the first inspection began that has not succeeded.
    pub since: Stamp,
    /// When the last successful inspection began.
    pub last_success: Option<Stamp>,
    /// How many inspections have failed since.
    pub failures: u64,
    /// The last error.
    pub last_error: Option<ObserveError>,
}

/// The health of a PLEG at one moment. `Display` puts it in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Whether pods are being observed.
    pub healthy: bool,
    /// The kubelet's sentence and the cause; `None` if healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long ago the last successful full list was requested.
    #[serde(rename = "lastListSeconds", with = "crate::go_duration::optional_seconds")]
    pub last_list: Option<Duration>,
    /// How long ago the last successful look was requested.
    #[serde(default, rename = "lastLookSeconds", with = "crate::go_duration::optional_seconds")]
    pub last_look: Option<Duration>,
    /// How long ago the last successful inspection began.
    #[serde(rename = "lastInspectionSeconds", with = "crate::go_duration::optional_seconds")]
    pub last_inspection: Option<Duration>,
    /// How many full lists have failed since the last successful one.
    pub list_failures: u64,
    /// Why the latest full list failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_error: Option<ObserveError>,
    /// The call that the full list in progress is waiting for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_call: Option<CallReport>,
    /// How many entries of the last successful full list could not be read.
    pub unreadable_entries: usize,
    /// Pods that cannot be inspected, longest first.
    pub stuck_pods: Vec<StuckPod>,
    /// Pods whose single-pod list (a *look*) gets no answer, longest first. A full list replaces it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hung_looks: Vec<HungLook>,
    /// How many pods have waited longer than [`Config::slow_after`](crate::Config::slow_after) for their turn to be
    /// inspected.
    #[serde(default)]
    pub waiting_pods: usize,
}

/// A pod that cannot be inspected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckPod {
    /// Which pod.
    pub pod: PodRef,
    /// For how long it could not be.
    #[serde(rename = "ageSeconds", with = "crate::go_duration::seconds")]
    pub age: Duration,
    /// How long ago its last successful inspection began.
    #[serde(
        default,
        rename = "lastSuccessSeconds",
        skip_serializing_if = "Option::is_none",
        with = "crate::go_duration::optional_seconds"
    )]
    pub last_success: Option<Duration>,
    /// The call in progress, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallReport>,
    /// How many inspections have failed since the last successful one.
    pub failures: u64,
    /// The error of the last one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ObserveError>,
}

/// A pod whose looks get no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HungLook {
    /// Which pod.
    pub pod: PodRef,
    /// For how long they have had no answer.
    #[serde(rename = "ageSeconds", with = "crate::go_duration::seconds")]
    pub age: Duration,
    /// The call in progress, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallReport>,
    /// How many looks were given up in that time.
    pub given_up: u64,
}

impl Health {
    /// The health that follows from these facts at `now`.
    #[must_use]
    pub(crate) fn assess(
        list: &ListFacts,
        pods: Vec<PodFacts>,
        calls: &[(Stage, CallInFlight)],
        config: &Config,
        now: Stamp,
    ) -> Self {
        let Config { relist_threshold: threshold, slow_after, .. } = *config;
        let last_list = list.last_success.map(|asked| asked.until(now));
        let sentence = match last_list {
            None => Some("pleg has yet to be successful".to_owned()),
            Some(age) if age > threshold => Some(format!(
                "pleg was last seen active {} ago; threshold is {}",
                GoDuration(age),
                GoDuration(threshold)
            )),
            Some(_) => None,
        };
        let list_call = calls.iter().find(|(stage, _)| *stage == Stage::List).map(|(_, call)| call);
        let problem = sentence.map(|sentence| match (list_call, &list.last_failure) {
            (Some(call), None) => format!("{sentence}: {}", call.describe(now)),
            (Some(call), Some((_, error))) => {
                format!("{sentence}: {}; before that {error}", call.describe(now))
            }
            (None, Some((_, error))) => format!("{sentence}: {error}"),
            (None, None) => sentence,
        });
        let mut stuck_pods: Vec<StuckPod> = pods
            .into_iter()
            .map(|facts| StuckPod {
                age: facts.since.until(now),
                last_success: facts.last_success.map(|begun| begun.until(now)),
                call: calls
                    .iter()
                    .find(|(stage, _)| *stage == Stage::Inspect(facts.pod.uid.clone()))
                    .map(|(_, call)| call.report(now)),
                pod: facts.pod,
                failures: facts.failures,
                last_error: facts.last_error,
            })
            // An inspection that has many calls to make, and gets answers, is long but not stuck.
            .filter(|pod| pod.failures > 0 || pod.call.as_ref().is_none_or(|call| call.age >= slow_after))
            .collect();
        stuck_pods.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.pod.cmp(&b.pod)));
        Self {
            healthy: problem.is_none(),
            problem,
            last_list,
            last_look: None,
            last_inspection: None,
            list_failures: list.failures,
            list_error: list.last_failure.as_ref().map(|(_, error)| error.clone()),
            list_call: list_call.map(|call| call.report(now)),
            unreadable_entries: list.unreadable,
            stuck_pods,
            hung_looks: Vec::new(),
            waiting_pods: 0,
        }
    }

    /// The health of a PLEG whose task is not running.
    #[must_use]
    pub(crate) fn not_running(mut self) -> Self {
        let cause = "the pleg is not running";
        self.healthy = false;
        self.problem = Some(match self.problem {
            Some(problem) => format!("{problem}: {cause}"),
            None => cause.to_owned(),
        });
        self
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem.as_deref().unwrap_or("ok"))?;
        if self.unreadable_entries > 0 {
            write!(f, "; {} entries of the last list could not be read", self.unreadable_entries)?;
        }
        for pod in &self.stuck_pods {
            write!(f, "; {pod}")?;
        }
        for look in &self.hung_looks {
            write!(f, "; {look}")?;
        }
        match self.waiting_pods {
            0 => {}
            1 => f.write_str("; 1 pod waits for inspection")?,
            waiting => write!(f, "; {waiting} pods wait for inspection")?,
        }
        Ok(())
    }
}

impl fmt::Display for StuckPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {} not inspected for {}", self.pod, GoDuration::in_millis(self.age))?;
        if let Some(call) = &self.call {
            write!(f, ", {}", call.call)?;
            if let Some(target) = &call.target {
                write!(f, " of {target}")?;
            }
            write!(f, " in flight for {}", GoDuration::in_millis(call.age))?;
        }
        match (&self.last_error, self.failures) {
            (Some(error), 1) => write!(f, ", failed once: {error}"),
            (Some(error), failures) => write!(f, ", failed {failures} times: {error}"),
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Display for HungLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}: single-pod lists unanswered for {}", self.pod, GoDuration::in_millis(self.age))?;
        if let Some(call) = &self.call {
            write!(f, ", {} in flight for {}", call.call, GoDuration::in_millis(call.age))?;
        }
        match self.given_up {
            0 => Ok(()),
            1 => f.write_str(", abandoned once in favour of a full list"),
            times => write!(f, ", abandoned {times} times in favour of a full list"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Call, Failure};

    fn at(seconds: u64) -> Stamp {
        Stamp::ZERO.plus(Duration::from_secs(seconds))
    }

    fn assess(list: &ListFacts, calls: &[(Stage, CallInFlight)], now: u64) -> Health {
        Health::assess(list, Vec::new(), calls, &Config::default(), at(now))
    }

    #[test]
    fn unhealthy_until_the_first_list_however_long_that_takes() {
        for now in [0, 600] {
            let health = assess(&ListFacts::default(), &[], now);
            assert!(!health.healthy);
            assert_eq!(health.to_string(), "pleg has yet to be successful");
        }
    }

    #[test]
    fn healthy_up_to_the_threshold_and_not_beyond() {
        let mut list = ListFacts::default();
        list.succeeded(at(10), 0);
        assert!(assess(&list, &[], 70).healthy);
        assert!(assess(&list, &[], 190).healthy, "exactly the threshold is not beyond it");
        let late = assess(&list, &[], 202);
        assert!(!late.healthy);
        assert_eq!(late.to_string(), "pleg was last seen active 3m12s ago; threshold is 3m0s");
    }

    #[test]
    fn the_cause_stands_behind_the_sentence() {
        let mut list = ListFacts::default();
        list.succeeded(at(0), 0);
        let hung = CallInFlight { call: Call::ListContainers, target: None, since: at(1) };
        assert_eq!(
            assess(&list, &[(Stage::List, hung)], 200).to_string(),
            "pleg was last seen active 3m20s ago; threshold is 3m0s: list_containers in flight for 3m19s"
        );
        list.failed(
            at(190),
            ObserveError {
                call: Call::ListPodSandbox,
                target: None,
                failure: Failure::Unavailable,
                message: "connection refused".into(),
            },
        );
        assert_eq!(
            assess(&list, &[], 200).to_string(),
            "pleg was last seen active 3m20s ago; threshold is 3m0s: list_podsandbox: connection refused"
        );
    }

    #[test]
    fn a_stuck_pod_is_named_with_its_call_and_does_not_make_the_node_unhealthy() {
        let mut list = ListFacts::default();
        list.succeeded(at(99), 0);
        let pod = PodRef::new("u1", "web", "nginx-0");
        let facts = PodFacts { pod, since: at(0), last_success: None, failures: 0, last_error: None };
        let hung = CallInFlight { call: Call::ContainerStatus, target: Some("c0ffee".into()), since: at(20) };
        let calls = [(Stage::Inspect("u1".into()), hung)];
        let health = Health::assess(&list, vec![facts], &calls, &Config::default(), at(100));
        assert!(health.healthy);
        assert_eq!(
            health.to_string(),
            "ok; pod web/nginx-0 not inspected for 1m40s, container_status of c0ffee in flight for 1m20s"
        );
    }

    #[test]
    fn an_inspection_that_is_long_but_gets_on_is_not_stuck() {
        let pod = PodRef::new("u1", "web", "nginx-0");
        let call = |seconds| CallInFlight { call: Call::ContainerStatus, target: None, since: at(seconds) };
        // failures, when the call in flight was made → is it stuck at 100?
        for (failures, made, is_stuck) in
            [(0, Some(100), false), (0, Some(99), true), (0, None, true), (1, Some(100), true)]
        {
            let facts =
                PodFacts { pod: pod.clone(), since: at(0), last_success: None, failures, last_error: None };
            let calls: Vec<_> =
                made.map(|made| (Stage::Inspect("u1".into()), call(made))).into_iter().collect();
            let health =
                Health::assess(&ListFacts::default(), vec![facts], &calls, &Config::default(), at(100));
            assert_eq!(!health.stuck_pods.is_empty(), is_stuck, "{failures} {made:?}");
        }
    }
}
