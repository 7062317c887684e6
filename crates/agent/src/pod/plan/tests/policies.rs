//! Policies of containers' own, and rules about exit codes.

use super::*;

/// A container's own policy overrides that of its pod, in a sandbox that stays and in a new one.
#[test]
fn a_container_may_have_a_policy_of_its_own() {
    let all = |is| [("c0", is), ("c1", is), ("c2", is)];
    for (of_pod, of_c0, sandbox, containers, wanted) in [
        ("Always", "Never", Ready, all(Exited(0)), "start c1 c2"),
        ("Always", "OnFailure", Ready, all(Exited(0)), "start c1 c2"),
        ("Always", "OnFailure", Ready, all(Exited(1)), "start c0 c1 c2"),
        ("Never", "Always", Ready, all(Exited(0)), "start c0"),
        ("OnFailure", "Always", Ready, all(Exited(0)), "start c0"),
        ("Always", "OnFailure", NotReady, all(Exited(0)), "create 1 replacing: c1 c2"),
        ("Always", "Never", NotReady, all(Exited(0)), "create 1 replacing: c0 c1 c2"),
        ("OnFailure", "Always", NotReady, all(Exited(0)), "create 1 replacing: c0"),
        ("Never", "Always", NotReady, all(Exited(0)), "end"),
        // What has ended for good stays so in a pod that is not always restarted.
        ("OnFailure", "Never", NotReady, all(Exited(1)), "create 1 replacing: c1 c2"),
        ("OnFailure", "Never", NotReady, all(Exited(0)), "end"),
        ("OnFailure", "Never", NotReady, all(Running), "create 1 replacing: c0 c1 c2"),
        ("OnFailure", "Never", Ready, all(Exited(1)), "start c1 c2"),
    ] {
        let mut pod = pod(of_pod, &[], &MAIN);
        pod.spec.as_mut().unwrap().containers[0].restart_policy = Some(of_c0.to_owned());
        let got = planned(&pod, &testkit::status(sandbox, &containers), &Verdicts::default());
        assert_eq!(got, wanted, "{of_pod}, but {of_c0}, {sandbox:?}");
    }
}

/// It was told to end, and may have taken that as a reason to exit with 0.
#[test]
fn a_container_that_was_ended_to_be_started_again_is_started_however_it_has_ended() {
    for (policy, sandbox, containers, wanted) in [
        ("OnFailure", Ready, [Exited(0), Exited(0), Running], "start c0"),
        ("Never", Ready, [Exited(1), Exited(1), Running], "start c0"),
        ("OnFailure", Ready, [Exited(0), Exited(0), Exited(0)], "start c0"),
        ("OnFailure", Ready, [Running, Exited(0), Running], "nothing"),
        ("OnFailure", NotReady, [Exited(0), Exited(0), Exited(1)], "create 1 replacing: c0 c2"),
        ("Never", NotReady, [Exited(0), Exited(0), Running], "end"),
    ] {
        let [c0, c1, c2] = containers;
        let status = testkit::status(sandbox, &[("c0", c0), ("c1", c1), ("c2", c2)]);
        let pod = pod(policy, &[], &MAIN);
        assert_eq!(planned_after(&pod, &status, &["c0-0"]), wanted, "{policy} {sandbox:?} {containers:?}");
    }
}

/// Init containers may have one as well: it decides whether the pod continues after a failure.
#[test]
fn an_init_container_may_have_a_policy_of_its_own() {
    for (of_pod, of_i0, is, wanted) in [
        ("Always", "Never", Exited(1), "end"),
        ("Always", "Never", Unknown, "end"),
        ("Always", "Never", Exited(0), "start i1"),
        ("Always", "OnFailure", Exited(1), "start i0"),
        ("Never", "OnFailure", Exited(1), "start i0"),
        ("Never", "OnFailure", Unknown, "kill i0-0; start i0"),
        ("Never", "OnFailure", Exited(0), "start i1"),
    ] {
        let mut pod = pod(of_pod, &["i0", "i1"], &MAIN);
        pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0].restart_policy =
            Some(of_i0.to_owned());
        let got = planned(&pod, &testkit::status(Ready, &[("i0", is)]), &Verdicts::default());
        assert_eq!(got, wanted, "{of_pod}, but {of_i0}, {is:?}");
    }
}

#[test]
fn an_init_container_that_runs_is_not_started_anew_for_a_change() {
    let mut pod = pod("Always", &["i0", "i1"], &MAIN);
    pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0].image = Some("image:2".to_owned());
    let status = testkit::status(Ready, &[("i0", Running)]);
    assert_eq!(planned(&pod, &status, &Verdicts::default()), "nothing");
}

/// Makes a container of this place do `action` when it ends with 42, and never start again otherwise.
fn on_42(pod: &mut Pod, place: Place, action: &str) {
    let spec = pod.spec.as_mut().unwrap();
    let container = match place {
        Place::Init(index) => &mut spec.init_containers.as_mut().unwrap()[index],
        Place::Regular(index) => &mut spec.containers[index],
    };
    testkit::on_exit(container, action, &[42]);
}

#[test]
fn a_rule_restarts_a_container_that_would_stay_as_it_is() {
    for (code, wanted) in [(42, "start c0"), (1, "nothing"), (0, "nothing")] {
        let mut pod = pod("Never", &[], &MAIN);
        on_42(&mut pod, Place::Regular(0), "Restart");
        let status = testkit::status(Ready, &[("c0", Exited(code)), ("c1", Running), ("c2", Exited(42))]);
        assert_eq!(planned(&pod, &status, &Verdicts::default()), wanted, "{code}");
    }
    for (code, wanted) in [(42, "start i0"), (1, "end")] {
        let mut pod = pod("Never", &["i0"], &MAIN);
        on_42(&mut pod, Place::Init(0), "Restart");
        let status = testkit::status(Ready, &[("i0", Exited(code))]);
        assert_eq!(planned(&pod, &status, &Verdicts::default()), wanted, "{code}");
    }
}

/// When it is told to end, its exit code is not known yet.
#[test]
fn rules_about_exit_codes_say_nothing_of_a_container_whose_probe_has_failed() {
    let failure = Some(Verdict::Failure);
    let liveness = OfContainer { liveness: failure, ..OfContainer::default() };
    let startup = OfContainer { startup: failure, ..OfContainer::default() };
    for (verdict, which) in [(liveness, "liveness"), (startup, "startup")] {
        let mut pod = pod("Always", &[], &["c0", "c1"]);
        let probed = &mut pod.spec.as_mut().unwrap().containers[0];
        testkit::on_exit(probed, "Restart", &[0, 137, 143]);
        (probed.liveness_probe, probed.startup_probe) = (Some(Probe::default()), Some(Probe::default()));
        let status = testkit::status(Ready, &[("c0", Running), ("c1", Running)]);
        let verdicts = Verdicts::default().with("c0-0", verdict);
        assert_eq!(planned(&pod, &status, &verdicts), "kill c0-0", "{which}");
        assert_eq!(why_killed(&pod, &status, &verdicts), [format!("Container c0 failed {which} probe")]);
    }
}

#[test]
fn a_rule_can_ask_for_a_fresh_start_of_all() {
    let (init, first, second) = (Place::Init(0), Place::Regular(0), Place::Regular(1));
    let table: [(&str, &[Place], SandboxState, Containers<'_>, &str); 8] = [
        (
            "who asked goes last",
            &[first],
            Ready,
            &[("i0", Exited(0)), ("c0", Exited(42)), ("c1", Running)],
            "restart all for c0: c1-0 i0-0 c0-0; meanwhile nothing",
        ),
        (
            "another code",
            &[first],
            Ready,
            &[("i0", Exited(0)), ("c0", Exited(1)), ("c1", Running)],
            "nothing",
        ),
        (
            "an init container",
            &[init],
            Ready,
            &[("i0", Exited(42))],
            "restart all for i0: i0-0; meanwhile nothing",
        ),
        (
            "an init container that is still running has not asked",
            &[init],
            Ready,
            &[("i0", Running)],
            "nothing",
        ),
        (
            "both have asked",
            &[first, second],
            Ready,
            &[("i0", Exited(0)), ("c0", Exited(42)), ("c1", Exited(42))],
            "restart all for c0: i0-0 c0-0 c1-0; meanwhile nothing",
        ),
        (
            "in a sandbox that is gone",
            &[first],
            NotReady,
            &[("i0", Exited(0)), ("c0", Exited(42)), ("c1", Exited(137))],
            "restart all for c0: c1-0 i0-0 c0-0; meanwhile nothing",
        ),
        (
            "others are seen to",
            &[first],
            Ready,
            &[("i0", Exited(0)), ("c0", Exited(42)), ("c1", Unknown)],
            "restart all for c0: c1-0 i0-0 c0-0; meanwhile kill c1-0; start c1",
        ),
        ("where a sandbox was never lost before", &[first], NotReady, &[], "create 1 replacing: i0"),
    ];
    for (what, asking, sandbox, containers, wanted) in table {
        let mut pod = pod("Never", &["i0"], &["c0", "c1"]);
        asking.iter().for_each(|place| on_42(&mut pod, *place, "RestartAllContainers"));
        let got = planned(&pod, &testkit::status(sandbox, containers), &Verdicts::default());
        assert_eq!(got, wanted, "{what}");
    }
}
