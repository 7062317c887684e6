//! What follows when somebody wants a look at one pod.

use EventKind::{ContainerDied as Died, ContainerRemoved as Removed, ContainerStarted as Started};

use rubelet_model::ContainerState;

use super::harness::{Exited, Harness, Ready, Running, futures_ready, pod, sandbox, told};
use super::*;
use crate::event::EventKind;
use crate::observe::Listing;

#[test]
fn a_look_before_the_first_list_is_served() {
    let mut pleg = Harness::new();
    pleg.fail_list();
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    pleg.answer_look("A", Some(pod("A", &[("c", Running)])));
    pleg.answer_inspections();
    assert_eq!(pleg.take_told(), [told(Started, "A", "c")]);
}

#[test]
fn a_look_that_finds_a_known_pod_gone_tells_its_end() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c", Running)])]);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    pleg.answer_look("A", None);
    assert_eq!(pleg.take_told(), [told(Died, "A", "c"), told(Removed, "A", "c")]);
    assert!(futures_ready(pleg.cache.reader().newer_than(&"A".into(), at)), "its absence is news too");
}

#[test]
fn a_look_for_a_pod_that_nobody_knows_leads_to_a_full_list() {
    let mut pleg = Harness::new();
    pleg.relist(vec![]);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    pleg.answer_look("A", None);
    assert!(!pleg.is_listing(), "lists do not follow each other without a pause");
    pleg.pass(SHORTEST_PERIOD);
    pleg.tick();
    assert!(pleg.is_listing());
}

#[test]
fn a_pod_that_no_filter_finds_is_looked_at_by_a_full_list() {
    let mut by_hand = pod("A", &[("c", Running)]);
    by_hand.selectable = false;
    by_hand.sandboxes = vec![sandbox("s", Ready)];
    let mut pleg = Harness::new();
    pleg.relist(vec![by_hand]);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    assert!(pleg.looking_at().is_empty());
    pleg.pass(SHORTEST_PERIOD);
    pleg.tick();
    assert!(pleg.is_listing() && pleg.looking_at().is_empty());
}

/// This includes a list that did not remember all of the pod.
#[test]
fn a_pod_that_no_filter_finds_stays_one_after_a_reconnect() {
    let with = |containers: &[(&str, ContainerState)], selectable| {
        let mut view = pod("A", containers);
        view.sandboxes = vec![sandbox("s", Ready)];
        view.selectable = selectable;
        vec![view]
    };
    let mut pleg = Harness::new();
    pleg.relist(with(&[("by-hand", Running), ("c", Running)], false));
    pleg.epoch = 2;
    pleg.relist(with(&[("c", Exited)], true));
    pleg.relist(with(&[("by-hand", Running), ("c", Exited)], false));
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    assert!(pleg.looking_at().is_empty());
}

#[test]
fn many_wishes_become_one_full_list() {
    let mut pleg = Harness::with(Config { look_limit: 2, ..Config::default() });
    pleg.relist(vec![pod("A", &[("c", Running)])]);
    let at = pleg.start_list();
    for uid in ["A", "B", "C"] {
        pleg.step(Input::Nudge { pod: uid.into(), at: at.plus(Duration::from_nanos(50)) });
    }
    assert!(pleg.looking_at().is_empty(), "no look starts while all pods are listed");
    pleg.answer_list(vec![pod("A", &[("c", Running)])]);
    assert!(pleg.looking_at().is_empty());
    pleg.pass(SHORTEST_PERIOD);
    pleg.tick();
    assert!(pleg.is_listing() && pleg.looking_at().is_empty());
}

#[test]
fn a_full_list_supersedes_the_looks_under_way() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c", Running)])]);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    let late = pleg.now().stamp;
    pleg.pass(Duration::from_secs(2));
    pleg.tick();
    pleg.answer_list(vec![]);
    assert_eq!(pleg.take_told().len(), 2, "the list showed that it is gone");
    let stale = Listing { pods: vec![pod("A", &[("c", Running)]).into()], unreadable: 0, epoch: 1 };
    pleg.step(Input::Looked { pod: "A".into(), asked: late, answer: Ok(stale) });
    pleg.answer_inspections();
    assert_eq!(pleg.take_told(), [], "nothing comes after Removed");
}

/// Pods are announced one after the other, each while the looks at the earlier ones are in progress.
#[test]
fn looks_under_way_count_towards_their_limit_and_a_full_list_takes_their_place() {
    let mut pleg = Harness::new();
    let limit = pleg.core.config.look_limit;
    pleg.relist(vec![]);
    let (mut most, mut asked_at) = (0, std::collections::BTreeMap::new());
    let mut listed = false;
    for number in 0..200_u32 {
        pleg.pass(Duration::from_millis(1));
        pleg.tick();
        let at = pleg.now().stamp;
        pleg.step(Input::Nudge { pod: format!("P{number}").as_str().into(), at });
        for uid in pleg.looking_at() {
            asked_at.entry(uid).or_insert(number);
        }
        most = most.max(pleg.looking_at().len());
        // A look takes 50 ms.
        for uid in pleg.looking_at() {
            if asked_at.get(&uid).is_some_and(|asked| asked + 50 <= number) {
                pleg.answer_look(uid.as_str(), Some(pod(uid.as_str(), &[("c", Running)])));
            }
        }
        if pleg.is_listing() {
            listed = true;
            assert!(pleg.looking_at().is_empty(), "what the list shows is not looked at besides");
            pleg.answer_list(vec![]);
        }
    }
    assert!(most <= limit, "{most} looks at once");
    assert!(listed);
}

#[test]
fn a_full_list_gives_up_the_looks_that_it_supersedes() {
    let mut core = Core::new(Config::default(), Stamp::from_nanos(1));
    let now = |nanos| Now { stamp: Stamp::from_nanos(nanos), wall: rubelet_model::UnixNanos(1) };
    let listed = |asked| Input::Listed { asked, answer: Ok(Listing { epoch: 1, ..Listing::default() }) };
    let effects = core.step(Input::Tick, now(2));
    let Some(Effect::Ask(Ask::List { asked })) = effects.into_iter().next() else { panic!("a list is due") };
    let _effects = core.step(listed(asked), now(3));
    let effects = core.step(Input::Nudge { pod: "A".into(), at: Stamp::from_nanos(4) }, now(5));
    let look = effects.iter().find_map(|effect| match effect {
        Effect::Ask(Ask::Look { asked, .. }) => Some(*asked),
        _ => None,
    });
    let effects = core.step(Input::Tick, now(2_000_000_000));
    let given_up = effects.iter().find_map(|effect| match effect {
        Effect::Ask(Ask::AbandonLook { pod, asked }) => Some((pod.as_str(), *asked)),
        _ => None,
    });
    assert_eq!(given_up, look.map(|asked| ("A", asked)));
}
