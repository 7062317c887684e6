//! What has been found but is not reported yet, since more may be known in a moment.

use super::*;

/// Answers an inspection of this view. `codes` are the exit codes of containers.
fn inspect(pleg: &mut Harness, view: &RuntimePod, codes: &[(&str, i32)]) {
    let mut status = pleg.status_of(view);
    for (id, code) in codes {
        let container = status.containers.iter_mut().find(|container| container.id.as_str() == *id);
        container.expect("it is in the view").exit_code = *code;
    }
    pleg.answer_inspection_with(status);
}

/// Makes a look find this view.
fn look(pleg: &mut Harness, view: &RuntimePod) {
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    if pleg.is_looking_at("A") {
        pleg.answer_look("A", Some(view.clone()));
    } else {
        pleg.answer_list(vec![view.clone()]);
    }
}

fn pass(pleg: &mut Harness, millis: u64) {
    pleg.pass(Duration::from_millis(millis));
    pleg.tick();
}

/// The containers whose end was reported, and their exit codes.
fn deaths(pleg: &Harness) -> Vec<(String, Option<i32>)> {
    let died = pleg.told.iter().filter(|event| event.kind == Died);
    died.map(|event| {
        let id = event.subject.as_ref().expect("a container").id().to_owned();
        (id, event.exit.as_ref().map(|exit| exit.code))
    })
    .collect()
}

fn death(id: &str, code: i32) -> (String, Option<i32>) {
    (id.to_owned(), Some(code))
}

/// The second look at another end of the pod comes while this one is not believed yet.
#[test]
fn an_inspection_for_another_reason_is_no_second_look() {
    let mut pleg = listening();
    look(&mut pleg, &pod("A", &[("c1", Exited), ("c2", Running)]));
    inspect(&mut pleg, &pod("A", &[("c1", Exited), ("c2", Running)]), &[("c1", 137)]);
    pass(&mut pleg, 700);
    let both = pod("A", &[("c1", Exited), ("c2", Exited)]);
    look(&mut pleg, &both);
    inspect(&mut pleg, &both, &[("c1", 137), ("c2", 255)]);
    pass(&mut pleg, 300);
    assert_eq!(pleg.inspecting().len(), 1, "the second look at c1");
    inspect(&mut pleg, &both, &[("c1", 137), ("c2", 255)]);
    pass(&mut pleg, 200);
    assert_eq!(pleg.inspecting().len(), 1, "the second look at c2");
    inspect(&mut pleg, &both, &[("c1", 137), ("c2", 0)]);
    assert_eq!(deaths(&pleg), [death("c1", 137), death("c2", 0)]);
}

/// What the inspection found was read before the half second was over.
#[test]
fn an_inspection_that_began_too_soon_is_no_second_look_however_late_it_ends() {
    let view = pod("A", &[("c1", Exited)]);
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.take_told();
    look(&mut pleg, &view);
    inspect(&mut pleg, &view, &[("c1", 255)]);
    pass(&mut pleg, 50);
    look(&mut pleg, &view);
    pass(&mut pleg, 450);
    pass(&mut pleg, 100);
    inspect(&mut pleg, &view, &[("c1", 255)]);
    assert_eq!(deaths(&pleg), []);
    pass(&mut pleg, 0);
    assert_eq!(pleg.inspecting().len(), 1, "the second look");
    inspect(&mut pleg, &view, &[("c1", 0)]);
    assert_eq!(deaths(&pleg), [death("c1", 0)]);
}

#[test]
fn every_made_up_end_has_a_second_look_of_its_own() {
    let mut pleg = listening();
    let first = pod("A", &[("c1", Exited), ("c2", Running)]);
    look(&mut pleg, &first);
    inspect(&mut pleg, &first, &[("c1", 255)]);
    pass(&mut pleg, 500);
    let both = pod("A", &[("c1", Exited), ("c2", Exited)]);
    inspect(&mut pleg, &both, &[("c1", 255), ("c2", 255)]);
    assert_eq!(deaths(&pleg), [], "nobody has looked twice at c2");
    pass(&mut pleg, 500);
    inspect(&mut pleg, &both, &[("c1", 255), ("c2", 0)]);
    assert_eq!(deaths(&pleg), [death("c1", 255)], "c2 was listed as running");
    look(&mut pleg, &both);
    inspect(&mut pleg, &both, &[("c1", 255), ("c2", 0)]);
    assert_eq!(deaths(&pleg), [death("c1", 255), death("c2", 0)]);
}

/// Containers that fail one after the other do not keep their pod silent.
#[test]
fn doubts_do_not_go_on_for_ever() {
    let mut pleg = listening();
    for seen in 1..=9_u32 {
        let ids: Vec<String> = (1..=seen).map(|number| format!("c{number}")).collect();
        let states: Vec<_> = ids.iter().map(|id| (id.as_str(), Exited)).collect();
        let codes: Vec<_> = ids.iter().map(|id| (id.as_str(), 255)).collect();
        let view = pod("A", &states);
        look(&mut pleg, &view);
        while !pleg.inspecting().is_empty() {
            inspect(&mut pleg, &view, &codes);
        }
        assert_eq!(deaths(&pleg).is_empty(), seen <= 5, "{seen}");
        pass(&mut pleg, 400);
    }
}

#[test]
fn an_end_that_was_believed_for_want_of_better_is_corrected() {
    let mut pleg = listening();
    let view = pod("A", &[("c1", Exited)]);
    look(&mut pleg, &view);
    inspect(&mut pleg, &view, &[("c1", 255)]);
    pass(&mut pleg, 500);
    pass(&mut pleg, 1_000);
    assert_eq!(deaths(&pleg), [death("c1", 255)], "the second look hangs");
    pleg.take_told();
    inspect(&mut pleg, &view, &[("c1", 0)]);
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "c1")]);
    assert_eq!(pleg.cached("A").expect("read").containers[0].exit_code, 0);
}

/// A hint must decide when something is reported, not what.
#[test]
fn what_an_inspection_has_shown_is_told_however_soon_somebody_looks_again() {
    let mut found = pod("A", &[("c1", Exited), ("x", Running)]);
    found.sandboxes = vec![sandbox("s", Ready)];
    let facts_of = |pleg: &mut Harness, id: &str| -> Vec<EventKind> {
        pleg.take_told().into_iter().filter(|(.., told)| told == id).map(|(kind, ..)| kind).collect()
    };
    for (subject, later) in [
        ("x", pod("A", &[("c1", Exited)])),
        ("x", pod("A", &[("c1", Exited), ("x", Exited)])),
        ("s", pod("A", &[("c1", Exited)])),
    ] {
        let told_with = |looks: bool| {
            let mut pleg = Harness::new();
            pleg.relist(vec![pod("A", &[("c1", Running)])]);
            pleg.take_told();
            pleg.start_list();
            pleg.answer_list(vec![found.clone()]);
            inspect(&mut pleg, &found, &[("c1", 255)]);
            pass(&mut pleg, 200);
            if looks {
                look(&mut pleg, &later);
                inspect(&mut pleg, &later, &[("c1", 255)]);
            }
            pass(&mut pleg, 300);
            inspect(&mut pleg, &later, &[("c1", 255)]);
            pleg.start_list();
            pleg.answer_list(vec![later.clone()]);
            pleg.answer_inspections();
            facts_of(&mut pleg, subject)
        };
        let without = told_with(false);
        assert_eq!(without.first(), Some(&Started), "{subject}");
        assert_eq!(told_with(true), without, "{subject}");
    }

    // An end that is taken back is not reported.
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c1", Running)])]);
    pleg.take_told();
    look(&mut pleg, &pod("A", &[("c1", Exited)]));
    inspect(&mut pleg, &pod("A", &[("c1", Exited)]), &[("c1", 255)]);
    let runs = pod("A", &[("c1", Running), ("c2", Running)]);
    look(&mut pleg, &runs);
    inspect(&mut pleg, &runs, &[]);
    assert_eq!(pleg.take_told(), [told(Started, "A", "c2")]);
}

/// Nothing of a container was reported, an inspection has shown its end, and the next look finds it gone.
#[test]
fn an_end_that_was_shown_is_told_though_its_container_is_gone_before_that() {
    let found = pod("A", &[("c1", Running), ("c2", Exited), ("c3", Exited)]);
    let left = pod("A", &[("c1", Running)]);
    let inspect_without_c3 = |pleg: &mut Harness| {
        let mut status = pleg.status_of(&found);
        status.containers.retain(|container| container.id.as_str() != "c3");
        status.containers.iter_mut().for_each(|container| container.exit_code = 3);
        pleg.answer_inspection_with(status);
    };

    let mut pleg = listening();
    look(&mut pleg, &found);
    inspect_without_c3(&mut pleg);
    assert_eq!(deaths(&pleg), [], "somebody may say how c3 has ended");
    look(&mut pleg, &left);
    pass(&mut pleg, 200);
    inspect(&mut pleg, &left, &[]);
    assert_eq!(deaths(&pleg), [death("c2", 3), ("c3".to_owned(), None)]);
    let removed = pleg.take_told().into_iter().filter(|(kind, ..)| *kind == Removed).count();
    assert_eq!(removed, 2, "and then that they are gone");

    // The look comes before the answer.
    let mut pleg = listening();
    look(&mut pleg, &found);
    look(&mut pleg, &left);
    inspect_without_c3(&mut pleg);
    pass(&mut pleg, 200);
    inspect(&mut pleg, &left, &[]);
    assert_eq!(deaths(&pleg), [death("c2", 3), ("c3".to_owned(), None)]);

    // The last words of another container are still waited for.
    let mut pleg = listening();
    let words = Announcement { exit: Some(exit(5, "")), ..announcement("A", "c3", Stopped) };
    look(&mut pleg, &found);
    inspect_without_c3(&mut pleg);
    look(&mut pleg, &left);
    announce(&mut pleg, [words]);
    pleg.answer_look("A", Some(left.clone()));
    pass(&mut pleg, 200);
    inspect(&mut pleg, &left, &[]);
    assert_eq!(deaths(&pleg), [death("c2", 3), death("c3", 5)]);

    // What was withheld is believed, but what was listed since is newer.
    let mut pleg = listening();
    let doubted = pod("A", &[("c1", Running), ("c2", Exited)]);
    look(&mut pleg, &doubted);
    inspect(&mut pleg, &doubted, &[("c2", 255)]);
    look(&mut pleg, &left);
    pass(&mut pleg, 500);
    pass(&mut pleg, 1_000);
    assert_eq!(deaths(&pleg), [death("c2", 255)], "the second look hangs");
    while !pleg.inspecting().is_empty() {
        inspect(&mut pleg, &left, &[]);
    }
    assert_eq!(pleg.take_told().last(), Some(&told(Removed, "A", "c2")));

    // The whole pod is gone before its first status is believed.
    let mut pleg = Harness::new();
    pleg.relist(vec![]);
    let view = pod("A", &[("c1", Exited)]);
    pleg.start_list();
    pleg.answer_list(vec![view.clone()]);
    inspect(&mut pleg, &view, &[("c1", 255)]);
    pleg.start_list();
    pleg.answer_list(vec![]);
    assert_eq!(deaths(&pleg), [death("c1", 255)]);
    assert!(pleg.cached("A").is_err() || pleg.cached("A").expect("read").containers.is_empty());
}
