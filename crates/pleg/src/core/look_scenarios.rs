//! What comes of a wish to look at one pod.

use EventKind::{ContainerDied as Died, ContainerRemoved as Removed, ContainerStarted as Started};

use super::harness::{Harness, Running, futures_ready, pod, told};
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
    let mut pleg = Harness::new();
    pleg.relist(vec![by_hand]);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    assert!(pleg.looking_at().is_empty());
    pleg.pass(SHORTEST_PERIOD);
    pleg.tick();
    assert!(pleg.is_listing() && pleg.looking_at().is_empty());
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
