//! How often all pods are listed while a stream is open, and what counts as unannounced.

use super::*;

fn periods(pleg: &Harness) -> Vec<u64> {
    let seconds = |measure: &Measure| match measure {
        Measure::Period { period, .. } => Some(period.as_secs()),
        _ => None,
    };
    pleg.measured.iter().filter_map(seconds).collect()
}

#[test]
fn lists_become_rare_while_everything_is_announced() {
    let mut pleg = listening();
    for _ in 0..4 {
        pleg.relist(vec![pod("A", &[("c1", Running)])]);
    }
    assert_eq!(periods(&pleg), [4, 16, 60]);
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Exited)])));
    pleg.answer_inspections();
    pleg.pass(Duration::from_secs(5));
    pleg.tick();
    assert!(!pleg.is_listing() && unannounced(&pleg) == 0);

    pleg.step(Input::StreamEnded(StreamError::Ended));
    assert!(pleg.is_listing(), "more than a second has passed since the last list");
    assert_eq!(periods(&pleg), [4, 16, 60, 1]);
}

#[test]
fn lists_that_somebody_could_not_wait_for_do_not_make_them_rarer() {
    let mut pleg = listening();
    for _ in 0..5 {
        announce(&mut pleg, [Announcement { pod: None, ..announcement("", "unheard-of", WasCreated) }]);
        pleg.pass(Duration::from_millis(100));
        pleg.tick();
        pleg.answer_list(vec![pod("A", &[("c1", Running)])]);
    }
    assert!(periods(&pleg).is_empty(), "{:?}", periods(&pleg));
}

#[test]
fn a_pleg_that_was_interrupted_says_of_no_stream_that_it_is_open() {
    let mut pleg = listening();
    assert!(pleg.core.stream_facts().open_since.is_some());
    pleg.step(Input::Interrupted);
    assert_eq!(pleg.core.stream_facts().open_since, None);
}

#[test]
fn a_change_that_nobody_announced_is_counted_and_lists_are_frequent_again() {
    let mut pleg = listening();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.relist(vec![pod("A", &[("c1", Exited)])]);
    assert_eq!(unannounced(&pleg), 0, "it may come yet");
    pleg.pass(Duration::from_secs(2));
    pleg.tick();
    assert_eq!(unannounced(&pleg), 1);
    assert_eq!(periods(&pleg).last(), Some(&1));
    pleg.relist(vec![]);
    pleg.pass(Duration::from_secs(2));
    pleg.tick();
    assert_eq!(unannounced(&pleg), 2, "its removal was not announced either");
}

/// A stream that has missed one change may miss the next.
#[test]
fn lists_stay_frequent_for_a_minute_after_a_change_that_nobody_announced() {
    let mut pleg = listening();
    for _ in 0..4 {
        pleg.relist(vec![pod("A", &[("c1", Running)])]);
    }
    let gone = || vec![pod("A", &[("c1", Exited)])];
    pleg.relist(gone());
    pleg.pass(Duration::from_secs(2));
    pleg.tick();
    assert_eq!((unannounced(&pleg), periods(&pleg)), (1, vec![4, 16, 60, 1]));
    let mut lists = 0;
    while pleg.is_listing() {
        lists += 1;
        pleg.answer_list(gone());
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
    }
    assert!((60..=62).contains(&lists), "{lists} lists, each a second after the one before");
    assert_eq!(periods(&pleg), [4, 16, 60, 1, 4]);
}

/// While a change may still be announced, it is not known that all of them are.
#[test]
fn a_list_that_finds_something_unheard_of_does_not_make_lists_rarer() {
    let mut pleg = listening();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    assert_eq!(periods(&pleg), [4]);
    pleg.relist(vec![pod("A", &[("c1", Exited)])]);
    assert_eq!(periods(&pleg), [4], "not before it is announced");
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    pleg.relist(vec![pod("A", &[("c1", Exited)])]);
    assert_eq!(periods(&pleg), [4, 16]);
    announce(&mut pleg, [announcement("A", "c1", Deleted)]);
    // It takes its time to go, and is looked for in the meantime.
    while !pleg.is_listing() {
        pleg.answer_look("A", Some(pod("A", &[("c1", Exited)])));
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
    }
    pleg.answer_list(vec![]);
    assert_eq!(periods(&pleg), [4, 16, 60], "what was announced does not stand in the way");
}

#[test]
fn an_announcement_that_is_a_little_late_is_none_that_is_missing() {
    let mut pleg = listening();
    pleg.relist(vec![pod("A", &[("c1", Exited)])]);
    pleg.pass(Duration::from_millis(1_900));
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    pleg.pass(Duration::from_secs(10));
    pleg.tick();
    assert_eq!(unannounced(&pleg), 0);
}

#[test]
fn without_a_stream_nothing_is_counted() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.relist(vec![pod("A", &[("c1", Exited)])]);
    pleg.pass(Duration::from_secs(10));
    pleg.tick();
    assert_eq!((unannounced(&pleg), periods(&pleg)), (0, vec![]));
}

/// Whoever waits for news does not wait a minute.
#[test]
fn lists_are_frequent_for_whoever_waits() {
    let mut pleg = listening();
    for _ in 0..4 {
        pleg.relist(vec![pod("A", &[("c1", Running)])]);
    }
    pleg.pass(Duration::from_secs(1));
    pleg.tick();
    assert!(!pleg.is_listing());
    pleg.step(Input::Awaited);
    assert!(pleg.is_listing());
}

/// The list after a reconnect has to be confirmed by another, and until then there are no looks.
#[test]
fn a_reconnect_is_confirmed_soon_however_rare_lists_are() {
    let mut pleg = listening();
    for _ in 0..4 {
        pleg.relist(vec![pod("A", &[("c1", Running)])]);
    }
    pleg.epoch = 2;
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    pleg.pass(Duration::from_secs(1));
    pleg.tick();
    assert!(pleg.is_listing());
}
