//! Ends that are often wrong at first.

use super::*;

/// Answers an inspection that finds that container c1 of the pod has ended.
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

/// A pod that cannot be inspected any more has ended all the same.
#[test]
fn a_doubted_end_is_told_soon_if_there_is_no_second_look() {
    for answers in [true, false] {
        let mut pleg = listening();
        pleg.start_list();
        pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
        inspect_end(&mut pleg, 255, "Unknown");
        pleg.pass(Duration::from_millis(500));
        pleg.tick();
        assert_eq!(pleg.inspecting().len(), 1, "the second look");
        if answers {
            pleg.answer_inspection(0, None);
        }
        assert_eq!(pleg.told, [], "it may yet answer");
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
        let codes: Vec<_> = pleg.told.iter().map(|event| event.exit.as_ref().map(|exit| exit.code)).collect();
        assert_eq!(codes, [Some(255)], "answers: {answers}");
        assert_eq!(pleg.take_told(), [told(Died, "A", "c1")]);
        if answers {
            assert_eq!(pleg.core.troubled_pods(Stamp::ZERO).len(), 1, "it still cannot be inspected");
        }
        if pleg.is_listing() {
            pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
        }
        inspect_end(&mut pleg, 0, "Completed");
        assert_eq!(pleg.take_told().iter().filter(|(kind, ..)| *kind == Died).count(), 0, "it is told once");
    }
}

/// What one inspection has shown is in the event, whatever later inspections find.
#[test]
fn an_end_that_an_inspection_has_shown_is_kept_until_it_is_told() {
    let view = |containers: &[(&str, ContainerState)]| {
        let mut view = pod("A", containers);
        view.sandboxes = vec![sandbox("s", Ready)];
        view
    };
    let code = |pleg: &Harness| {
        let died = pleg.told.iter().find(|event| event.kind == Died).expect("told");
        died.exit.as_ref().map(|exit| exit.code)
    };
    let running = || vec![view(&[("c1", Running)])];
    let inspect = |pleg: &mut Harness, containers: &[(&str, ContainerState)], code: i32| {
        let mut status = pleg.status_of(&view(containers));
        for container in status.containers.iter_mut().filter(|container| container.state == Exited) {
            container.exit_code = code;
        }
        pleg.answer_inspection_with(status);
    };

    // The end was doubted, and the container is gone from its pod before the second look.
    let mut pleg = Harness::new();
    pleg.relist(running());
    pleg.take_told();
    pleg.start_list();
    pleg.answer_list(vec![view(&[("c1", Exited)])]);
    inspect(&mut pleg, &[("c1", Exited)], 255);
    pleg.start_list();
    pleg.answer_list(vec![view(&[])]);
    inspect(&mut pleg, &[], 0);
    assert_eq!(code(&pleg), Some(255));

    // Another doubtful status takes the place of the one that showed the end.
    let mut pleg = Harness::new();
    pleg.relist(vec![view(&[("c1", Running), ("c2", Running)])]);
    pleg.take_told();
    pleg.start_list();
    pleg.answer_list(vec![view(&[("c1", Exited), ("c2", Running)])]);
    inspect(&mut pleg, &[("c1", Exited), ("c2", Running)], 255);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "A".into(), at });
    pleg.answer_look("A", Some(view(&[("c2", Exited)])));
    inspect(&mut pleg, &[("c2", Exited)], 255);
    pleg.pass(Duration::from_millis(500));
    pleg.tick();
    inspect(&mut pleg, &[("c2", Exited)], 3);
    let codes: Vec<_> =
        pleg.told.iter().filter(|event| event.kind == Died).map(|event| event.exit.clone()).collect();
    assert_eq!(codes.iter().flatten().map(|exit| exit.code).collect::<Vec<_>>(), [255, 3]);

    // The status was ahead of its list, and the status of the next list no longer has the container.
    let mut pleg = Harness::new();
    pleg.start_list();
    pleg.answer_list(running());
    inspect(&mut pleg, &[("c1", Exited)], 3);
    pleg.take_told();
    pleg.start_list();
    pleg.answer_list(running());
    inspect(&mut pleg, &[], 0);
    pleg.start_list();
    pleg.answer_list(vec![view(&[])]);
    inspect(&mut pleg, &[], 0);
    assert_eq!(code(&pleg), Some(3));
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
    let known = pleg.told.last().and_then(|event| event.exit.clone());
    assert_eq!(known, Some(exit(137, "OOMKilled")), "who heard of the end hears why");
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "c1")], "an update, not a second death");
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

/// Somebody restarts a killed container within milliseconds, and so the pod is committed again.
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
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "c1")]);
    pleg.pass(Duration::from_secs(5));
    pleg.tick();
    assert!(pleg.inspecting().is_empty(), "there is no third");
}

/// An inspection for another reason may find it out before the second look does.
#[test]
fn a_correction_is_told_whenever_it_is_found() {
    for (c2, also) in [(Running, Some(told(Started, "A", "c2"))), (Created, None)] {
        let mut pleg = listening();
        pleg.start_list();
        pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
        inspect_end(&mut pleg, 137, "Error");
        pleg.take_told();
        pleg.pass(Duration::from_millis(300));
        let at = pleg.now().stamp;
        pleg.step(Input::Nudge { pod: "A".into(), at });
        let both = pod("A", &[("c1", Exited), ("c2", c2)]);
        pleg.answer_look("A", Some(both.clone()));
        let mut status = pleg.status_of(&both);
        (status.containers[0].exit_code, status.containers[0].reason) = (137, "OOMKilled".into());
        pleg.answer_inspection_with(status);
        let wanted: Vec<_> = [told(PodSync, "A", "c1")].into_iter().chain(also).collect();
        assert_eq!(pleg.take_told(), wanted);
        pleg.pass(Duration::from_secs(1));
        pleg.tick();
        assert!(pleg.inspecting().is_empty(), "there is nothing more to find out");
    }
}

#[test]
fn each_end_that_is_corrected_is_told_for_itself() {
    let mut pleg = Harness::new();
    pleg.relist(vec![pod("A", &[("c1", Running), ("c2", Running)])]);
    let both = pod("A", &[("c1", Exited), ("c2", Exited)]);
    let inspect = |pleg: &mut Harness, reason: &str| {
        let mut status = pleg.status_of(&both);
        for container in &mut status.containers {
            (container.exit_code, container.reason) = (137, reason.into());
        }
        pleg.answer_inspection_with(status);
    };
    pleg.start_list();
    pleg.answer_list(vec![both.clone()]);
    inspect(&mut pleg, "Error");
    pleg.take_told();
    pleg.pass(Duration::from_secs(1));
    pleg.tick();
    inspect(&mut pleg, "OOMKilled");
    assert!(pleg.told.iter().all(|event| event.exit == Some(exit(137, "OOMKilled"))), "{:?}", pleg.told);
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "c1"), told(PodSync, "A", "c2")]);
}

/// Of two ends, one after the other, each has its second look, a second after it was seen.
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

/// The time of the second look passes while an inspection is in progress that began too early to be one.
#[test]
fn an_inspection_that_is_under_way_does_not_take_the_place_of_a_second_look() {
    let killed = |pleg: &mut Harness, states: &[(&str, ContainerState)], reason: &str| {
        let mut status = pleg.status_of(&pod("A", states));
        for container in status.containers.iter_mut().filter(|container| container.state == Exited) {
            (container.exit_code, container.reason) = (137, reason.into());
        }
        pleg.answer_inspection_with(status);
    };
    let look = |pleg: &mut Harness, states: &[(&str, ContainerState)]| {
        let at = pleg.now().stamp;
        pleg.step(Input::Nudge { pod: "A".into(), at });
        pleg.answer_look("A", Some(pod("A", states)));
    };
    let one = [("c1", Exited), ("c2", Running)];
    let both = [("c1", Exited), ("c2", Exited)];
    let pass = |pleg: &mut Harness, millis: u64| {
        pleg.pass(Duration::from_millis(millis));
        pleg.tick();
    };

    let mut pleg = listening();
    look(&mut pleg, &[("c1", Exited)]);
    killed(&mut pleg, &[("c1", Exited)], "Error");
    pass(&mut pleg, 960);
    look(&mut pleg, &one);
    pass(&mut pleg, 100);
    killed(&mut pleg, &one, "Error");
    pleg.take_told();
    assert_eq!(pleg.inspecting().len(), 1, "the second look");
    pass(&mut pleg, 140);
    killed(&mut pleg, &one, "OOMKilled");
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "c1")]);

    // It was the second look at another container.
    let mut pleg = listening();
    look(&mut pleg, &one);
    killed(&mut pleg, &one, "Error");
    pass(&mut pleg, 500);
    look(&mut pleg, &both);
    killed(&mut pleg, &both, "Error");
    pass(&mut pleg, 500);
    pass(&mut pleg, 600);
    killed(&mut pleg, &both, "Error");
    pleg.take_told();
    killed(&mut pleg, &both, "OOMKilled");
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "c2")]);

    // The second look at a doubted end hung, and what it read is old when it arrives.
    let mut pleg = listening();
    look(&mut pleg, &[("c1", Exited)]);
    inspect_end(&mut pleg, 255, "Unknown");
    pass(&mut pleg, 500);
    pass(&mut pleg, 1_000);
    assert_eq!(pleg.take_told().len(), 1, "it is believed");
    pass(&mut pleg, 1_100);
    inspect_end(&mut pleg, 255, "Unknown");
    if pleg.is_listing() {
        pleg.answer_list(vec![pod("A", &[("c1", Exited)])]);
    }
    inspect_end(&mut pleg, 0, "Completed");
    assert_eq!(pleg.take_told(), [told(PodSync, "A", "c1")]);
    pass(&mut pleg, 1_100);
    assert!(pleg.inspecting().is_empty(), "there is nothing more to find out");
}

/// Only of an end from before the first list is the first report final.
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
