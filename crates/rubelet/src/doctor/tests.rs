//! The texts, fact by fact.

use std::time::Duration;

use pleg::{
    Call, CallReport, ClockJump, Health, HungLook, ObserveError, Report, Stamp, StreamError, StreamFacts,
    StreamReport, StuckPod,
};
use rubelet_cri::Operation;
use rubelet_model::PodRef;

use super::super::Verdict;
use super::super::facts::{Condition, Lists, Unanswered};
use super::super::readers::{StalledReader, Standstill};
use super::super::render::text;
use super::*;
use crate::runtime_kind::RuntimeKind;

fn well() -> Facts {
    let health = Health {
        healthy: true,
        problem: None,
        last_list: Some(Duration::from_millis(100)),
        last_look: None,
        last_inspection: None,
        list_failures: 0,
        list_error: None,
        list_call: None,
        unreadable_entries: 0,
        stuck_pods: Vec::new(),
        hung_looks: Vec::new(),
        waiting_pods: 0,
    };
    let facts = StreamFacts { open_since: Some(Stamp::ZERO), opened: 1, ..StreamFacts::default() };
    let stream = StreamReport::new(&facts, Stamp::ZERO.plus(Duration::from_secs(5)));
    Facts {
        runtime: "containerd v2.3.4".to_owned(),
        endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
        kind: RuntimeKind::Containerd { major: 2, minor: 3 },
        lists: Some(Ok(Lists {
            took: Duration::from_millis(12),
            sandboxes: 20,
            containers: 31,
            running: 30,
            exited: 1,
            unreadable: 0,
            size: 20_000,
            in_parts: false,
            from_the_future: 0,
        })),
        report: Some(Report {
            health,
            stream: stream.clone(),
            relist_period: Duration::from_secs(1),
            relist_reason: None,
            pods: 20,
            inspections_in_flight: 0,
            calls: Vec::new(),
            clock_jump: None,
            not_recorded: None,
        }),
        stream: Some(stream),
        looked_for: Duration::from_secs(5),
        ..Facts::default()
    }
}

fn words(change: impl FnOnce(&mut Facts)) -> String {
    let mut facts = well();
    change(&mut facts);
    anstream::adapter::strip_str(&text(&facts, &diagnose(&facts))).to_string()
}

#[test]
fn what_a_runtime_says_cannot_upset_the_terminal() {
    let rude = "a\u{1b}[2J\u{9b}\nb";
    let text = words(|facts| {
        facts.runtime = rude.to_owned();
        let [name, reason, message] = ["NetworkReady", rude, rude].map(str::to_owned);
        facts.conditions = Ok(vec![Condition { name, is_met: false, reason, message }]);
    });
    assert_eq!(text.matches("a\u{fffd}[2J\u{fffd}").count(), 3, "{text:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

fn health(change: impl FnOnce(&mut Health)) -> String {
    words(|facts| change(&mut facts.report.as_mut().expect("there is one").health))
}

fn call(call: Call, target: Option<&str>) -> CallReport {
    CallReport { call, target: target.map(Into::into), age: Duration::from_millis(4_020) }
}

fn stuck(hung: Call) -> StuckPod {
    StuckPod {
        pod: PodRef::new("u1", "shop", "web"),
        age: Duration::from_secs(4),
        last_success: None,
        call: Some(call(hung, Some("c0ffee"))),
        failures: 0,
        last_error: None,
    }
}

#[test]
fn a_node_that_is_well() {
    insta::assert_snapshot!(words(|_| {}));
}

#[test]
fn no_runtime() {
    let facts = Facts {
        unreachable: Some(
            "there is no socket at /run/containerd/containerd.sock: is the runtime running?".to_owned(),
        ),
        ..Facts::default()
    };
    insta::assert_snapshot!(anstream::adapter::strip_str(&text(&facts, &diagnose(&facts))).to_string());
}

/// As it appears after five seconds of observation: nothing has been answered.
#[test]
fn a_list_that_hangs() {
    insta::assert_snapshot!(words(|facts| {
        let waited = Duration::from_millis(4_980);
        facts.lists = Some(Err(Unanswered::Waited { operation: Operation::ListContainers, waited }));
        let report = facts.report.as_mut().expect("there is one");
        report.pods = 0;
        report.health.list_call = Some(call(Call::ListContainers, None));
        report.health.healthy = false;
        report.health.last_list = None;
        report.health.problem = Some("pleg has yet to be successful".to_owned());
    }));
}

/// Beside an agent whose last list succeeded, or that is between two lists: only the doctor's own call hangs.
#[test]
fn a_list_that_hangs_for_us() {
    insta::assert_snapshot!(words(|facts| {
        let waited = Duration::from_secs(5);
        facts.lists = Some(Err(Unanswered::Waited { operation: Operation::ListPodSandbox, waited }));
    }));
}

#[test]
fn a_list_that_fails_for_us() {
    insta::assert_snapshot!(words(|facts| {
        let (operation, error) = (Operation::ListContainers, "the store is damaged".to_owned());
        facts.lists = Some(Err(Unanswered::Failed { operation, error, reached: true }));
    }));
}

/// Whichever call fails, and whenever the runtime disappeared; a single call without an answer is a different finding.
#[test]
fn a_runtime_that_is_gone() {
    let status = |reached| Unanswered::Failed {
        operation: Operation::Status,
        error: "nobody listens".to_owned(),
        reached,
    };
    let lists = |reached| {
        Some(Err(Unanswered::Failed {
            operation: Operation::ListPodSandbox,
            error: "nobody listens".to_owned(),
            reached,
        }))
    };
    let list_error = |failure| ObserveError {
        call: Call::ListPodSandbox,
        target: None,
        failure,
        message: "nobody listens".into(),
    };
    let found = |change: &dyn Fn(&mut Facts)| {
        let mut facts = well();
        change(&mut facts);
        diagnose(&facts).iter().map(|finding| finding.name).collect::<Vec<_>>()
    };
    let pleg = |facts: &mut Facts, failure| {
        facts.report.as_mut().expect("there is one").health.list_error = Some(list_error(failure));
    };
    let gone = ["runtimeUnreachable"];
    assert_eq!(found(&|facts| (facts.conditions, facts.lists) = (Err(status(false)), lists(false))), gone);
    assert_eq!(
        found(&|facts| {
            facts.conditions = Err(status(false));
            pleg(facts, Failure::Unavailable);
        }),
        gone,
        "it went while it was looked at"
    );
    assert_eq!(found(&|facts| facts.conditions = Err(status(false))), ["statusFails"]);
    assert_eq!(
        found(&|facts| (facts.conditions, facts.lists) = (Err(status(true)), lists(true))),
        ["statusFails", "listFails"]
    );
    assert_eq!(
        found(&|facts| {
            facts.conditions = Err(status(false));
            pleg(facts, Failure::Refused);
        }),
        ["statusFails", "listFails"]
    );
}

#[test]
fn a_runtime_that_does_not_say_what_it_is() {
    let facts = Facts::of_silence("unix:///run/r.sock".to_owned(), Duration::from_secs(2));
    let findings = diagnose(&facts);
    assert_eq!(findings.iter().map(|finding| finding.name).collect::<Vec<_>>(), ["tooShort"]);
    let said = anstream::adapter::strip_str(&text(&facts, &findings)).to_string();
    assert!(said.contains("version") && said.contains("/run/r.sock"), "{said}");
}

#[test]
fn a_runtime_that_has_ended_with_its_agent() {
    let facts = Facts {
        unreachable: Some("none of these sockets exists: /run/containerd/containerd.sock".to_owned()),
        ended_with_agent: Some(EndedRuntime {
            folder: "/var/lib/rubelet".to_owned(),
            is_anything_left: true,
        }),
        ..Facts::default()
    };
    insta::assert_snapshot!(anstream::adapter::strip_str(&text(&facts, &diagnose(&facts))).to_string());
    let ended = EndedRuntime { folder: "/var/lib/rubelet".to_owned(), is_anything_left: false };
    let findings = diagnose(&Facts { ended_with_agent: Some(ended), ..facts });
    let told: Vec<_> = findings.iter().map(|finding| (finding.name, finding.severity)).collect();
    assert_eq!(told, [("noAgent", Severity::Note)], "who has no pods misses no runtime");
}

#[test]
fn a_look_that_was_too_short() {
    insta::assert_snapshot!(words(|facts| {
        facts.looked_for = Duration::from_millis(900);
        let waited = Duration::from_millis(900);
        facts.lists = Some(Err(Unanswered::Waited { operation: Operation::ListContainers, waited }));
        facts.conditions = Err(Unanswered::Waited { operation: Operation::Status, waited });
        let report = facts.report.as_mut().expect("there is one");
        (report.pods, report.health.healthy) = (0, false);
        report.health.last_list = None;
        report.health.problem = Some("pleg has yet to be successful".to_owned());
    }));
}

#[test]
fn a_pleg_that_stands() {
    insta::assert_snapshot!(health(|health| {
        health.healthy = false;
        health.problem = Some(
            "pleg was last seen active 3m20s ago; threshold is 3m0s: the pleg is not running".to_owned(),
        );
    }));
}

#[test]
fn an_agent_that_says_nothing() {
    let seen = "/var/lib/rubelet/agent.sock: its process 4711 is stopped (`kill -CONT 4711` resumes it)";
    insta::assert_snapshot!(words(|facts| facts.silent_agent = Some(seen.to_owned())));
}

#[test]
fn an_agent_that_died() {
    insta::assert_snapshot!(words(|facts| facts.dead_agent = Some("/var/lib/rubelet/agent.sock".to_owned())));
}

#[test]
fn many_pods_that_hang_and_more_that_wait_for_them() {
    insta::assert_snapshot!(words(|facts| {
        let report = facts.report.as_mut().expect("there is one");
        report.inspections_in_flight = 80;
        report.health.stuck_pods = (0..11)
            .map(|number| StuckPod {
                pod: PodRef::new("u", "shop", format!("web-{number}").as_str()),
                ..stuck(Call::ContainerStatus)
            })
            .collect();
        report.health.waiting_pods = 37;
    }));
}

/// What was wrong with a stream before it was reopened is not reported.
#[test]
fn a_stream_that_is_open_again() {
    for error in [StreamError::Unsupported, StreamError::SwitchedOff, StreamError::Ended] {
        let said = words(|facts| {
            let stream = facts.stream.as_mut().expect("there is one");
            (stream.opened, stream.last_error) = (2, Some(error.clone()));
        });
        assert!(said.contains("nothing is wrong") && !said.contains("note"), "{said}");
    }
}

#[test]
fn a_sandbox_status_that_hangs() {
    insta::assert_snapshot!(health(|health| health.stuck_pods = vec![stuck(Call::PodSandboxStatus)]));
}

#[test]
fn a_container_status_that_hangs() {
    insta::assert_snapshot!(health(|health| health.stuck_pods = vec![stuck(Call::ContainerStatus)]));
}

/// The names and advice of the findings about pods that have been observed for this long.
fn of_stuck(looked_for: u64, stuck_pods: Vec<StuckPod>) -> Vec<Finding> {
    let mut facts = well();
    facts.looked_for = Duration::from_millis(looked_for);
    facts.report.as_mut().expect("there is one").health.stuck_pods = stuck_pods;
    diagnose(&facts)
}

fn in_flight(age: u64) -> StuckPod {
    let age = Duration::from_micros(age * 1_000 + 106);
    StuckPod {
        age,
        call: Some(CallReport { age, ..call(Call::ContainerStatus, None) }),
        ..stuck(Call::ContainerStatus)
    }
}

/// As with a list: after a second or two, it is unknown whether the call will be answered.
#[test]
fn a_status_call_that_is_slow_does_not_hang() {
    for (looked_for, age, name, severity) in [
        (1_500, 1_498, "tooShort", Severity::Unclear),
        (5_000, 1_600, "podSlow", Severity::Warning),
        (5_000, 2_999, "podSlow", Severity::Warning),
        (5_000, 3_000, "podStuck", Severity::Problem),
    ] {
        let findings = of_stuck(looked_for, vec![in_flight(age)]);
        let found: Vec<_> = findings.iter().map(|finding| (finding.name, finding.severity)).collect();
        assert_eq!(found, [(name, severity)], "{age} of {looked_for}");
    }
    let three = of_stuck(5_000, vec![in_flight(1_600), in_flight(1_500), in_flight(1_400)]);
    assert_eq!(three.len(), 1, "a runtime that is slow is so for all: {three:?}");
    assert!(three[0].evidence.ends_with("in flight for 1.6s"), "{}", three[0].evidence);
}

/// What helps against a hang does not help against an error.
#[test]
fn the_advice_on_a_pod_that_cannot_be_inspected_is_for_what_is_wrong() {
    let failed = |failure, age| StuckPod {
        failures: 3,
        last_error: Some(ObserveError {
            call: Call::ContainerStatus,
            target: None,
            failure,
            message: "no such shim".into(),
        }),
        ..in_flight(age)
    };
    for (stuck, word) in [
        (failed(Failure::Refused, 10), "look for this error in the runtime's log"),
        (failed(Failure::Unavailable, 10), "check that the runtime runs"),
        (failed(Failure::Deadline, 10), "find out what the pod's processes wait for"),
        (failed(Failure::Refused, 4_000), "find out what the pod's processes wait for"),
    ] {
        let findings = of_stuck(1_500, vec![stuck]);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Problem));
        assert!(findings[0].advice.starts_with(word), "{:?}", findings[0]);
    }
}

#[test]
fn looks_that_hang() {
    insta::assert_snapshot!(health(|health| {
        health.hung_looks = (0..10)
            .map(|number| HungLook {
                pod: PodRef::new("u", "shop", format!("web-{number}").as_str()),
                age: Duration::from_millis(12_345),
                call: (number == 0).then(|| call(Call::ListContainers, None)),
                given_up: number,
            })
            .collect();
    }));
}

#[test]
fn a_recording_that_is_not_made() {
    insta::assert_snapshot!(words(|facts| {
        let report = facts.report.as_mut().expect("there is one");
        report.not_recorded = Some("cannot write /var/lib/records: no storage space".into());
    }));
}

#[test]
fn a_runtime_that_is_not_ready() {
    let condition = |name: &str, reason: &str| Condition {
        name: name.to_owned(),
        is_met: false,
        reason: reason.to_owned(),
        message: "cni plugin not initialized".to_owned(),
    };
    insta::assert_snapshot!(words(|facts| {
        facts.conditions =
            Ok(vec![condition("RuntimeReady", ""), condition("NetworkReady", "NetworkPluginNotReady")]);
    }));
}

#[test]
fn lists_that_come_in_parts() {
    insta::assert_snapshot!(words(|facts| {
        let Some(Ok(lists)) = &mut facts.lists else { unreachable!("they were answered") };
        lists.in_parts = true;
    }));
}

/// Like containerd 2 on a node with cgroup v1.
#[test]
fn a_runtime_that_works_and_complains() {
    insta::assert_snapshot!(words(|facts| {
        facts.conditions = Ok(vec![Condition {
            name: "ContainerdHasNoDeprecationWarnings".to_owned(),
            is_met: false,
            reason: "ContainerdHasDeprecationWarnings".to_owned(),
            message: "cgroup v1 is deprecated".to_owned(),
        }]);
        assert_eq!(Verdict::of(&diagnose(facts)), Verdict::Well);
    }));
}

#[test]
fn lists_that_are_slow_large_and_full_of_the_dead() {
    insta::assert_snapshot!(words(|facts| {
        let Some(Ok(lists)) = &mut facts.lists else { unreachable!("they were answered") };
        lists.took = Duration::from_millis(2_345);
        lists.size = 9 << 20;
        (lists.containers, lists.exited, lists.unreadable) = (18_030, 18_000, 2);
    }));
}

#[test]
fn a_list_that_came_as_a_stream_is_too_large_for_others_all_the_same() {
    let said = |size, in_parts| {
        words(|facts| {
            let Some(Ok(lists)) = &mut facts.lists else { unreachable!("they were answered") };
            (lists.size, lists.in_parts) = (size, in_parts);
        })
    };
    assert_eq!(said(17 << 20, false), said(1 << 20, true));
    assert_ne!(said(16 << 20, false), said(1 << 20, true));
}

#[test]
fn events_that_are_not_there() {
    insta::assert_snapshot!(words(|facts| {
        facts.runtime = "containerd 1.6.39".to_owned();
        let stream = facts.stream.as_mut().expect("there is one");
        (stream.open, stream.last_error) = (false, Some(StreamError::Unsupported));
    }));
}

#[test]
fn events_that_are_switched_off() {
    insta::assert_snapshot!(words(|facts| {
        facts.runtime = "cri-o 1.35.0".to_owned();
        let stream = facts.stream.as_mut().expect("there is one");
        (stream.open, stream.last_error) = (false, Some(StreamError::SwitchedOff));
    }));
}

#[test]
fn events_that_are_stolen() {
    insta::assert_snapshot!(words(|facts| {
        facts.runtime = "containerd v1.7.34".to_owned();
        facts.kind = RuntimeKind::Containerd { major: 1, minor: 7 };
        facts.stream.as_mut().expect("there is one").unannounced = 7;
    }));
}

#[test]
fn events_that_were_stolen_long_ago() {
    insta::assert_snapshot!(words(|facts| {
        facts.runtime = "containerd v1.7.34".to_owned();
        facts.kind = RuntimeKind::Containerd { major: 1, minor: 7 };
        facts.stream.as_mut().expect("there is one").unannounced = 7;
        facts.report.as_mut().expect("there is one").relist_period = Duration::from_secs(60);
    }));
}

#[test]
fn events_that_would_be_stolen_by_us() {
    insta::assert_snapshot!(words(|facts| {
        facts.runtime = "containerd v1.7.34".to_owned();
        facts.kind = RuntimeKind::Containerd { major: 1, minor: 7 };
        facts.stream = None;
    }));
}

#[test]
fn events_that_get_lost() {
    insta::assert_snapshot!(words(|facts| facts.stream.as_mut().expect("there is one").unannounced = 7));
}

#[test]
fn a_reader_that_stands_still() {
    insta::assert_snapshot!(words(|facts| {
        let (command, why) = ("crictl events".to_owned(), Standstill::Stopped);
        facts.stalled_readers = vec![StalledReader { pid: 4711, command, why }];
    }));
}

#[test]
fn a_reader_that_nobody_reads() {
    insta::assert_snapshot!(words(|facts| {
        let (command, why) = ("crictl events".to_owned(), Standstill::WaitsToWrite);
        facts.stalled_readers = vec![StalledReader { pid: 4711, command, why }];
    }));
}

#[test]
fn clocks_that_jump() {
    insta::assert_snapshot!(words(|facts| {
        facts.clock_jump = -28_800.0;
        let Some(Ok(lists)) = &mut facts.lists else { unreachable!("they were answered") };
        lists.from_the_future = 12;
    }));
    let earlier = |age| {
        words(|facts| {
            let jump = ClockJump { seconds: 3_600.0, age: Duration::from_secs(age) };
            facts.report.as_mut().expect("there is one").clock_jump = Some(jump);
        })
    };
    insta::assert_snapshot!("a_clock_that_jumped_before", earlier(600));
    assert!(earlier(86_400).contains("nothing is wrong"), "a day later it is only a note");
}
