//! What is waited for before an end is reported.

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

/// Another container of the pod cannot be inspected for minutes, so that nothing of the pod can be reported.
#[test]
fn an_end_that_was_announced_is_kept_for_as_long_as_it_cannot_be_told() {
    let mut pleg = listening();
    pleg.failing.insert("A".into());
    let end = Announcement { exit: Some(exit(3, "Error")), ..announcement("A", "c1", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Exited)])));
    pleg.answer_inspections();
    let others = || vec![pod("A", &[("c2", Running)])];
    for _ in 0..3 {
        pleg.pass(Duration::from_secs(61));
        announce(&mut pleg, [announcement("A", "c2", WasStarted)]);
        assert_eq!(pleg.relist(others()), [], "nobody can be told yet");
    }
    pleg.failing.clear();
    pleg.start_list();
    pleg.answer_list(others());
    pleg.answer_inspections();
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(3, "Error")));
}

/// What was announced is final; what an inspection reported was made up or incomplete.
#[test]
fn an_end_that_was_announced_counts_more_than_one_that_was_made_up() {
    let view = pod("A", &[("c1", Exited)]);
    let rows = [
        (exit(255, "Unknown"), exit(0, "Completed"), exit(0, "Completed")),
        (exit(-1, ""), exit(255, "Unknown"), exit(-1, "")),
        (exit(3, "Error"), exit(255, "Unknown"), exit(3, "Error")),
        (exit(137, "Error"), exit(137, "OOMKilled"), exit(137, "OOMKilled")),
    ];
    for (seen, announced, wanted) in rows {
        let mut pleg = listening();
        pleg.start_list();
        // A container that was gone when it was inspected delays the others.
        pleg.answer_list(vec![pod("A", &[("c1", Exited), ("c2", Exited)])]);
        let mut status = pleg.status_of(&view);
        (status.containers[0].exit_code, status.containers[0].reason) = (seen.code, seen.reason.clone());
        pleg.answer_inspection_with(status);
        assert_eq!(pleg.told, [], "more may be known in a moment");
        pleg.pass(Duration::from_millis(80));
        let end = Announcement { exit: Some(announced), ..announcement("A", "c1", Stopped) };
        announce(&mut pleg, [end, announcement("A", "c1", Deleted)]);
        pleg.answer_look("A", None);
        pleg.pass(Duration::from_millis(200));
        pleg.tick();
        let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
        assert_eq!(died.exit, Some(wanted));
    }
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

    // If nothing is announced, the end is reported without details.
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

    // And if nothing is announced, the end is reported without details.
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![]);
    pleg.pass(Duration::from_millis(200));
    pleg.tick();
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1"), told(Removed, "A", "c1")]);
}

/// A pod that cannot be inspected any more has lost its container all the same.
#[test]
fn last_words_are_not_waited_for_longer_because_the_next_inspection_fails_or_hangs() {
    for answers in [true, false] {
        let left = || {
            let mut left = pod("A", &[]);
            left.sandboxes = vec![sandbox("s", Ready)];
            left
        };
        let mut pleg = listening();
        pleg.start_list();
        pleg.answer_list(vec![left()]);
        pleg.answer_inspections();
        assert_eq!(pleg.told, [], "somebody may say how c1 has ended");
        for _ in 0..12 {
            pleg.pass(Duration::from_millis(100));
            pleg.tick();
            if pleg.is_listing() {
                pleg.answer_list(vec![left()]);
            }
            if answers && !pleg.inspecting().is_empty() {
                pleg.answer_inspection(0, None);
            }
        }
        let wanted = [told(Died, "A", "c1"), told(Removed, "A", "c1"), told(Started, "A", "s")];
        assert_eq!(pleg.take_told(), wanted, "answers: {answers}");
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
        assert_eq!(pleg.take_told(), [], "it is told once");
    }
}

/// A list still shows the container as ended, and it is removed before it can be inspected.
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

/// Each has its own deadline.
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

/// A runtime that restarts may forget a pod for a moment, and not inspect it for a while, so that nothing is committed.
#[test]
fn what_comes_back_is_waited_for_anew_when_it_goes() {
    let here = || vec![pod("A", &[("c1", Running)])];
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![]);
    assert_eq!(pleg.told, [], "nobody has said how it ended");
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    pleg.answer_look("A", here().pop());
    pleg.hanging.insert("A".into());
    pleg.relist(here());
    pleg.start_list();
    pleg.answer_list(vec![]);
    assert_eq!(pleg.told, [], "again nobody has");
    pleg.pass(Duration::from_millis(80));
    let end = Announcement { exit: Some(exit(9, "Error")), ..announcement("A", "c1", Stopped) };
    announce(&mut pleg, [end]);
    pleg.answer_look("A", None);
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit, Some(exit(9, "Error")));
}
