//! What is waited for before an end is told.

use super::*;

#[test]
fn an_end_that_was_announced_is_not_lost_with_its_container() {
    let mut pleg = listening();
    let end = Announcement { exit: Some(exit(3, "Error")), ..announcement("A", "c1", Stopped) };
    announce(&mut pleg, [end, announcement("A", "c1", Deleted)]);
    pleg.answer_look("A", None);
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(3, "Error")), "no status has ever said so");
}

/// A look may find something gone a moment before its end is announced.
#[test]
fn a_moment_is_waited_for_the_last_words_of_what_is_gone() {
    let mut pleg = listening();
    let two = || pod("A", &[("c1", Running), ("c2", Running)]);
    announce(&mut pleg, [announcement("A", "c2", WasStarted)]);
    pleg.answer_look("A", Some(two()));
    pleg.answer_inspections();
    pleg.take_told();

    announce(&mut pleg, [announcement("A", "c2", Deleted)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Running)])));
    pleg.answer_inspections();
    assert_eq!(pleg.told, [], "nobody has said how it ended");
    let end = Announcement { exit: Some(exit(9, "Error")), ..announcement("A", "c2", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Running)])));
    pleg.answer_inspections();
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(9, "Error")));
    pleg.take_told();

    // If no word comes, it is told without.
    announce(&mut pleg, [announcement("A", "c3", WasStarted)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Running), ("c3", Running)])));
    pleg.answer_inspections();
    pleg.take_told();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Running)])]);
    pleg.answer_inspections();
    assert_eq!(pleg.told, []);
    pleg.pass(Duration::from_millis(200));
    pleg.tick();
    pleg.answer_inspections();
    assert_eq!(pleg.take_told(), [told(Died, "A", "c3"), told(Removed, "A", "c3")]);
}

#[test]
fn a_moment_is_waited_for_the_last_words_of_a_whole_pod() {
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![]);
    assert_eq!(pleg.told, [], "nobody has said how it ended");
    let end = Announcement { exit: Some(exit(9, "Error")), ..announcement("A", "c1", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", None);
    let died =
        pleg.told.iter().find(|event| event.kind == Died).expect("told at once when the word has come");
    assert_eq!(died.exit, Some(exit(9, "Error")));

    // And if no word comes, it is told without.
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![]);
    pleg.pass(Duration::from_millis(200));
    pleg.tick();
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1"), told(Removed, "A", "c1")]);
}

/// A list still shows it, dead, and it is removed before it can be inspected.
#[test]
fn a_moment_is_waited_for_the_last_words_of_what_is_removed_before_its_inspection() {
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    pleg.answer_inspection(0, Some(&pod("A", &[])));
    assert_eq!(pleg.told, [], "nobody has said how it ended");
    let end = Announcement { exit: Some(exit(9, "Error")), ..announcement("A", "c1", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", Some(pod("A", &[])));
    pleg.answer_inspections();
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(9, "Error")));
}

/// Each has its own moment.
#[test]
fn who_goes_while_another_is_waited_for_is_waited_for_as_long() {
    let mut pleg = Harness::new();
    let both = || vec![pod("A", &[("c1", Running), ("c2", Running)])];
    pleg.relist(both());
    pleg.step(Input::StreamOpened);
    pleg.relist(both());
    pleg.take_told();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c2", Running)])]);
    pleg.answer_inspections();
    pleg.pass(Duration::from_millis(150));
    announce(&mut pleg, [announcement("A", "c2", Deleted)]);
    pleg.answer_look("A", Some(pod("A", &[])));
    pleg.answer_inspections();
    pleg.pass(Duration::from_millis(100));
    let end = Announcement { exit: Some(exit(9, "Error")), ..announcement("A", "c2", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", Some(pod("A", &[])));
    pleg.answer_inspections();
    let of_c2 = |event: &&PodEvent| event.subject.as_ref().is_some_and(|subject| subject.id() == "c2");
    let died = pleg.told.iter().filter(of_c2).find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(9, "Error")));
}

#[test]
fn a_moment_is_waited_for_the_last_words_of_a_short_life() {
    let mut pleg = listening();
    let here = || Some(pod("A", &[("c1", Running)]));
    announce(&mut pleg, [announcement("A", "brief", Deleted)]);
    pleg.answer_look("A", here());
    assert_eq!(pleg.told, [], "its end may have been overtaken by its removal");
    let end = Announcement { exit: Some(exit(3, "Error")), ..announcement("A", "brief", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", here());
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(3, "Error")));
}

#[test]
fn last_words_are_waited_for_since_it_is_gone_however_long_ago_it_was_heard_of() {
    let mut pleg = listening_with(Config { start_patience: Duration::from_secs(5), ..Config::default() });
    let here = || vec![pod("A", &[("c1", Running)])];
    announce(&mut pleg, [announcement("A", "brief", WasStarted)]);
    pleg.pass(Duration::from_secs(2));
    pleg.start_list();
    pleg.answer_list(here());
    assert_eq!(pleg.told, [], "its end may be announced any moment");
    let end = Announcement { exit: Some(exit(3, "Error")), ..announcement("A", "brief", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", here().pop());
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(3, "Error")));
}
