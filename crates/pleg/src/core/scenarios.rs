//! The scenarios of the kubelet's own tests of its generic PLEG, played to ours.

use EventKind::{ContainerDied as Died, ContainerRemoved as Removed, ContainerStarted as Started, PodSync};

use std::time::Duration;

use rubelet_model::{ContainerState, PodStatus, RuntimePod, SandboxState};

use super::harness::{
    Created, Exited, Harness, NotReady, Ready, Running, Told, Unknown, futures_ready, pod, sandbox,
    sandboxes, told,
};
use super::*;
use crate::event::{EventKind, Exit};
use crate::health::Health;

fn first_view() -> Vec<RuntimePod> {
    vec![pod("A", &[("c1", Exited), ("c2", Running), ("c3", Unknown)]), pod("B", &[("c1", Exited)])]
}

fn second_view() -> Vec<RuntimePod> {
    vec![pod("A", &[("c2", Exited), ("c3", Running)]), pod("B", &[("c4", Running)])]
}

fn told_of_second_view() -> Vec<Told> {
    vec![
        told(Removed, "A", "c1"),
        told(Died, "A", "c2"),
        told(Started, "A", "c3"),
        told(Removed, "B", "c1"),
        told(Started, "B", "c4"),
    ]
}

#[test]
fn scenarios_1_to_3_changes_become_events_once() {
    let mut pleg = Harness::new();
    assert_eq!(
        pleg.relist(first_view()),
        [told(Died, "A", "c1"), told(Started, "A", "c2"), told(Died, "B", "c1")],
        "c3 is unknown and tells nothing; c1 of A and c1 of B are two things"
    );
    assert_eq!(pleg.relist(first_view()), []);
    assert_eq!(pleg.relist(second_view()), told_of_second_view());
}

/// In scenario 4, a full channel loses the fifth event. Here nothing can be full: a subscriber that does not read still
/// gets all five.
#[test]
fn scenario_4_a_reader_that_is_behind_loses_nothing() {
    let mut pleg = Harness::new();
    pleg.relist(first_view());
    let feed = crate::feed::Feed::default();
    let mut reader = feed.subscribe();
    pleg.relist(first_view());
    pleg.start_list();
    pleg.answer_list(second_view());
    pleg.answer_inspections();
    for event in std::mem::take(&mut pleg.told) {
        feed.tell(event);
    }
    assert_eq!(std::iter::from_fn(|| reader.try_next()).count(), 5);
}

#[test]
fn scenario_5_what_vanishes_from_a_pod_died_and_was_removed() {
    for lists in [1, 3] {
        let mut pleg = Harness::new();
        for _ in 0..lists {
            pleg.relist(vec![pod("A", &[("c1", Running), ("c2", Running), ("c3", Exited)])]);
        }
        assert_eq!(
            pleg.relist(vec![pod("A", &[("c1", Running)])]),
            [told(Died, "A", "c2"), told(Removed, "A", "c2"), told(Removed, "A", "c3")]
        );
    }
}

#[test]
fn scenario_6_a_pod_that_vanishes_died_and_was_removed() {
    for lists in [1, 3] {
        let mut pleg = Harness::new();
        for _ in 0..lists {
            pleg.relist(vec![pod("A", &[("c2", Running)])]);
        }
        assert_eq!(pleg.relist(vec![]), [told(Died, "A", "c2"), told(Removed, "A", "c2")]);
        assert_eq!(pleg.relist(vec![]), []);
        assert_eq!(pleg.core.pod_count(), 0);
    }
}

#[test]
fn scenario_7_a_failed_inspection_is_made_again_and_its_error_is_seen() {
    let view = || vec![pod("1", &[("c1", Running)]), pod("2", &[("c2", Running)])];
    let mut pleg = Harness::new();
    pleg.failing.insert("2".into());
    assert_eq!(pleg.relist(view()), [told(Started, "1", "c1")]);
    assert!(pleg.cached("2").is_err());
    pleg.take_inspected();

    pleg.failing.clear();
    assert_eq!(pleg.relist(view()), [told(Started, "2", "c2")]);
    assert_eq!(pleg.take_inspected(), ["2"], "pod 1 did not change");
    assert_eq!(pleg.cached("2").expect("inspected").containers.len(), 1);
}

#[test]
fn scenario_8_a_pod_that_is_gone_has_only_its_id() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c", Running)])]);
    pleg.relist(vec![]);
    assert_eq!(pleg.cached("A").as_deref(), Ok(&PodStatus::unknown_to_runtime("A")));
}

#[test]
fn scenario_9_health_follows_the_last_good_list() {
    let mut pleg = Harness::new();
    let health = |pleg: &mut Harness| {
        let now = pleg.now().stamp;
        Health::assess(&pleg.core.list_facts, Vec::new(), &[], &Config::default(), now)
    };
    assert!(!health(&mut pleg).healthy);
    pleg.pass(Duration::from_secs(600));
    assert!(!health(&mut pleg).healthy);
    pleg.relist(vec![]);
    pleg.pass(Duration::from_secs(60));
    assert!(health(&mut pleg).healthy);
    pleg.pass(Duration::from_secs(180));
    assert!(!health(&mut pleg).healthy);
}

/// Scenario 10, row by row. Given: how often a reinspection was asked for, whether it fails, whether the pod vanishes.
/// Expected: whether the pod is inspected, whether the wish stays, whether an event is sent.
#[test]
fn scenario_10_reinspection() {
    struct Row {
        name: &'static str,
        asked: usize,
        fails: bool,
        vanishes: bool,
        inspected: bool,
        still_asked: bool,
        told: bool,
    }
    let rows = [
        Row {
            name: "asked",
            asked: 1,
            fails: false,
            vanishes: false,
            inspected: true,
            still_asked: false,
            told: true,
        },
        Row {
            name: "fails",
            asked: 1,
            fails: true,
            vanishes: false,
            inspected: true,
            still_asked: true,
            told: false,
        },
        Row {
            name: "twice",
            asked: 2,
            fails: false,
            vanishes: false,
            inspected: true,
            still_asked: false,
            told: true,
        },
        Row {
            name: "not asked",
            asked: 0,
            fails: false,
            vanishes: false,
            inspected: false,
            still_asked: false,
            told: false,
        },
        Row {
            name: "vanishes",
            asked: 1,
            fails: false,
            vanishes: true,
            inspected: false,
            still_asked: false,
            told: true,
        },
    ];
    for row in rows {
        let view = || vec![pod("A", &[])];
        let mut pleg = Harness::new();
        pleg.relist(view());
        pleg.take_inspected();
        for _ in 0..row.asked {
            let at = pleg.now().stamp;
            pleg.step(Input::Reinspect { pod: "A".into(), at });
        }
        if row.fails {
            pleg.failing.insert("A".into());
        }
        let heard = pleg.relist(if row.vanishes { vec![] } else { view() });
        let expected: Vec<Told> = if row.told { vec![told(PodSync, "A", "")] } else { vec![] };
        assert_eq!(heard, expected, "{}", row.name);
        assert_eq!(pleg.take_inspected().len(), usize::from(row.inspected), "{}", row.name);
        assert_eq!(pleg.cached("A").is_err(), row.fails, "{}", row.name);
        if row.vanishes {
            assert_eq!(pleg.cached("A").as_deref(), Ok(&PodStatus::unknown_to_runtime("A")), "{}", row.name);
            continue;
        }
        pleg.failing.clear();
        let again = pleg.relist(view());
        assert_eq!(
            !again.is_empty(),
            row.still_asked,
            "{}: the wish is kept until it is fulfilled",
            row.name
        );
    }
}

#[test]
fn a_reinspection_asked_for_before_the_pod_exists_waits_for_it() {
    let mut pleg = Harness::new();
    pleg.relist(vec![]);
    let at = pleg.now().stamp;
    pleg.step(Input::Reinspect { pod: "A".into(), at });
    pleg.step(Input::Reinspect { pod: "nobody".into(), at });
    assert_eq!(pleg.relist(vec![pod("A", &[("c", Running)])]), [told(Started, "A", "c")]);
    assert_eq!(pleg.core.early_reinspects.len(), 0, "a list has answered who asked about nobody");
    pleg.take_inspected();
    pleg.relist(vec![pod("A", &[("c", Running)])]);
    assert!(pleg.take_inspected().is_empty(), "the first inspection fulfilled the wish");
}

#[test]
fn a_reinspection_that_finds_only_a_silent_change_is_still_answered() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c", Running)])]);
    let at = pleg.now().stamp;
    pleg.step(Input::Reinspect { pod: "A".into(), at });
    assert_eq!(pleg.relist(vec![pod("A", &[("c", Unknown)])]), [told(PodSync, "A", "")]);
}

#[test]
fn scenario_11_sandboxes_are_told_like_containers() {
    let mut pleg = Harness::new();
    let unknown = SandboxState::Unknown;
    let first = vec![
        sandboxes("A", &[("c1", NotReady), ("c2", Ready), ("c3", unknown)]),
        sandboxes("B", &[("c1", NotReady)]),
    ];
    let second = vec![sandboxes("A", &[("c2", NotReady), ("c3", Ready)]), sandboxes("B", &[("c4", Ready)])];
    assert_eq!(
        pleg.relist(first.clone()),
        [told(Died, "A", "c1"), told(Started, "A", "c2"), told(Died, "B", "c1")]
    );
    assert_eq!(pleg.relist(first), []);
    assert_eq!(pleg.relist(second), told_of_second_view());
}

#[test]
fn scenario_12_a_stopped_pod_keeps_its_addresses() {
    let one = ["192.168.1.5"].map(|ip| ip.parse().expect("an address"));
    let two = ["192.168.1.5", "2000::"].map(|ip| ip.parse().expect("an address"));
    for ips in [one.to_vec(), two.to_vec()] {
        let mut pleg = Harness::new();
        pleg.ips.insert("A".into(), ips.clone());
        pleg.relist(vec![sandboxes("A", &[("s", Ready)])]);
        pleg.ips.clear();
        assert_eq!(pleg.relist(vec![sandboxes("A", &[("s", NotReady)])]), [told(Died, "A", "s")]);
        assert_eq!(pleg.cached("A").expect("inspected").ips, ips);
    }
}

/// The table of address preservation: what the new inspection found, what was known before, and whether a sandbox is
/// ready.
#[test]
fn addresses_are_kept_only_while_no_sandbox_is_ready() {
    let old: std::net::IpAddr = "10.0.0.1".parse().expect("an address");
    let new: std::net::IpAddr = "10.0.0.2".parse().expect("an address");
    let rows = [
        (vec![new], vec![old], true, vec![new]),
        (vec![new], vec![old], false, vec![new]),
        (vec![], vec![], true, vec![]),
        (vec![], vec![], false, vec![]),
        (vec![], vec![old], true, vec![]),
        (vec![], vec![old], false, vec![old]),
    ];
    for (found, known, is_ready, expected) in rows {
        let mut pleg = Harness::new();
        pleg.ips.insert("A".into(), known.clone());
        pleg.relist(vec![sandboxes("A", &[("s1", Ready)])]);
        pleg.ips.insert("A".into(), found.clone());
        let second = if is_ready { ("s2", Ready) } else { ("s2", NotReady) };
        pleg.relist(vec![sandboxes("A", &[second])]);
        assert_eq!(pleg.cached("A").expect("inspected").ips, expected, "{found:?} {known:?} {is_ready}");
    }
}

#[test]
fn scenario_13_gauges_count_what_the_list_shows_and_fall_back_to_zero() {
    let mut a = pod("A", &[("c1", Running), ("c2", Unknown), ("c3", Unknown)]);
    a.sandboxes = vec![sandbox("s1", Ready), sandbox("s2", Ready), sandbox("s3", SandboxState::Unknown)];
    let mut b = pod("B", &[("c4", Exited)]);
    b.sandboxes = vec![sandbox("s4", Ready), sandbox("s5", NotReady)];
    let mut pleg = Harness::new();
    pleg.relist(vec![a, b]);
    let counted = |pleg: &Harness| {
        pleg.measured.iter().rev().find(|measure| matches!(measure, Measure::Running(_))).copied()
    };
    assert_eq!(counted(&pleg), Some(Measure::Running(Tally { running_pods: 2, containers: [0, 1, 1, 2] })));
    pleg.relist(vec![]);
    assert_eq!(counted(&pleg), Some(Measure::Running(Tally::default())));
}

/// Scenario 14 with explicit waiters: a waiter is released if and only if something was asked after the moment that it
/// waits for.
#[test]
fn scenario_14_a_look_serves_one_pod_and_a_list_serves_all() {
    let view = || vec![pod("1", &[("c1", Running)]), pod("2", &[("c2", Running)])];
    let mut pleg = Harness::new();
    pleg.relist(view());
    pleg.take_inspected();
    let is_newer = |pleg: &Harness, uid: &str, than: Stamp| {
        futures_ready(pleg.cache.reader().newer_than(&uid.into(), than))
    };

    let acted = pleg.now().stamp;
    assert!(!is_newer(&pleg, "1", acted) && !is_newer(&pleg, "2", acted));
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "1".into(), at });
    assert_eq!(pleg.looking_at(), ["1".into()]);
    pleg.answer_look("1", Some(pod("1", &[("c1", Exited)])));
    pleg.answer_inspections();
    assert_eq!(pleg.take_inspected(), ["1"]);
    assert!(is_newer(&pleg, "1", acted), "served by the look");
    assert!(!is_newer(&pleg, "2", acted), "nobody looked at pod 2");

    let acted = pleg.now().stamp;
    let at = pleg.now().stamp;
    pleg.pass(Duration::from_secs(2));
    pleg.step(Input::Nudge { pod: "2".into(), at });
    assert!(pleg.is_listing() && pleg.looking_at().is_empty(), "a full list is due and serves the wish");
    let cached_before = pleg.cached("1");
    pleg.answer_list(vec![pod("1", &[("c1", Exited)]), pod("2", &[("c2", Exited)])]);
    pleg.answer_inspections();
    assert_eq!(pleg.take_inspected(), ["2"]);
    assert!(is_newer(&pleg, "1", acted) && is_newer(&pleg, "2", acted));
    assert_eq!(pleg.cached("1"), cached_before);

    pleg.step(Input::Nudge { pod: "2".into(), at });
    assert!(pleg.looking_at().is_empty(), "a wish older than the last list has been fulfilled");

    let at = pleg.now().stamp;
    pleg.step(Input::Reinspect { pod: "1".into(), at });
    pleg.pass(Duration::from_secs(2));
    pleg.step(Input::Nudge { pod: "1".into(), at });
    pleg.answer_list(vec![pod("1", &[("c1", Exited)]), pod("2", &[("c2", Exited)])]);
    pleg.answer_inspections();
    assert_eq!(pleg.take_inspected(), ["1"]);
}

#[test]
fn created_containers_tell_nothing_until_they_run() {
    let mut pleg = Harness::new();
    assert_eq!(pleg.relist(vec![pod("A", &[("c", Created)])]), []);
    assert_eq!(pleg.take_inspected(), ["A"], "but they are in the cache");
    assert_eq!(pleg.relist(vec![pod("A", &[("c", Unknown)])]), []);
    assert_eq!(pleg.take_inspected(), ["A"], "the cache must not go on saying created");
    assert_eq!(pleg.relist(vec![pod("A", &[("c", Running)])]), [told(Started, "A", "c")]);
}

#[test]
fn an_exit_seen_by_an_inspection_is_told_with_its_code() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c", Running)])]);
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c", Exited)])]);
    pleg.answer_inspections();
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("it died");
    assert_eq!(died.exit, Some(Exit { code: 7, reason: "Error".into(), oom_killed: false }));
    assert_eq!(died.happened_at, Some(rubelet_model::UnixNanos(3)));
}

#[test]
fn after_a_reconnect_removal_needs_two_lists() {
    let mut pleg = Harness::new();
    let view = || vec![pod("A", &[("a", Running)]), pod("B", &[("b1", Running), ("b2", Running)])];
    pleg.relist(view());
    pleg.epoch = 2;
    assert_eq!(pleg.relist(vec![pod("B", &[("b1", Running)])]), [], "the first list proves nothing");
    let acted = pleg.core.list_facts.last_success.expect("listed");
    let before = Stamp::from_nanos(acted.as_nanos() - 1);
    assert!(
        !futures_ready(pleg.cache.reader().newer_than(&"A".into(), before)),
        "nor does it vouch for what it lacks"
    );
    assert_eq!(pleg.relist(view()), [], "it was only slow to remember");
    pleg.epoch = 3;
    pleg.relist(vec![]);
    assert_eq!(pleg.relist(vec![]).len(), 6, "two lists agree");
}

/// The container has no labels, and its sandbox is not remembered yet: the runtime shows it as a pod of its own.
#[test]
fn a_container_whose_sandbox_is_not_remembered_yet_is_in_no_other_pod() {
    let whole = || vec![pod("A", &[("a", Exited)])];
    let without_sandbox = || {
        let mut alone = pod("sandbox-of-A", &[("a", Exited)]);
        alone.selectable = false;
        vec![alone]
    };
    let mut pleg = Harness::new();
    pleg.relist(whole());
    pleg.epoch = 2;
    assert_eq!(pleg.relist(without_sandbox()), [], "after a reconnect");
    assert_eq!(pleg.relist(whole()), [], "the next list knows whose it is");

    let mut pleg = Harness::new();
    assert_eq!(
        pleg.relist(without_sandbox()),
        [],
        "in the first list of all: the runtime may have just started"
    );
    assert_eq!(pleg.relist(whole()), [told(Died, "A", "a")]);

    let mut pleg = Harness::new();
    pleg.relist(without_sandbox());
    let is_known_absent =
        |pleg: &Harness, uid: &str| pleg.cache.reader().newer_than_now(&uid.into(), Stamp::ZERO).is_some();
    assert!(!is_known_absent(&pleg, "sandbox-of-A"), "the list has just shown it");
    assert_eq!(pleg.cache.reader().whole(), None, "somebody is missing");
    assert_eq!(pleg.relist(without_sandbox()), [told(Died, "sandbox-of-A", "a")], "it is nobody's");
}

#[test]
fn while_an_entry_cannot_be_read_nothing_is_taken_as_removed() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("a", Running)])]);
    pleg.unreadable = 1;
    for _ in 0..5 {
        assert_eq!(pleg.relist(vec![]), []);
    }
    pleg.unreadable = 0;
    assert_eq!(pleg.relist(vec![]).len(), 2);
}

#[test]
fn a_list_that_fails_changes_nothing() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("a", Running)])]);
    let as_of = pleg.cache.reader().as_of();
    pleg.fail_list();
    assert_eq!(pleg.take_told(), []);
    assert_eq!(pleg.cache.reader().as_of(), as_of);
    assert_eq!(pleg.core.pod_count(), 1);
}

#[test]
fn running_pods_are_inspected_before_dead_ones() {
    let mut pleg = Harness::with(Config { inspect_limit: 1, ..Config::default() });
    pleg.relist(vec![
        pod("a-dead", &[("1", Exited)]),
        pod("b-dead", &[("2", Exited)]),
        pod("c-alive", &[("3", Running)]),
    ]);
    assert_eq!(pleg.inspected[0].as_str(), "c-alive");
}

#[test]
fn a_pod_that_cannot_be_inspected_holds_nobody_back() {
    let hung: Vec<String> = (0..40).map(|number| format!("hung-{number:02}")).collect();
    let view = |healthy: ContainerState| {
        let mut pods: Vec<RuntimePod> = hung.iter().map(|uid| pod(uid, &[("c", Running)])).collect();
        pods.push(pod("zz-healthy", &[("c", healthy)]));
        pods
    };
    let mut pleg = Harness::new();
    pleg.hanging = hung.iter().map(|uid| uid.as_str().into()).collect();
    pleg.relist(view(Running));
    pleg.pass(Duration::from_secs(1));
    pleg.tick();
    for _ in 0..3 {
        pleg.answer_inspections();
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
    }
    assert_eq!(pleg.take_told(), [told(Started, "zz-healthy", "c")], "forty hang, one is served");
    if !pleg.is_listing() {
        pleg.start_list();
    }
    let asked = pleg.now().stamp;
    pleg.answer_list(view(Exited));
    pleg.answer_inspections();
    assert_eq!(pleg.take_told(), [told(Died, "zz-healthy", "c")]);
    let facts = pleg.core.troubled_pods(asked);
    assert_eq!(facts.len(), 40, "and all of the forty are named");

    pleg.hanging.clear();
    pleg.answer_inspections();
    assert_eq!(pleg.take_told().len(), 40, "when they answer, their events follow");
    let now = pleg.now().stamp;
    assert!(pleg.core.troubled_pods(now).is_empty());
}

/// Pods that wait behind hanging ones are well, as far as anybody knows.
#[test]
fn pods_that_wait_for_their_turn_are_counted_and_not_called_stuck() {
    let mut pleg = Harness::with(Config { inspect_limit: 1, slow_limit: 1, ..Config::default() });
    let names = ["a", "b", "c", "d"];
    pleg.hanging = names.iter().map(|uid| (*uid).into()).collect();
    pleg.start_list();
    pleg.answer_list(names.iter().map(|uid| pod(uid, &[("x", Running)])).collect());
    for _ in 0..4 {
        pleg.pass(Duration::from_millis(1_100));
        pleg.tick();
    }
    let now = pleg.now().stamp;
    let health = pleg.core.health(&[], now);
    let stuck: Vec<&str> = health.stuck_pods.iter().map(|stuck| &*stuck.pod.name).collect();
    assert_eq!((stuck, health.waiting_pods), (vec!["a", "b"], 2));
    assert!(health.to_string().ends_with("; 2 pods wait for inspection"), "{health}");
}

#[test]
fn an_interrupted_pleg_goes_on_where_it_was() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("a", Running)])]);
    pleg.hanging.insert("A".into());
    pleg.relist(vec![pod("A", &[("a", Exited)])]);
    pleg.step(Input::Interrupted);
    pleg.forget_calls();
    pleg.hanging.clear();
    assert_eq!(pleg.relist(vec![pod("A", &[("a", Exited)])]), [told(Died, "A", "a")]);
}

#[test]
fn a_list_right_after_a_reconnect_makes_nothing_fresher() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    let acted = pleg.now().stamp;
    pleg.epoch = 2;
    pleg.relist(vec![pod("A", &[("c1", Exited)])]);
    let is_newer = |pleg: &Harness| pleg.cache.reader().newer_than_now(&"A".into(), acted).is_some();
    assert!(!is_newer(&pleg), "what was made just before the restart may not be remembered yet");
    pleg.relist(vec![pod("A", &[("c2", Created), ("c1", Exited)])]);
    assert!(is_newer(&pleg));
}

#[test]
fn a_relist_ends_when_all_that_it_found_has_been_inspected() {
    let relists = |pleg: &Harness| {
        pleg.measured.iter().filter(|measure| matches!(measure, Measure::Relist { .. })).count()
    };
    let mut pleg = Harness::new();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("a", Running)]), pod("B", &[("b", Running)])]);
    assert_eq!(relists(&pleg), 0);
    pleg.pass(Duration::from_millis(900));
    pleg.answer_inspections();
    assert_eq!(relists(&pleg), 1);

    pleg.hanging.insert("A".into());
    pleg.relist(vec![pod("A", &[("a", Exited)]), pod("B", &[("b", Running)])]);
    assert_eq!(relists(&pleg), 1);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    pleg.answer_look("A", None);
    assert_eq!(relists(&pleg), 2, "a pod that is gone is not waited for");
}

#[test]
fn an_inspection_does_not_fulfil_a_wish_that_came_after_it_began() {
    let mut pleg = Harness::new();
    let view = |state| vec![pod("A", &[("a", state)])];
    pleg.relist(view(Running));
    pleg.start_list();
    pleg.answer_list(view(Unknown));
    let at = pleg.now().stamp;
    pleg.step(Input::Reinspect { pod: "A".into(), at });
    pleg.take_told();
    pleg.answer_inspections();
    assert_eq!(pleg.take_inspected().len(), 3, "the first list, the change, the wish");
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "")], "told once");
}
