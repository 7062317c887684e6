//! What an announcement leads to.

use super::*;

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

/// A runtime that failed to load a container when it started may know it again after the next start.
#[test]
fn what_came_back_after_its_removal_was_told_is_looked_at_when_it_is_announced() {
    let mut pleg = listening();
    let without = || vec![pod("A", &[])];
    announce(&mut pleg, [announcement("A", "c1", Stopped), announcement("A", "c1", Deleted)]);
    pleg.relist(without());
    pleg.pass(Duration::from_millis(200));
    pleg.tick();
    pleg.answer_inspections();
    pleg.relist(without());
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    assert!(pleg.looking_at().is_empty(), "it is gone");
    assert_eq!(pleg.relist(vec![pod("A", &[("c1", Running)])]), [told(Started, "A", "c1")]);
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    assert_eq!(pleg.looking_at(), [PodUid::from("A")], "it is back");
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

/// Some runtimes announce an end before it has happened.
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

/// Full lists may be a minute apart, and nobody should wait that long for something that takes a few seconds to go.
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

/// Full lists may be a minute apart, and a look may take two minutes before it fails.
#[test]
fn a_look_that_hangs_hides_its_pod_for_no_longer_than_if_nothing_were_announced() {
    let mut pleg = listening();
    for _ in 0..4 {
        pleg.relist(vec![pod("A", &[("c1", Running)])]);
    }
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    let asked = pleg.now().stamp;
    assert_eq!(pleg.looking_at(), [PodUid::from("A")]);
    let by = pleg.core.next_tick().expect("something is waited for");
    assert!(by <= asked.plus(Duration::from_secs(1)), "{:?} later", asked.until(by));
    pleg.pass(asked.until(by));
    pleg.tick();
    assert!(pleg.is_listing() && pleg.looking_at().is_empty());
    pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    pleg.answer_inspections();
    assert_eq!(pleg.take_told(), [told(Died, "A", "c1")]);
}

fn hung_looks(pleg: &mut Harness) -> Vec<String> {
    let now = pleg.now().stamp;
    pleg.core.health(&[], now).hung_looks.iter().map(ToString::to_string).collect()
}

/// The list that replaces the look is answered, so nothing else shows the problem.
#[test]
fn a_look_that_was_given_up_is_named_until_one_is_answered_or_nobody_looks_any_more() {
    let mut pleg = listening();
    let given_up = |pleg: &mut Harness| {
        announce(pleg, [announcement("A", "c1", Stopped)]);
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
        pleg.answer_list(vec![pod("A", &[("c1", Running)])]);
    };
    given_up(&mut pleg);
    assert_eq!(
        hung_looks(&mut pleg),
        ["pod ns/A: single-pod lists unanswered for 1s, abandoned once in favour of a full list"]
    );
    given_up(&mut pleg);
    assert_eq!(
        hung_looks(&mut pleg),
        ["pod ns/A: single-pod lists unanswered for 2s, abandoned 2 times in favour of a full list"]
    );
    pleg.pass(Duration::from_secs(60));
    assert!(hung_looks(&mut pleg).is_empty(), "that is long ago");
    pleg.tick();
    pleg.answer_list(vec![pod("A", &[("c1", Running)])]);
    given_up(&mut pleg);
    assert_eq!(hung_looks(&mut pleg).len(), 1);
    announce(&mut pleg, [announcement("A", "c1", Stopped)]);
    pleg.answer_look("A", Some(pod("A", &[("c1", Exited)])));
    assert!(hung_looks(&mut pleg).is_empty(), "it was answered");
}

/// As while all pods are listed every second anyway: no single look is ever waited for for long.
#[test]
fn looks_that_are_given_up_again_and_again_are_named_and_a_single_one_is_not() {
    let mut pleg = listening();
    for round in 1..=3 {
        pleg.pass(Duration::from_millis(600));
        announce(&mut pleg, [announcement("A", "c1", Stopped)]);
        pleg.step(Input::StreamEnded(StreamError::Ended));
        pleg.pass(Duration::from_millis(400));
        pleg.tick();
        pleg.answer_list(vec![pod("A", &[("c1", Running)])]);
        assert_eq!(hung_looks(&mut pleg).len(), usize::from(round == 3), "round {round}");
    }
}

/// If lists never come more often than once a minute, a look is waited for that long, and is named in the meantime.
#[test]
fn a_look_under_way_that_takes_long_is_named() {
    let minute = Duration::from_secs(60);
    let config = Config { relist_period: minute, longest_period: minute, ..Config::default() };
    let mut pleg = Harness::with(config);
    pleg.tick();
    pleg.answer_list(vec![pod("A", &[("c1", Running)])]);
    pleg.answer_inspections();
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    assert!(hung_looks(&mut pleg).is_empty());
    pleg.pass(Duration::from_secs(5));
    assert_eq!(hung_looks(&mut pleg), ["pod ns/A: single-pod lists unanswered for 5s"]);
}
