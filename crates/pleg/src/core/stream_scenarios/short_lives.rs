//! What was gone before anybody looked.

use super::*;

#[test]
fn what_was_gone_before_anybody_looked_is_told_with_its_exit_code() {
    let mut pleg = listening();
    let end = Announcement { exit: Some(exit(42, "Error")), ..announcement("A", "brief", Stopped) };
    announce(&mut pleg, [announcement("A", "brief", WasStarted), end, announcement("A", "brief", Deleted)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Running)])));
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("its end is told");
    assert_eq!(died.exit, Some(exit(42, "Error")));
    let kinds: Vec<_> = pleg.take_told().into_iter().map(|(kind, ..)| kind).collect();
    assert_eq!(kinds, [Started, Died, Removed]);

    announce(&mut pleg, [announcement("A", "brief", WasStarted), announcement("A", "brief", Deleted)]);
    assert!(pleg.looking_at().is_empty(), "it has been told, and late words wake nothing");
}

/// Only a full list can show that a pod is gone which nobody ever saw.
#[test]
fn a_whole_pod_that_came_and_went_is_told() {
    let mut pleg = listening();
    let of_sandbox = |step| Announcement {
        subject: Some(Subject::Sandbox { id: "s".into(), attempt: 0 }),
        ..announcement("B", "s", step)
    };
    announce(&mut pleg, [of_sandbox(WasStarted), of_sandbox(Deleted)]);
    pleg.answer_look("B", None);
    pleg.pass(Duration::from_millis(100));
    pleg.tick();
    pleg.answer_list(vec![pod("A", &[("c1", Running)])]);
    assert_eq!(pleg.take_told(), [told(Started, "B", "s"), told(Died, "B", "s"), told(Removed, "B", "s")]);
    assert_eq!(pleg.core.pod_count(), 1);
}

/// Runtimes keep old announcements for the first reader.
#[test]
fn what_was_announced_before_anybody_listened_wakes_no_dead() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.step(Input::StreamOpened);
    announce(&mut pleg, [announcement("A", "old", WasStarted), announcement("A", "old", Deleted)]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    assert_eq!(pleg.take_told(), []);

    // Late ones are recognised by their date.
    let old = rubelet_model::UnixNanos(1);
    let old = |step| Announcement { announced_at: Some(old), ..announcement("A", "older", step) };
    announce(&mut pleg, [old(WasStarted), old(Deleted)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Running)])));
    assert_eq!(pleg.take_told(), []);
}

/// This holds however long the first list takes, and whatever is announced meanwhile.
#[test]
fn what_says_that_it_is_from_after_the_opening_is_told_though_nothing_has_been_listed_since() {
    let at = rubelet_model::UnixNanos;
    for (announced, is_told) in [(1_000, false), (1_001, true), (5_000, true), (5_001, false)] {
        let mut pleg = Harness::new();
        pleg.relist(vec![pod("A", &[("c1", Running)])]);
        pleg.take_told();
        pleg.step(Input::StreamOpened);
        pleg.wall = at(5_000);
        let brief =
            |step| Announcement { announced_at: Some(at(announced)), ..announcement("A", "brief", step) };
        announce(&mut pleg, [brief(WasStarted), brief(Stopped), brief(Deleted)]);
        let mut heard = pleg.relist(vec![pod("A", &[("c1", Running)])]);
        heard.extend(pleg.relist(vec![pod("A", &[("c1", Running)])]));
        let wanted: Vec<_> = [Started, Died, Removed].map(|kind| told(kind, "A", "brief")).into();
        assert_eq!(heard, if is_told { wanted } else { vec![] }, "{announced}");
    }
}

/// The first list over a new connection proves nothing about what it does not show, but what is announced after it is
/// news.
#[test]
fn what_lives_right_after_the_runtime_was_restarted_is_told() {
    let here = || vec![pod("A", &[("c1", Running)])];
    let mut pleg = listening();
    pleg.step(Input::StreamEnded(StreamError::Ended));
    pleg.epoch += 1;
    pleg.step(Input::StreamOpened);
    let brief = |step| announcement("A", "brief", step);
    announce(&mut pleg, [announcement("A", "old", WasStarted), announcement("A", "old", Deleted)]);
    pleg.start_list();
    pleg.answer_list(here());
    let end = Announcement { exit: Some(exit(3, "Error")), ..brief(Stopped) };
    announce(&mut pleg, [brief(WasStarted), end, brief(Deleted)]);
    assert_eq!(pleg.told, [], "the next list decides");
    pleg.start_list();
    pleg.answer_list(here());
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(3, "Error")));
    let wanted = [Started, Died, Removed].map(|kind| told(kind, "A", "brief"));
    assert_eq!(pleg.take_told(), wanted, "and nothing of what was announced before the list");
    assert_eq!(unannounced(&pleg), 0);
}

/// Setting back the clock of a node does not keep short lives from being reported.
#[test]
fn the_time_of_day_counts_only_when_a_stream_was_just_opened() {
    let mut pleg = listening();
    pleg.pass(Duration::from_secs(3));
    let early = rubelet_model::UnixNanos(1);
    let brief = |step| Announcement { announced_at: Some(early), ..announcement("A", "brief", step) };
    announce(&mut pleg, [brief(WasStarted), brief(Deleted)]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    assert_eq!(pleg.core.stream_facts().short_lives, 1);
}

/// What was created by hand in a pod has no labels, and is in no list that is filtered by them.
#[test]
fn what_a_look_at_its_pod_does_not_show_is_not_taken_for_gone() {
    let mut pleg = listening();
    announce(&mut pleg, [announcement("A", "x", WasCreated), announcement("A", "x", WasStarted)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Running)])));
    pleg.pass(Duration::from_millis(200));
    announce(&mut pleg, [announcement("A", "x", WasStarted)]);
    if pleg.is_looking_at("A") {
        pleg.answer_look("A", Some(pod("A", &[("c1", Running)])));
    }
    assert_eq!(pleg.take_told(), [], "it may be there");
    pleg.tick();
    assert!(pleg.is_listing(), "the list of all decides");
    let mut whole = pod("A", &[("c1", Running), ("x", Running)]);
    whole.selectable = false;
    assert_eq!(pleg.relist(vec![whole]), [told(Started, "A", "x")]);
}
