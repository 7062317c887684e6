use k8s_openapi::api::core::v1::{
    ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, PodCondition,
};

use super::*;
use crate::pod::testkit::pod;

fn now() -> UnixNanos {
    UnixNanos(7_900_000_000)
}

fn container(name: &str, state: ApiState) -> ApiContainer {
    ApiContainer { name: name.to_owned(), state: Some(state), ..ApiContainer::default() }
}

fn ended(code: i32, message: &str) -> ApiState {
    let terminated = ContainerStateTerminated {
        exit_code: code,
        message: Some(message.to_owned()),
        finished_at: time(UnixNanos(3_700_000_000)),
        ..ContainerStateTerminated::default()
    };
    ApiState { terminated: Some(terminated), ..ApiState::default() }
}

fn on() -> ApiState {
    ApiState { running: Some(ContainerStateRunning::default()), ..ApiState::default() }
}

fn of(init: Vec<ApiContainer>, regular: Vec<ApiContainer>) -> ApiStatus {
    ApiStatus {
        init_container_statuses: Some(init),
        container_statuses: Some(regular),
        ..ApiStatus::default()
    }
}

#[test]
fn who_may_come_back() {
    // policy, who, exit code → may run again
    let table = [
        ("Always", "a", 0, true),
        ("Always", "a", 1, true),
        ("OnFailure", "a", 1, true),
        ("OnFailure", "a", 0, false),
        ("Never", "a", 1, false),
        ("Never", "a", 0, false),
        ("Never", "i", 0, true),
        ("Never", "i", 1, false),
        ("OnFailure", "i", 0, true),
        ("Never", "s", 1, true),
    ];
    for (policy, who, code, wanted) in table {
        let pod = pod(policy, &["i", "s*"], &["a"]);
        let status = |state: ApiState| match who {
            "a" => of(Vec::new(), vec![container(who, state)]),
            _ => of(vec![container(who, state)], Vec::new()),
        };
        let before = status(ended(code, ""));
        let settled = settle(&pod, Some(&before), status(on()), now());
        assert_eq!(settled.is_ok(), wanted, "{policy} {who} {code}");
        assert!(settle(&pod, Some(&before), before.clone(), now()).is_ok(), "it may stay as it is");
    }
}

#[test]
fn a_rule_of_a_container_may_bring_it_back() {
    let mut pod = pod("Never", &[], &["a"]);
    let rules = serde_json::json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let own = &mut pod.spec.as_mut().unwrap().containers[0];
    own.restart_policy = Some("Never".to_owned());
    own.restart_policy_rules = serde_json::from_value(rules).unwrap();
    for (code, wanted) in [(42, true), (43, false)] {
        let before = of(Vec::new(), vec![container("a", ended(code, ""))]);
        let back = of(Vec::new(), vec![container("a", on())]);
        assert_eq!(settle(&pod, Some(&before), back, now()).is_ok(), wanted, "{code}");
    }
}

#[test]
fn the_new_sandbox_of_a_pod_that_always_has_one_brings_back_whoever_was_in_the_old_one() {
    for (policy, wanted) in [("Always", true), ("OnFailure", false)] {
        let mut pod = pod(policy, &[], &["a"]);
        pod.spec.as_mut().unwrap().containers[0].restart_policy = Some("Never".to_owned());
        let before = of(Vec::new(), vec![container("a", ended(137, ""))]);
        let back = of(Vec::new(), vec![container("a", on())]);
        assert_eq!(settle(&pod, Some(&before), back, now()).is_ok(), wanted, "{policy}");
    }
}

#[test]
fn times_stay_while_nothing_changes() {
    let pod = pod("Always", &[], &["a"]);
    let with = |value: &str, reason: &str| ApiStatus {
        conditions: Some(vec![PodCondition {
            type_: "Ready".to_owned(),
            status: value.to_owned(),
            reason: Some(reason.to_owned()),
            ..PodCondition::default()
        }]),
        ..ApiStatus::default()
    };
    let first = settle(&pod, None, with("False", "One"), UnixNanos(1_000_000_000)).unwrap();
    let since = |status: &ApiStatus| {
        status.conditions.as_ref().unwrap()[0].last_transition_time.as_ref().unwrap().0.as_second()
    };
    let second = settle(&pod, Some(&first), with("False", "Other"), now()).unwrap();
    assert_eq!(since(&second), 1, "another reason is no transition");
    let third = settle(&pod, Some(&second), with("True", ""), now()).unwrap();
    assert_eq!(since(&third), 7);
    assert_eq!(third.start_time, first.start_time);
    assert_eq!(third.start_time.unwrap().0.as_second(), 1);
}

#[test]
fn the_generation_never_goes_back() {
    let pod = pod("Always", &[], &["a"]);
    let of = |generation| ApiStatus { observed_generation: generation, ..ApiStatus::default() };
    for (before, now_is, wanted) in [
        (None, Some(2), Some(2)),
        (Some(3), Some(2), Some(3)),
        (Some(3), None, Some(3)),
        (Some(3), Some(4), Some(4)),
    ] {
        let settled = settle(&pod, Some(&of(before)), of(now_is), now()).unwrap();
        assert_eq!(settled.observed_generation, wanted);
    }
}

#[test]
fn everything_has_the_form_of_the_api() {
    let pod = pod("Always", &["z", "y"], &["b", "a"]);
    let long = "ü".repeat(5000);
    let status = of(
        vec![container("y", ended(0, "")), container("z", ended(0, ""))],
        vec![container("b", ended(1, &long)), container("a", on())],
    );
    let settled = settle(&pod, None, status, now()).unwrap();
    let names = |all: &Option<Vec<ApiContainer>>| {
        all.as_ref().unwrap().iter().map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&settled.container_statuses), ["a", "b"], "by name");
    assert_eq!(names(&settled.init_container_statuses), ["z", "y"], "as in the spec");
    let state = settled.container_statuses.unwrap()[1].state.clone().unwrap().terminated.unwrap();
    let message = state.message.unwrap();
    assert!(message.len() <= 12_288 / 4 && message.len() > 12_288 / 4 - 4 && message.ends_with('ü'));
    assert_eq!(state.finished_at.unwrap().0.subsec_nanosecond(), 0);
    assert_eq!(settled.start_time.unwrap().0.subsec_nanosecond(), 0);
}

#[test]
fn nobody_outside_makes_a_status_long() {
    let pod = pod("Always", &["i"], &["a"]);
    let long = || Some("ü".repeat(1 << 20));
    let waits = || ApiState {
        waiting: Some(ContainerStateWaiting { message: long(), ..ContainerStateWaiting::default() }),
        ..ApiState::default()
    };
    let condition = PodCondition { message: long(), ..PodCondition::default() };
    let status = ApiStatus {
        conditions: Some(vec![condition]),
        message: long(),
        ..of(vec![container("i", waits())], vec![container("a", waits())])
    };
    let settled = settle(&pod, None, status, now()).unwrap();
    let length = serde_json::to_string(&settled).unwrap().len();
    assert!(length < 64 << 10, "{length}");
}
