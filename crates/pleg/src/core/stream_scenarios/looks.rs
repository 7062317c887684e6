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

/// A runtime that could not load a container when it started may know it again after the next start.
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
