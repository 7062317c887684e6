//! What comes of announcements: looks, short lives, doubts, and how often all pods are listed.

use std::time::Duration;

use EventKind::{ContainerDied as Died, ContainerRemoved as Removed, ContainerStarted as Started, PodSync};
use LifeStep::{Created as WasCreated, Deleted, Started as WasStarted, Stopped};

use rubelet_model::ContainerState;

use super::harness::{Exited, Harness, Running, announcement, pod, told};
use super::*;
use crate::announce::{Announcement, LifeStep, StreamError};
use crate::event::{EventKind, Exit, PodEvent, Subject};

fn exit(code: i32, reason: &str) -> Exit {
    Exit { code, reason: reason.into(), oom_killed: reason == "OOMKilled" }
}

/// A node with a pod A whose container c1 runs, and with an open stream.
fn listening() -> Harness {
    listening_with(Config::default())
}

fn listening_with(config: Config) -> Harness {
    let mut pleg = Harness::with(config);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.step(Input::StreamOpened);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.take_told();
    pleg
}

fn announce(pleg: &mut Harness, announcements: impl IntoIterator<Item = Announcement>) {
    let at = pleg.now().stamp;
    pleg.step(Input::Announced { announcements: announcements.into_iter().collect(), at });
}

fn periods(pleg: &Harness) -> Vec<u64> {
    let seconds = |measure: &Measure| match measure {
        Measure::Period { period, .. } => Some(period.as_secs()),
        _ => None,
    };
    pleg.measured.iter().filter_map(seconds).collect()
}

fn unannounced(pleg: &Harness) -> u64 {
    pleg.core.stream_facts().unannounced
}

#[test]
fn an_announcement_leads_to_a_look_at_once() {
    let mut pleg = listening();
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    assert_eq!(pleg.looking_at(), [PodUid::from("A")]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Exited)])));
    pleg.answer_inspections();
    assert_eq!(pleg.told[0].trigger, Trigger::Event);
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1")]);

    announce(&mut pleg, [announcement("A", "c1", Stopped), announcement("A", "c1", WasStarted)]);
    assert!(pleg.looking_at().is_empty(), "what is known already needs no look");
}

#[test]
fn who_starts_things_and_asks_afterwards_is_spared_the_looks_in_between() {
    let patience = Duration::from_millis(20);
    let patient = || listening_with(Config { start_patience: patience, ..Config::default() });
    let started = || [announcement("A", "c2", WasCreated), announcement("A", "c2", WasStarted)];

    let mut pleg = patient();
    announce(&mut pleg, started());
    assert!(pleg.looking_at().is_empty(), "not for a start alone");
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    assert_eq!(pleg.looking_at(), [PodUid::from("A")], "ends do not wait");
    pleg.pass(patience);
    pleg.tick();
    pleg.answer_look("A", Some(pod("A", &[("c1", Exited), ("c2", Running)])));
    assert!(pleg.looking_at().is_empty(), "that look, begun since, has shown the start too");

    let mut pleg = patient();
    announce(&mut pleg, started());
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    pleg.answer_look("A", Some(pod("A", &[("c1", Running), ("c2", Running)])));
    pleg.pass(patience);
    pleg.tick();
    assert!(pleg.looking_at().is_empty(), "whoever started it has asked");

    let mut pleg = patient();
    announce(&mut pleg, started());
    pleg.pass(patience);
    pleg.tick();
    assert_eq!(pleg.looking_at(), [PodUid::from("A")], "nobody asks: it is looked at all the same");
    assert_eq!(unannounced(&pleg), 0);
}

#[test]
fn an_announcement_without_a_pod_finds_it_by_its_id() {
    let mut pleg = listening();
    announce(&mut pleg, [Announcement { pod: None, ..announcement("", "c1", Stopped) }]);
    assert_eq!(pleg.looking_at(), [PodUid::from("A")]);

    let mut pleg = listening();
    announce(&mut pleg, [Announcement { pod: None, ..announcement("", "unheard-of", WasCreated) }]);
    pleg.pass(Duration::from_millis(100));
    pleg.tick();
    assert!(pleg.is_listing(), "nobody knows whose it is but the list of all");
}

#[test]
fn an_announcement_without_a_pod_finds_it_before_its_first_inspection_has_ended() {
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Running), ("c2", Running)])]);
    announce(&mut pleg, [Announcement { pod: None, ..announcement("", "c2", Stopped) }]);
    assert_eq!(pleg.looking_at(), [PodUid::from("A")]);
}

#[test]
fn many_announcements_lead_to_one_list_of_all() {
    let mut pleg = listening();
    let many: Vec<String> = (0..40).map(|number| format!("pod-{number}")).collect();
    announce(&mut pleg, many.iter().map(|uid| announcement(uid, uid, WasStarted)));
    pleg.pass(Duration::from_millis(100));
    pleg.tick();
    assert!(pleg.is_listing() && pleg.looking_at().is_empty());
}

/// Some runtimes announce an end before it has come.
#[test]
fn what_was_announced_and_is_not_there_yet_is_looked_for_again() {
    let mut pleg = listening();
    announce(&mut pleg, [announcement("A", "c1", Deleted)]);
    let mut looks = 0;
    for pause in [0, 25, 150, 750] {
        pleg.pass(Duration::from_millis(pause));
        pleg.tick();
        if pleg.looking_at().is_empty() {
            break;
        }
        looks += 1;
        let still_there = (looks < 3).then(|| pod("A", &[("c1", Exited)]));
        pleg.answer_look("A", still_there);
        pleg.answer_inspections();
    }
    assert_eq!(looks, 3);
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1"), told(Removed, "A", "c1")]);
}

/// Lists may be a minute apart, and nobody should wait that long for what takes a few seconds to go.
#[test]
fn what_takes_its_time_is_looked_for_every_second_and_counts_as_announced() {
    let mut pleg = listening();
    for _ in 0..4 {
        pleg.relist(vec![pod("A", &[("c1", Running)])]);
    }
    announce(&mut pleg, [announcement("A", "c1", Stopped), announcement("A", "c1", Deleted)]);
    for look in 0..20 {
        assert_eq!(pleg.looking_at(), [PodUid::from("A")], "look {look}");
        pleg.answer_look("A", Some(pod("A", &[("c1", Exited)])));
        pleg.answer_inspections();
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
    }
    pleg.answer_look("A", None);
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1"), told(Removed, "A", "c1")]);
    pleg.pass(Duration::from_secs(5));
    pleg.tick();
    assert_eq!(unannounced(&pleg), 0);
}

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

/// Of a pod that nobody ever saw, only the list of all can say that it is gone.
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

/// Runtimes keep old announcements for whoever comes first.
#[test]
fn what_was_announced_before_anybody_listened_wakes_no_dead() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.step(Input::StreamOpened);
    announce(&mut pleg, [announcement("A", "old", WasStarted), announcement("A", "old", Deleted)]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    assert_eq!(pleg.take_told(), []);

    // Late ones are recognised by their time.
    let old = rubelet_model::UnixNanos(1);
    let old = |step| Announcement { announced_at: Some(old), ..announcement("A", "older", step) };
    announce(&mut pleg, [old(WasStarted), old(Deleted)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Running)])));
    assert_eq!(pleg.take_told(), []);
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

/// Nobody who sets the clock of a node back keeps short lives from being told.
#[test]
fn the_time_of_day_counts_only_when_a_stream_was_just_opened() {
    let mut pleg = listening();
    pleg.pass(Duration::from_secs(60));
    let early = rubelet_model::UnixNanos(1);
    let brief = |step| Announcement { announced_at: Some(early), ..announcement("A", "brief", step) };
    announce(&mut pleg, [brief(WasStarted), brief(Deleted)]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    assert_eq!(pleg.core.stream_facts().short_lives, 1);
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

/// Somebody who waits for news does not wait for a minute.
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

/// The pod's container c1 has ended, as an inspection sees it.
fn inspect_end(pleg: &mut Harness, code: i32, reason: &str) {
    let view = pod("A", &[("c1", Exited)]);
    let mut status = pleg.status_of(&view);
    status.containers[0].exit_code = code;
    status.containers[0].reason = reason.into();
    pleg.answer_inspection_with(status);
}

#[test]
fn a_made_up_exit_code_is_not_told_before_it_is_confirmed() {
    for (later, wanted) in [(0, 0), (255, 255)] {
        let mut pleg = listening();
        pleg.start_list();
        pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
        inspect_end(&mut pleg, 255, "Unknown");
        assert_eq!(pleg.told, [], "not yet");
        pleg.pass(Duration::from_millis(500));
        pleg.tick();
        inspect_end(&mut pleg, later, "");
        assert_eq!(
            pleg.told.iter().map(|event| event.exit.as_ref().map(|exit| exit.code)).collect::<Vec<_>>(),
            [Some(wanted)]
        );
    }
}

#[test]
fn a_doubted_end_is_the_last_word_when_the_container_is_gone() {
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    inspect_end(&mut pleg, 255, "Unknown");
    pleg.start_list();
    pleg.answer_list(vec![]);
    let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
    assert_eq!(died.exit.as_ref().map(|exit| exit.code), Some(255));
}

#[test]
fn a_kill_is_told_at_once_and_corrected_if_it_was_for_want_of_memory() {
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    inspect_end(&mut pleg, 137, "Error");
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1")]);
    pleg.pass(Duration::from_secs(1));
    pleg.tick();
    inspect_end(&mut pleg, 137, "OOMKilled");
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "")], "an update, not a second death");
    assert!(pleg.cached("A").expect("read").containers[0].is_oom_killed());
}

#[test]
fn a_kill_that_was_just_that_is_told_once() {
    let mut pleg = listening();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    inspect_end(&mut pleg, 137, "Error");
    pleg.take_told();
    pleg.pass(Duration::from_secs(1));
    pleg.tick();
    inspect_end(&mut pleg, 137, "Error");
    pleg.pass(Duration::from_secs(5));
    pleg.tick();
    assert_eq!((pleg.take_told(), pleg.inspecting().len()), (vec![], 0));
}

/// Somebody starts a killed container again within milliseconds, and that commits the pod anew.
#[test]
fn the_second_look_at_a_kill_is_had_though_the_container_was_restarted_meanwhile() {
    let mut pleg = listening();
    let status = |pleg: &Harness, states: &[(&str, ContainerState)], reason: &str| {
        let mut status = pleg.status_of(&pod("A", states));
        (status.containers[0].exit_code, status.containers[0].reason) = (137, reason.into());
        status
    };
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    let killed = status(&pleg, &[("c1", Exited)], "Error");
    pleg.answer_inspection_with(killed);
    pleg.take_told();

    pleg.pass(Duration::from_millis(300));
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    let restarted = [("c1", Exited), ("c2", Running)];
    pleg.answer_look("A", Some(pod("A", &restarted)));
    let again = status(&pleg, &restarted, "Error");
    pleg.answer_inspection_with(again);
    assert_eq!(pleg.take_told(), [told(Started, "A", "c2")]);

    pleg.pass(Duration::from_millis(700));
    pleg.tick();
    assert_eq!(pleg.inspecting().len(), 1, "the second look is due a second after the end was seen");
    let corrected = status(&pleg, &restarted, "OOMKilled");
    pleg.answer_inspection_with(corrected);
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "")]);
    pleg.pass(Duration::from_secs(5));
    pleg.tick();
    assert!(pleg.inspecting().is_empty(), "there is no third");
}

/// Two ends, one after the other: each has its second look, a second after it was seen.
#[test]
fn every_kill_has_a_second_look_of_its_own() {
    let mut pleg = listening();
    let killed = |pleg: &Harness, states: &[(&str, ContainerState)]| {
        let mut status = pleg.status_of(&pod("A", states));
        for container in status.containers.iter_mut().filter(|container| container.state == Exited) {
            container.exit_code = 137;
        }
        status
    };
    let mut see = |states: &[(&str, ContainerState)]| {
        let at = pleg.now().stamp;
        pleg.step(Input::Nudge { pod: "A".into(), at });
        pleg.answer_look("A", Some(pod("A", states)));
        let status = killed(&pleg, states);
        pleg.answer_inspection_with(status);
        pleg.pass(Duration::from_millis(200));
        pleg.tick();
    };
    see(&[("c1", Running), ("c2", Running)]);
    see(&[("c1", Exited), ("c2", Running)]);
    see(&[("c1", Exited), ("c2", Exited)]);
    let mut looks = 0;
    for _ in 0..10 {
        while !pleg.inspecting().is_empty() {
            looks += 1;
            let status = killed(&pleg, &[("c1", Exited), ("c2", Exited)]);
            pleg.answer_inspection_with(status);
        }
        pleg.pass(Duration::from_millis(200));
        pleg.tick();
    }
    assert_eq!(looks, 2);
}

/// Only of what was there before anybody looked is the first word the last.
#[test]
fn a_made_up_exit_code_is_doubted_in_the_first_status_of_a_new_pod() {
    let made_up = |pleg: &mut Harness| {
        let mut status = pleg.status_of(&pod("A", &[("c1", Exited)]));
        status.containers[0].exit_code = 255;
        pleg.answer_inspection_with(status);
    };
    let mut pleg = Harness::new();
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    made_up(&mut pleg);
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1")], "nobody will know better");

    let mut pleg = Harness::new();
    pleg.relist(vec![]);
    pleg.start_list();
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    made_up(&mut pleg);
    assert_eq!(pleg.take_told(), [], "somebody may know better in a moment");
}
