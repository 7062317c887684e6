//! Every row of the rules, as tables.

mod policies;
mod resizing;

use k8s_openapi::api::core::v1::Probe;
use rubelet_model::SandboxState::{self, NotReady, Ready};

use super::*;
use crate::pod::config::{Machine, pod_amounts};
use crate::pod::testkit::Is::{Created, Exited, Running, Unknown};
use crate::pod::testkit::{self, Is, instance, pod, sandbox};
use crate::probe::OfContainer;

const MAIN: [&str; 3] = ["c0", "c1", "c2"];
const INIT: [&str; 3] = ["i0", "i1", "i2"];
const SIDECARS: [&str; 3] = ["i0*", "i1*", "i2*"];

/// A plan in a line: `end`, `create 1: c0 c1`, `kill c0; start c0`, `nothing`.
fn told(pod: &Pod, plan: &Plan) -> String {
    let names = |starts: &[Start]| {
        let name = |start: &Start| {
            let name = start.place.of(pod).map_or("?", |container| container.name.as_str());
            format!("{name}{}", if start.adopt.is_some() { "(adopted)" } else { "" })
        };
        starts.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    match plan {
        Plan::EndPod => "end".to_owned(),
        Plan::Recreate { replacement, starts } => {
            let replaced = if replacement.replaces.is_some() { " replacing" } else { "" };
            format!("create {}{replaced}: {}", replacement.attempt, names(starts))
        }
        Plan::RestartAll { cause, remove, meanwhile } => {
            let remove: Vec<&str> = remove.iter().map(ContainerId::as_str).collect();
            let meanwhile = meanwhile.as_ref().map_or("nothing".to_owned(), |plan| told(pod, plan));
            format!("restart all for {cause}: {}; meanwhile {meanwhile}", remove.join(" "))
        }
        plan if plan.is_nothing() => "nothing".to_owned(),
        Plan::Adjust(Adjustment { kills, starts, resize, .. }) => {
            let mut parts = Vec::new();
            if !kills.is_empty() {
                let kills: Vec<&str> = kills.iter().map(|kill| kill.id.as_str()).collect();
                parts.push(format!("kill {}", kills.join(" ")));
            }
            if !starts.is_empty() {
                parts.push(format!("start {}", names(starts)));
            }
            match resize {
                None => {}
                Some(Resize(all)) if all.is_empty() => parts.push("resize the pod".to_owned()),
                Some(Resize(all)) => {
                    let all: Vec<&str> = all.iter().map(ContainerId::as_str).collect();
                    parts.push(format!("resize {}", all.join(" ")));
                }
            }
            parts.join("; ")
        }
    }
}

fn planned(pod: &Pod, status: &PodStatus, verdicts: &Verdicts) -> String {
    planned_with(pod, status, verdicts, &Grants::default())
}

fn planned_with(pod: &Pod, status: &PodStatus, verdicts: &Verdicts, grants: &Grants) -> String {
    let amounts = pod_amounts(pod, &Machine::default());
    let (over, replaced) = (&BTreeSet::new(), &Replaced::default());
    told(pod, &plan(Inputs { pod, status, verdicts, over, grants, replaced, amounts: &amounts }))
}

/// The plan after these instances were ended to be started again.
fn planned_after(pod: &Pod, status: &PodStatus, ended: &[&str]) -> String {
    let mut replaced = Replaced::default();
    for id in ended {
        let name = &status.container(&(*id).into()).unwrap().name;
        let container = spec::all_containers(pod).find(|container| *container.name == **name).unwrap();
        replaced.note(pod, container, &(*id).into());
    }
    let (amounts, over) = (pod_amounts(pod, &Machine::default()), BTreeSet::new());
    let (verdicts, grants) = (&Verdicts::default(), &Grants::default());
    let replaced = &replaced;
    told(pod, &plan(Inputs { pod, status, verdicts, over: &over, grants, replaced, amounts: &amounts }))
}

/// The messages of the containers that are ended.
fn why_killed(pod: &Pod, status: &PodStatus, verdicts: &Verdicts) -> Vec<String> {
    let amounts = &pod_amounts(pod, &Machine::default());
    let (over, grants, replaced) = (&BTreeSet::new(), &Grants::default(), &Replaced::default());
    match plan(Inputs { pod, status, verdicts, over, grants, replaced, amounts }) {
        Plan::Adjust(Adjustment { kills, .. }) => kills.into_iter().map(|kill| kill.message).collect(),
        _ => Vec::new(),
    }
}

type Containers<'a> = &'a [(&'a str, Is)];

#[test]
fn regular_containers() {
    let all = |is| [("c0", is), ("c1", is), ("c2", is)];
    let table: [(&str, &str, Containers<'_>, &str); 14] = [
        ("all run", "Always", &all(Running), "nothing"),
        ("two ended", "Always", &[("c0", Exited(0)), ("c1", Exited(111)), ("c2", Running)], "start c0 c1"),
        ("two ended", "OnFailure", &[("c0", Exited(0)), ("c1", Exited(111)), ("c2", Running)], "start c1"),
        ("two ended", "Never", &[("c0", Exited(0)), ("c1", Exited(111)), ("c2", Running)], "nothing"),
        (
            "one made",
            "OnFailure",
            &[("c0", Exited(0)), ("c1", Created), ("c2", Running)],
            "start c1(adopted)",
        ),
        ("one made", "Never", &[("c0", Running), ("c1", Created), ("c2", Running)], "start c1(adopted)"),
        ("one unknown", "Never", &[("c0", Running), ("c1", Unknown), ("c2", Running)], "kill c1-0; start c1"),
        ("one missing", "Never", &[("c0", Running), ("c2", Running)], "start c1"),
        ("all done", "Never", &all(Exited(0)), "end"),
        ("all done", "OnFailure", &all(Exited(0)), "end"),
        ("all done", "Always", &all(Exited(0)), "start c0 c1 c2"),
        ("all failed", "Never", &all(Exited(1)), "end"),
        ("all failed", "OnFailure", &all(Exited(1)), "start c0 c1 c2"),
        ("none yet", "Never", &[], "start c0 c1 c2"),
    ];
    for (what, policy, containers, wanted) in table {
        let pod = pod(policy, &[], &MAIN);
        let got = planned(&pod, &testkit::status(Ready, containers), &Verdicts::default());
        assert_eq!(got, wanted, "{what}, {policy}");
    }
}

#[test]
fn sandboxes() {
    let all = |is| [("c0", is), ("c1", is), ("c2", is)];
    let none = PodStatus::unknown_to_runtime("uid");
    assert_eq!(planned(&pod("Always", &[], &MAIN), &none, &Verdicts::default()), "create 0: c0 c1 c2");
    assert_eq!(planned(&pod("Never", &INIT, &MAIN), &none, &Verdicts::default()), "create 0: i0");
    let table: [(&str, u32, Containers<'_>, &str); 8] = [
        ("Always", 0, &all(Running), "create 1 replacing: c0 c1 c2"),
        ("Always", 0, &all(Exited(0)), "create 1 replacing: c0 c1 c2"),
        (
            "OnFailure",
            0,
            &[("c0", Exited(1)), ("c1", Exited(0)), ("c2", Running)],
            "create 1 replacing: c0 c2",
        ),
        ("Never", 1, &all(Exited(0)), "end"),
        ("OnFailure", 1, &all(Exited(0)), "end"),
        ("Never", 2, &[], "create 3 replacing: c0 c1 c2"),
        ("Never", 0, &[("c0", Running)], "end"),
        ("OnFailure", 0, &all(Unknown), "create 1 replacing: c0 c1 c2"),
    ];
    for (policy, attempt, containers, wanted) in table {
        let pod = pod(policy, &[], &MAIN);
        let mut status = testkit::status(NotReady, containers);
        status.sandboxes = vec![sandbox(attempt, NotReady)];
        assert_eq!(planned(&pod, &status, &Verdicts::default()), wanted, "{policy} {attempt} {containers:?}");
    }
}

#[test]
fn two_ready_sandboxes_are_one_too_many() {
    let mut status = testkit::status(Ready, &[("c0", Running)]);
    status.sandboxes = vec![sandbox(1, Ready), sandbox(0, Ready)];
    assert_eq!(
        planned(&pod("Always", &[], &["c0"]), &status, &Verdicts::default()),
        "create 2 replacing: c0"
    );
}

#[test]
fn a_sandbox_without_an_address_or_on_another_network_is_replaced() {
    let (own, host) = (Some(false), Some(true));
    // pod on the host's network; sandbox: on the host's network, has a network, has an address → plan
    let table = [
        (false, own, true, true, "nothing"),
        (false, own, true, false, "create 1 replacing: c0"),
        (false, own, false, false, "nothing"),
        (false, None, true, true, "nothing"),
        (false, None, true, false, "create 1 replacing: c0"),
        (false, host, true, false, "create 1: c0"),
        (true, host, true, false, "nothing"),
        (true, host, false, false, "nothing"),
        (true, None, true, false, "nothing"),
        (true, own, true, true, "create 1: c0"),
    ];
    for (wants_host, is_on_host_network, has_network, has_address, wanted) in table {
        let mut pod = pod("Always", &[], &["c0"]);
        pod.spec.as_mut().unwrap().host_network = wants_host.then_some(true);
        let mut status = testkit::status(Ready, &[("c0", Running)]);
        let sandbox = &mut status.sandboxes[0];
        (sandbox.is_on_host_network, sandbox.has_network) = (is_on_host_network, has_network);
        sandbox.ips = has_address.then(|| "10.0.0.7".parse().unwrap()).into_iter().collect();
        let case = (wants_host, is_on_host_network, has_network, has_address);
        assert_eq!(planned(&pod, &status, &Verdicts::default()), wanted, "{case:?}");
    }
}

#[test]
fn a_sandbox_with_other_users_is_replaced() {
    // what the pod says of the host's users; whether its sandbox has its own → plan
    let table = [
        (None, Some(false), "nothing"),
        (Some(true), Some(false), "nothing"),
        (Some(false), Some(true), "nothing"),
        (Some(false), Some(false), "create 1: c0"),
        (None, Some(true), "create 1: c0"),
        (Some(true), Some(true), "create 1: c0"),
        (Some(false), None, "nothing"),
        (None, None, "nothing"),
    ];
    for (host_users, has_own_users, wanted) in table {
        let mut pod = pod("Always", &[], &["c0"]);
        pod.spec.as_mut().unwrap().host_users = host_users;
        let mut status = testkit::status(Ready, &[("c0", Running)]);
        status.sandboxes[0].has_own_users = has_own_users;
        let case = (host_users, has_own_users);
        assert_eq!(planned(&pod, &status, &Verdicts::default()), wanted, "{case:?}");
    }
}

#[test]
fn init_containers() {
    let done = [("i0", Exited(0)), ("i1", Exited(0)), ("i2", Exited(0))];
    let but_last = |is| [("i0", Exited(0)), ("i1", Exited(0)), ("i2", is)];
    let table: [(&str, &str, Containers<'_>, &str); 15] = [
        ("all done", "Always", &done, "start c0 c1 c2"),
        ("none yet", "Always", &[], "start i0"),
        ("the first done", "Always", &[("i0", Exited(0))], "start i1"),
        ("the last runs", "Always", &but_last(Running), "nothing"),
        ("the last failed", "Always", &but_last(Exited(1)), "start i2"),
        ("the last failed", "OnFailure", &but_last(Exited(1)), "start i2"),
        ("the last failed", "Never", &but_last(Exited(1)), "end"),
        ("the last unknown", "Always", &but_last(Unknown), "kill i2-0; start i2"),
        ("the last unknown", "OnFailure", &but_last(Unknown), "kill i2-0; start i2"),
        ("the last unknown", "Never", &but_last(Unknown), "end"),
        ("the last made", "Always", &but_last(Created), "start i2(adopted)"),
        ("only the last known", "Always", &[("i2", Running)], "nothing"),
        (
            "containers run, init forgotten",
            "Always",
            &[("c0", Running), ("c1", Running), ("c2", Running)],
            "nothing",
        ),
        (
            "containers run, the last init failed long ago",
            "Never",
            &[("i2", Exited(1)), ("c0", Running), ("c1", Running), ("c2", Running)],
            "nothing",
        ),
        (
            "only dead containers: they may be of an older sandbox",
            "Always",
            &[("c0", Exited(1)), ("c1", Exited(1)), ("c2", Exited(1))],
            "start i0",
        ),
    ];
    for (what, policy, containers, wanted) in table {
        let pod = pod(policy, &INIT, &MAIN);
        let got = planned(&pod, &testkit::status(Ready, containers), &Verdicts::default());
        assert_eq!(got, wanted, "{what}, {policy}");
    }
    let dead = testkit::status(NotReady, &done);
    let got = planned(&pod("Always", &INIT, &MAIN), &dead, &Verdicts::default());
    assert_eq!(got, "create 1 replacing: i0", "a new sandbox starts from the beginning");
}

#[test]
fn an_init_container_out_of_memory_has_failed_whatever_its_code() {
    let mut status = testkit::status(Ready, &[("i0", Exited(0))]);
    status.containers[0].reason = "OOMKilled".into();
    for (policy, wanted) in [("Always", "start i0"), ("OnFailure", "start i0"), ("Never", "end")] {
        let got = planned(&pod(policy, &["i0"], &["c0"]), &status, &Verdicts::default());
        assert_eq!(got, wanted, "{policy}");
    }
}

#[test]
fn sidecars() {
    let all = |is| [("i0", is), ("i1", is), ("i2", is)];
    let running = all(Running);
    let with_main = |is: Is| {
        let mut containers = running.to_vec();
        containers.extend(MAIN.map(|name| (name, is)));
        containers
    };
    type Case<'a> = (&'a str, &'a str, Vec<(&'a str, Is)>, &'a str);
    let table: [Case<'_>; 12] = [
        ("none yet", "Always", vec![], "start i0"),
        ("the first runs", "Always", vec![("i0", Running)], "start i1"),
        ("two run", "Always", vec![("i0", Running), ("i1", Running)], "start i2"),
        ("all run", "Always", running.to_vec(), "start c0 c1 c2"),
        (
            "first and last ended",
            "Always",
            vec![("i0", Exited(0)), ("i1", Running), ("i2", Exited(0))],
            "start i0 i2",
        ),
        (
            "first ended",
            "Always",
            vec![("i0", Exited(0)), ("i1", Running), ("i2", Running)],
            "start i0 c0 c1 c2",
        ),
        (
            "last ended badly",
            "Never",
            vec![("i0", Running), ("i1", Running), ("i2", Exited(137))],
            "start i2",
        ),
        ("all well", "Always", with_main(Running), "nothing"),
        ("all done", "Never", with_main(Exited(0)), "end"),
        ("only the last known", "Always", vec![("i2", Running)], "start i0 i1 c0 c1 c2"),
        ("one made", "Always", vec![("i0", Running), ("i1", Created)], "start i1(adopted)"),
        ("one unknown", "Never", vec![("i0", Running), ("i1", Unknown)], "kill i1-0; start i1"),
    ];
    for (what, policy, containers, wanted) in table {
        let pod = pod(policy, &SIDECARS, &MAIN);
        let got = planned(&pod, &testkit::status(Ready, &containers), &Verdicts::default());
        assert_eq!(got, wanted, "{what}, {policy}");
    }
    let mut containers = with_main(Running);
    containers[2].1 = Exited(1);
    let got =
        planned(&pod("Never", &SIDECARS, &MAIN), &testkit::status(Ready, &containers), &Verdicts::default());
    assert_eq!(got, "start i2", "a sidecar is kept beside running containers whatever the policy");
}

#[test]
fn sidecars_among_init_containers() {
    let done: Containers<'_> = &[("i0", Running), ("i1", Exited(0)), ("i2", Running)];
    let ended: Vec<(&str, Is)> = done.iter().copied().chain(MAIN.map(|name| (name, Exited(0)))).collect();
    let sidecars_ended: Vec<(&str, Is)> =
        INIT.into_iter().chain(MAIN).map(|name| (name, Exited(0))).collect();
    let table: [(&str, &str, Containers<'_>, &str); 11] = [
        ("none yet", "Always", &[], "start i0"),
        ("the sidecar runs", "Never", &[("i0", Running)], "start i1"),
        ("the sidecar ended before the next began", "Never", &[("i0", Exited(1))], "start i0"),
        ("the second runs", "Always", &[("i0", Running), ("i1", Running)], "nothing"),
        ("the sidecar ended beside it", "Never", &[("i0", Exited(1)), ("i1", Running)], "start i0"),
        ("the sidecar was forgotten", "Always", &[("i1", Running)], "start i0"),
        ("the second is done", "Always", &[("i0", Running), ("i1", Exited(0))], "start i2"),
        ("the second failed", "Always", &[("i0", Running), ("i1", Exited(1))], "start i1"),
        ("the second failed", "Never", &[("i0", Running), ("i1", Exited(1))], "end"),
        ("all are done", "Never", &ended, "end"),
        // Its phase shows before that it is over; otherwise these may be from an older sandbox.
        ("all are done, sidecars too", "Never", &sidecars_ended, "start i0 i2"),
    ];
    for (what, policy, containers, wanted) in table {
        let pod = pod(policy, &["i0*", "i1", "i2*"], &MAIN);
        let got = planned(&pod, &testkit::status(Ready, containers), &Verdicts::default());
        assert_eq!(got, wanted, "{what}, {policy}");
    }
    let pod = pod("Always", &["i0*", "i1", "i2*"], &MAIN);
    let got = planned(&pod, &testkit::status(Ready, done), &Verdicts::default());
    assert_eq!(got, "start c0 c1 c2", "initialised");
}

#[test]
fn probes_of_sidecars() {
    use Verdict::{Failure, Success};
    let two = [("i0", Running), ("i1", Running)];
    let three = [("i0", Running), ("i1", Running), ("i2", Running)];
    let startup = |verdict| OfContainer { startup: verdict, ..OfContainer::default() };
    let liveness = |verdict| OfContainer { liveness: verdict, startup: Some(Success), readiness: None };
    // whose probe, its verdict, what runs → plan
    let all: Vec<(&str, Is)> = three.into_iter().chain(MAIN.map(|name| (name, Running))).collect();
    let table: [(&str, usize, OfContainer, Containers<'_>, &str); 10] = [
        ("started", 1, startup(Some(Success)), &two, "start i2"),
        ("not yet told", 1, startup(None), &two, "nothing"),
        ("alive", 1, liveness(Some(Success)), &two, "start i2"),
        ("liveness unknown", 1, liveness(None), &two, "start i2"),
        ("liveness failed", 2, liveness(Some(Failure)), &three, "kill i2-0; start i2 c0 c1 c2"),
        ("startup failed", 2, startup(Some(Failure)), &three, "kill i2-0; start i2"),
        ("startup failed in the middle", 1, startup(Some(Failure)), &two, "kill i1-0; start i1"),
        ("liveness of an earlier one failed", 0, liveness(Some(Failure)), &two, "kill i0-0; start i0 i2"),
        ("liveness failed beside containers", 1, liveness(Some(Failure)), &all, "kill i1-0; start i1"),
        ("startup failed beside containers", 1, startup(Some(Failure)), &all, "kill i1-0; start i1"),
    ];
    for (what, index, verdict, containers, wanted) in table {
        let mut pod = pod("Always", &SIDECARS, &MAIN);
        let sidecar = &mut pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[index];
        sidecar.startup_probe = Some(Probe::default());
        sidecar.liveness_probe = Some(Probe::default());
        let verdicts = Verdicts::default().with(&format!("i{index}-0"), verdict);
        assert_eq!(planned(&pod, &testkit::status(Ready, containers), &verdicts), wanted, "{what}");
    }
}

#[test]
fn probes_of_containers() {
    use Verdict::Failure;
    let liveness = OfContainer { liveness: Some(Failure), ..OfContainer::default() };
    let startup = OfContainer { startup: Some(Failure), ..OfContainer::default() };
    let [alive_again, dead] =
        ["Container c0 failed liveness probe, will be restarted", "Container c0 failed liveness probe"];
    let [started_again, unstarted] =
        ["Container c0 failed startup probe, will be restarted", "Container c0 failed startup probe"];
    let (again, for_good) = ("kill c0-0; start c0", "kill c0-0");
    // policy of the pod, of the container, verdict → plan, message
    let table = [
        ("Always", None, liveness, again, alive_again),
        ("OnFailure", None, liveness, again, alive_again),
        ("Never", None, liveness, for_good, dead),
        ("Never", Some("OnFailure"), liveness, again, alive_again),
        ("Always", Some("Never"), liveness, for_good, dead),
        ("OnFailure", None, startup, again, started_again),
        ("Never", None, startup, for_good, unstarted),
        ("Never", Some("Always"), startup, again, started_again),
    ];
    for (policy, own_policy, verdict, wanted, message) in table {
        let mut pod = pod(policy, &[], &["c0", "c1"]);
        pod.spec.as_mut().unwrap().containers[0].restart_policy = own_policy.map(str::to_owned);
        let status = testkit::status(Ready, &[("c0", Running), ("c1", Running)]);
        let verdicts = Verdicts::default().with("c0-0", verdict);
        let unprobed = planned(&pod, &status, &verdicts);
        assert_eq!(unprobed, "nothing", "the last word of a probe that was taken back");
        let probed = &mut pod.spec.as_mut().unwrap().containers[0];
        (probed.liveness_probe, probed.startup_probe) = (Some(Probe::default()), Some(Probe::default()));
        let made = plan(Inputs {
            pod: &pod,
            status: &status,
            verdicts: &verdicts,
            over: &BTreeSet::new(),
            grants: &Grants::default(),
            replaced: &Replaced::default(),
            amounts: &PodAmounts::default(),
        });
        assert_eq!(told(&pod, &made), wanted, "{policy} {own_policy:?}");
        let Plan::Adjust(Adjustment { kills, .. }) = made else { panic!("{made:?}") };
        assert_eq!(kills[0].message, message);
    }
}

#[test]
fn a_changed_definition_replaces_a_container_whatever_the_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut pod = pod(policy, &["i0*"], &["c0", "c1"]);
        let status = testkit::status(Ready, &[("i0", Running), ("c0", Running), ("c1", Running)]);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[1].image = Some("image:2".to_owned());
        assert_eq!(planned(&pod, &status, &Verdicts::default()), "kill c1-0; start c1", "{policy}");
        let why = why_killed(&pod, &status, &Verdicts::default());
        assert_eq!(why, ["Container c1 definition changed, will be restarted"], "{policy}");
        let spec = pod.spec.as_mut().unwrap();
        spec.init_containers.as_mut().unwrap()[0].image = Some("image:2".to_owned());
        assert_eq!(planned(&pod, &status, &Verdicts::default()), "kill i0-0 c1-0; start i0 c1", "{policy}");
    }
}

#[test]
fn a_sidecar_is_replaced_without_holding_up_those_that_were_to_start() {
    let mut pod = pod("Always", &SIDECARS, &MAIN);
    pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[2].image = Some("image:2".to_owned());
    let status = testkit::status(Ready, &[("i0", Running), ("i1", Running), ("i2", Running)]);
    assert_eq!(planned(&pod, &status, &Verdicts::default()), "kill i2-0; start i2 c0 c1 c2");
}

#[test]
fn a_container_made_from_another_definition_is_not_adopted() {
    let pod = pod("Always", &[], &["c0"]);
    let mut status = testkit::status(Ready, &[("c0", Created)]);
    status.containers[0].hash = Some(7);
    assert_eq!(planned(&pod, &status, &Verdicts::default()), "start c0");
    let mut status = testkit::status(Ready, &[("c0", Created)]);
    status.containers[0].sandbox = "older".into();
    assert_eq!(planned(&pod, &status, &Verdicts::default()), "start c0");
}

#[test]
fn what_should_not_run_is_ended() {
    let pod = pod("Always", &[], &["c0"]);
    let mut status = testkit::status(Ready, &[("c0", Running), ("gone", Running)]);
    assert_eq!(planned(&pod, &status, &Verdicts::default()), "kill gone-0", "not in the spec");
    status.containers =
        vec![instance("c0", 1, Running, "sandbox-0"), instance("c0", 0, Running, "sandbox-0")];
    assert_eq!(planned(&pod, &status, &Verdicts::default()), "kill c0-0", "an older one of the name");
    status.containers[0].state = ContainerState::Exited;
    assert_eq!(
        planned(&pod, &status, &Verdicts::default()),
        "kill c0-0; start c0",
        "never two of a name: the older one ends before another starts"
    );
}

#[test]
fn what_is_left_in_an_older_sandbox_proves_nothing_about_this_one() {
    let pod = pod("Always", &["i0", "i1"], &["c0", "c1"]);
    let mut status = testkit::status(Ready, &[]);
    status.sandboxes = vec![sandbox(1, Ready), sandbox(0, NotReady)];
    for (is, at_first, then) in
        [(Created, "start i0", "nothing"), (Running, "kill c0-0; start i0", "kill c0-0")]
    {
        status.containers =
            vec![instance("c0", 0, is, "sandbox-0"), instance("c1", 0, Exited(1), "sandbox-0")];
        assert_eq!(planned(&pod, &status, &Verdicts::default()), at_first, "{is:?}");
        status.containers.push(instance("i0", 1, Running, "sandbox-1"));
        assert_eq!(planned(&pod, &status, &Verdicts::default()), then, "{is:?}");
    }
}

#[test]
fn what_has_ended_for_good_does_not_come_back_though_the_runtime_has_forgotten_it() {
    let over = BTreeSet::from(["c0".to_owned()]);
    let planned = |status: &PodStatus| {
        let pod = pod("OnFailure", &[], &["c0", "c1"]);
        let (verdicts, grants, amounts) = (&Verdicts::default(), &Grants::default(), &PodAmounts::default());
        let replaced = &Replaced::default();
        told(&pod, &plan(Inputs { pod: &pod, status, verdicts, over: &over, grants, replaced, amounts }))
    };
    assert_eq!(planned(&PodStatus::unknown_to_runtime("uid")), "create 0: c1");
    assert_eq!(planned(&testkit::status(Ready, &[])), "start c1");
    assert_eq!(planned(&testkit::status(Ready, &[("c1", Exited(0))])), "end");
    assert_eq!(
        planned(&testkit::status(Ready, &[("c0", Exited(1)), ("c1", Running)])),
        "start c0",
        "the runtime knows better"
    );
}
