//! The words, fact by fact.

use pleg::{Call, CallReport, Health, Report, Stamp, StreamFacts, StreamReport};
use rubelet_model::PodRef;

use super::super::facts::Condition;
use super::super::readers::StoppedReader;
use super::super::render::text;
use super::*;
use crate::runtime_kind::RuntimeKind;

fn well() -> Facts {
    let health = Health {
        healthy: true,
        problem: None,
        last_list: Some(Duration::from_millis(100)),
        last_inspection: None,
        list_failures: 0,
        list_error: None,
        list_call: None,
        unreadable_entries: 0,
        stuck_pods: Vec::new(),
    };
    let stream = StreamFacts { open_since: Some(Stamp::ZERO), opened: 1, ..StreamFacts::default() };
    Facts {
        runtime: "containerd v2.3.4".to_owned(),
        endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
        kind: RuntimeKind::Containerd { major: 2, minor: 3 },
        lists: Some(Lists {
            took: Duration::from_millis(12),
            sandboxes: 20,
            containers: 31,
            running: 30,
            exited: 1,
            unreadable: 0,
            largest_message: 20_000,
        }),
        report: Some(Report {
            health,
            stream: StreamReport::from(&stream),
            relist_period: Duration::from_secs(1),
            pods: 20,
            inspections_in_flight: 0,
            calls: Vec::new(),
        }),
        stream: Some(StreamReport::from(&stream)),
        looked_for: Duration::from_secs(5),
        ..Facts::default()
    }
}

fn words(change: impl FnOnce(&mut Facts)) -> String {
    let mut facts = well();
    change(&mut facts);
    anstream::adapter::strip_str(&text(&facts, &diagnose(&facts))).to_string()
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

#[test]
fn a_list_that_hangs() {
    insta::assert_snapshot!(health(|health| health.list_call = Some(call(Call::ListContainers, None))));
}

#[test]
fn a_sandbox_status_that_hangs() {
    insta::assert_snapshot!(health(|health| health.stuck_pods = vec![stuck(Call::PodSandboxStatus)]));
}

#[test]
fn a_container_status_that_hangs() {
    insta::assert_snapshot!(health(|health| health.stuck_pods = vec![stuck(Call::ContainerStatus)]));
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
fn lists_that_are_slow_large_and_full_of_the_dead() {
    insta::assert_snapshot!(words(|facts| {
        let lists = facts.lists.as_mut().expect("there is one");
        lists.took = Duration::from_millis(2_345);
        lists.largest_message = 9 << 20;
        (lists.containers, lists.exited, lists.unreadable) = (18_030, 18_000, 2);
    }));
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
        facts.stopped_readers = vec![StoppedReader { pid: 4711, command: "crictl events".to_owned() }];
    }));
}

#[test]
fn clocks_that_jump() {
    insta::assert_snapshot!(words(|facts| {
        facts.clock_jump = -28_800.0;
        facts.from_the_future = 12;
    }));
}
