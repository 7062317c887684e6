//! Table rows for the remaining inputs: previous statuses, sidecars, ends, addresses, gates.

use k8s_openapi::api::core::v1::{
    ContainerRestartRule, ContainerRestartRuleOnExitCodes, ContainerState as ApiState,
    ContainerStateTerminated, PodCondition, PodReadinessGate, Probe, ResourceRequirements, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;
use crate::probe::Verdict;

fn ended(code: i32) -> ApiState {
    let terminated = ContainerStateTerminated { exit_code: code, ..ContainerStateTerminated::default() };
    ApiState { terminated: Some(terminated), ..ApiState::default() }
}

fn running() -> ApiState {
    ApiState { running: Some(Default::default()), ..ApiState::default() }
}

fn waiting() -> ApiState {
    ApiState { waiting: Some(Default::default()), ..ApiState::default() }
}

fn before(state: ApiState, last: Option<ApiState>, restarts: i32) -> Option<ApiStatus> {
    let container = ApiContainer {
        name: "c1".to_owned(),
        state: Some(state),
        last_state: last,
        restart_count: restarts,
        ..ApiContainer::default()
    };
    Some(ApiStatus { container_statuses: Some(vec![container]), ..ApiStatus::default() })
}

#[test]
fn a_container_of_which_the_runtime_knows_nothing() {
    // before → state; last state; restarts
    let table = [
        (None, "waiting ContainerCreating; before: nothing", 0),
        (before(ended(3), None, 2), "ended 3 -; before: nothing", 2),
        (before(waiting(), Some(ended(4)), 2), "waiting ContainerCreating; before: ended 4 -", 2),
        (before(waiting(), None, 2), "waiting ContainerCreating; before: nothing", 2),
        (
            before(running(), None, 2),
            "waiting ContainerCreating; before: ended 137 ContainerStatusUnknown",
            3,
        ),
        (before(running(), Some(ended(4)), 2), "waiting ContainerCreating; before: ended 4 -", 2),
    ];
    for (before, wanted, restarts) in table {
        let mut case = Case::new("Always", &[], &["c1"], &[]);
        case.before = before;
        let status = case.status();
        assert_eq!(told(&status, "c1"), wanted);
        assert_eq!(container(&status, "c1").restart_count, restarts, "{wanted}");
    }
    let mut case = Case::new("Always", &[], &["c1"], &[]);
    case.before = before(running(), None, 2);
    case.pod.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(container(&case.status(), "c1").restart_count, 2, "a pod that goes is not restarted");
}

#[test]
fn a_container_of_which_the_runtime_knows_too_little() {
    let mut case = Case::new("Always", &[], &["c1"], &[("c1", Unknown)]);
    for (said, wanted, restarts) in [
        (before(running(), None, 4), "ended 137 ContainerStatusUnknown; before: nothing", 5),
        (before(waiting(), None, 0), "waiting -; before: nothing", 0),
        (before(ended(3), None, 0), "waiting -; before: ended 3 -", 0),
    ] {
        case.before = said;
        let status = case.status();
        assert_eq!(told(&status, "c1"), wanted);
        assert_eq!(container(&status, "c1").restart_count, restarts, "{wanted}");
        case.before = Some(status.clone());
        assert_eq!(
            case.status().container_statuses,
            status.container_statuses,
            "what was said is not unsaid"
        );
    }
}

#[test]
fn troubles_of_init_containers() {
    let failed = Case::new("Always", &["i"], &["a"], &[("i", Exited(1))]).trouble("i", "CrashLoopBackOff");
    assert_eq!(told(&failed.status(), "i"), "waiting CrashLoopBackOff; before: ended 1 Error");
    let done = Case::new("Always", &["i"], &["a"], &[("i", Exited(0))]).trouble("i", "CrashLoopBackOff");
    assert_eq!(told(&done.status(), "i"), "ended 0 Completed; before: nothing", "it is done");
}

#[test]
fn who_was_ended_to_be_started_again_waits_however_it_ended_and_is_no_result() {
    // policy, state → phase; how it is reported
    let table = [
        ("Never", Exited(0), "Running", "waiting ContainerCreating; before: ended 0 Completed"),
        ("Never", Exited(1), "Running", "waiting ContainerCreating; before: ended 1 Error"),
        ("OnFailure", Exited(0), "Running", "waiting ContainerCreating; before: ended 0 Completed"),
        ("OnFailure", Running, "Running", "running; before: nothing"),
    ];
    for (policy, is, phase, wanted) in table {
        let case = || Case::new(policy, &[], &["c1"], &[("c1", is)]).replaced("c1");
        let status = case().status();
        assert_eq!(
            (told(&status, "c1").as_str(), status.phase.as_deref()),
            (wanted, Some(phase)),
            "{policy}"
        );
        let in_trouble = case().trouble("c1", "CrashLoopBackOff").status();
        assert_eq!(in_trouble.phase.as_deref(), Some(phase), "{policy}");
    }
    let over = Case::new("OnFailure", &[], &["c1"], &[("c1", Exited(0))]).replaced("c1").over().status();
    assert_eq!(told(&over, "c1"), "ended 0 Completed; before: nothing", "nothing follows in a pod that ends");
    assert_eq!(over.phase.as_deref(), Some("Succeeded"));
}

#[test]
fn phases_of_sidecars() {
    let with_startup_probe = |are: &[(&str, Is)]| {
        let mut case = Case::new("Always", &["s*"], &["a"], are);
        let sidecar = &mut case.pod.spec.as_mut().unwrap().init_containers.as_mut().unwrap()[0];
        sidecar.startup_probe = Some(Probe::default());
        case
    };
    let table: [(&str, Case, &str); 9] = [
        ("it waits", Case::new("Always", &["s*"], &["a"], &[]), "Pending"),
        ("it has not started yet", with_startup_probe(&[("s", Running)]), "Pending"),
        ("it starts anew beside what runs", with_startup_probe(&[("s", Running), ("a", Running)]), "Running"),
        (
            "it has never been",
            Case::new("Always", &["s*"], &["a"], &[("a", Running)]).trouble("s", "ErrImagePull"),
            "Pending",
        ),
        ("made", Case::new("Always", &["s*"], &["a"], &[("s", Created), ("a", Running)]), "Pending"),
        ("crashed", Case::new("Always", &["s*"], &["a"], &[("s", Exited(1)), ("a", Running)]), "Running"),
        (
            "in back-off",
            Case::new("Always", &["s*"], &["a"], &[("s", Exited(1)), ("a", Running)])
                .trouble("s", "CrashLoopBackOff"),
            "Running",
        ),
        (
            "the work is done, it still runs",
            Case::new("Never", &["s*"], &["a"], &[("s", Running), ("a", Exited(0))]),
            "Running",
        ),
        ("both ended", Case::new("Never", &["s*"], &["a"], &[("s", Exited(0)), ("a", Exited(1))]), "Failed"),
    ];
    for (what, case, wanted) in table {
        assert_eq!(case.status().phase.as_deref(), Some(wanted), "{what}");
    }
}

#[test]
fn a_sidecar_that_has_not_started_holds_up_a_pod_that_has_not_begun() {
    let has = |startup| OfContainer { startup, ..OfContainer::default() };
    let (a, other) = (("a", Running), instance("a", 0, Running, "sandbox-9"));
    let table = [
        ("not started", None, vec![], "Pending"),
        ("not started, and another runs", None, vec![a], "Running"),
        ("not started, and another has ended", None, vec![("a", Exited(0))], "Running"),
        ("it fails", Some(Verdict::Failure), vec![], "Pending"),
        ("started, and the other waits", Some(Verdict::Success), vec![], "Pending"),
        ("started, and another runs", Some(Verdict::Success), vec![a], "Running"),
    ];
    for (what, startup, others, wanted) in table {
        let are = [vec![("s", Running)], others].concat();
        let case = Case::new("Always", &["s*"], &["a"], &are).probed("s", has(startup));
        assert_eq!(case.status().phase.as_deref(), Some(wanted), "{what}");
    }
    let mut case = Case::new("Always", &["s*"], &["a"], &[("s", Running)]).probed("s", has(None));
    case.runtime.containers.push(other);
    assert_eq!(case.status().phase.as_deref(), Some("Pending"), "what runs is of another sandbox");
}

#[test]
fn probes_decide_whether_a_container_has_started_and_is_ready() {
    use Verdict::{Failure, Success};
    // state, startup, readiness → started, ready
    let table = [
        (Running, None, None, false, false),
        (Running, None, Some(Success), false, false),
        (Running, Some(Failure), Some(Success), false, false),
        (Running, Some(Success), None, true, false),
        (Running, Some(Success), Some(Failure), true, false),
        (Running, Some(Success), Some(Success), true, true),
        (Created, Some(Success), Some(Success), false, false),
        (Exited(0), Some(Success), Some(Success), false, false),
    ];
    for (is, startup, readiness, started, ready) in table {
        let verdict = OfContainer { startup, liveness: None, readiness };
        let status = Case::new("Never", &[], &["a"], &[("a", is)]).probed("a", verdict).status();
        let told = container(&status, "a");
        assert_eq!((told.started, told.ready), (Some(started), ready), "{is:?} {verdict:?}");
    }
    let without = Case::new("Never", &[], &["a"], &[("a", Running)]).status();
    assert_eq!((container(&without, "a").started, container(&without, "a").ready), (Some(true), true));
}

#[test]
fn an_end_is_explained_by_the_runtime_and_by_the_container() {
    // Only the first instance of `c1` has left a message.
    let table = [
        ("c1", "", Some("last words")),
        ("c1", "it was killed", Some("it was killed: last words")),
        ("a", "it was killed", Some("it was killed")),
        ("a", "", None),
    ];
    for (name, said, wanted) in table {
        let mut case = Case::new("Never", &[], &[name], &[(name, Exited(1))]);
        case.runtime.containers[0].message = said.into();
        let status = case.status();
        let ended = container(&status, name).state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!(ended.message.as_deref(), wanted, "{name} {said:?}");
    }
}

#[test]
fn an_init_container_out_of_memory_has_failed_whatever_its_code() {
    for (policy, phase) in [("Never", "Failed"), ("OnFailure", "Pending"), ("Always", "Pending")] {
        let mut case = Case::new(policy, &["i"], &["a"], &[("i", Exited(0))]);
        case.runtime.containers[0].reason = "OOMKilled".into();
        let status = case.status();
        assert_eq!(status.phase.as_deref(), Some(phase), "{policy}");
        assert!(!container(&status, "i").ready, "{policy}");
    }
}

#[test]
fn the_end_of_a_static_pod_is_not_its_result() {
    let annotate = |mut case: Case| {
        let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
        case.pod.metadata.annotations = Some([source].into_iter().collect());
        case
    };
    let table: [(Case, &str, &str); 6] = [
        (Case::new("Always", &[], &["a"], &[("a", Exited(143))]).over(), "Failed", "Running"),
        (Case::new("Always", &[], &["a"], &[("a", Exited(0))]).over(), "Succeeded", "Running"),
        (Case::new("Never", &[], &["a"], &[("a", Exited(143))]).over(), "Failed", "Failed"),
        (Case::new("OnFailure", &[], &["a"], &[("a", Exited(0))]).over(), "Succeeded", "Succeeded"),
        (Case::new("Always", &[], &["a"], &[]).over(), "Failed", "Pending"),
        (Case::new("Always", &[], &["a", "b"], &[("a", Exited(0))]).over(), "Failed", "Pending"),
    ];
    for (case, wanted, of_static) in table {
        let words = format!("{:?}", case.runtime.containers);
        assert_eq!(case.status().phase.as_deref(), Some(wanted), "{words}");
        assert_eq!(annotate(case).status().phase.as_deref(), Some(of_static), "{words}");
    }
}

#[test]
fn at_the_end_everything_that_may_have_begun_has_ended() {
    const LOST: &str = "ended 137 ContainerStatusUnknown";
    type Told = &'static [(&'static str, &'static str)];
    let table: [(Case, Told); 5] = [
        (Case::new("Always", &[], &["a"], &[]).over(), &[("a", LOST)]),
        (
            Case::new("Always", &["i", "j"], &["a"], &[("i", Exited(0))]).over(),
            &[("i", "ended 0 Completed"), ("j", "waiting PodInitializing"), ("a", "waiting PodInitializing")],
        ),
        (
            Case::new("Always", &["i", "j"], &["a"], &[]).over(),
            &[("i", LOST), ("j", "waiting PodInitializing"), ("a", "waiting PodInitializing")],
        ),
        (
            Case::new("Always", &["i"], &["a"], &[("i", Exited(0))]).over(),
            &[("i", "ended 0 Completed"), ("a", LOST)],
        ),
        (
            Case::new("Always", &["s*"], &["a"], &[("s", Exited(0)), ("a", Exited(0))]).over(),
            &[("s", "ended 0 Completed"), ("a", "ended 0 Completed")],
        ),
    ];
    for (case, wanted) in table {
        let status = case.status();
        for (name, wanted) in wanted {
            assert_eq!(word(container(&status, name).state.as_ref()), *wanted, "{name} of {wanted:?}");
        }
    }
}

#[test]
fn reasons_are_kept_while_the_phase_is() {
    let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
    let said = |phase: &str| {
        let reason = Some("Why".to_owned());
        Some(ApiStatus { phase: Some(phase.to_owned()), reason, ..ApiStatus::default() })
    };
    for (phase, wanted) in [("Running", Some("Why")), ("Pending", None), ("Failed", Some("Why"))] {
        case.before = said(phase);
        assert_eq!(case.status().reason.as_deref(), wanted, "{phase}");
    }
}

#[test]
fn a_pod_with_gates_is_ready_when_they_are_open() {
    let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
    let gate = PodReadinessGate { condition_type: "example.com/net".to_owned() };
    case.pod.spec.as_mut().unwrap().readiness_gates = Some(vec![gate]);
    let ready = |case: &Case| {
        let status = case.status();
        let all = status.conditions.unwrap();
        let found = all.iter().find(|one| one.type_ == "Ready").unwrap().clone();
        let containers = all.iter().find(|one| one.type_ == "ContainersReady").unwrap();
        assert_eq!(containers.status, "True");
        (found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default())
    };
    let no = |message: &str| ("False".to_owned(), "ReadinessGatesNotReady".to_owned(), message.to_owned());
    assert_eq!(
        ready(&case),
        no("corresponding condition of pod readiness gate \"example.com/net\" does not exist.")
    );
    let mut set = |status: &str| {
        let condition = PodCondition {
            type_: "example.com/net".to_owned(),
            status: status.to_owned(),
            ..PodCondition::default()
        };
        case.pod.status = Some(ApiStatus { conditions: Some(vec![condition]), ..ApiStatus::default() });
        (ready(&case), case.status().conditions.unwrap().len())
    };
    let wanted = no("the status of pod readiness gate \"example.com/net\" is not \"True\", but False");
    assert_eq!(set("False"), (wanted, 6), "and what is not ours stays");
    assert_eq!(set("True").0, ("True".to_owned(), String::new(), String::new()));
}

#[test]
fn conditions_say_what_is_missing() {
    let message = |case: &Case, kind: &str| {
        let all = case.status().conditions.unwrap();
        all.iter().find(|one| one.type_ == kind).unwrap().message.clone().unwrap_or_default()
    };
    let case = Case::new("Always", &["i", "s*"], &["b", "a"], &[]);
    assert_eq!(message(&case, "Initialized"), "containers with incomplete status: [i s]");
    assert_eq!(message(&case, "Ready"), "containers with unready status: [s b a]");
    // Once initialized, a pod stays so.
    let mut again = Case::new("Always", &["i"], &["a"], &[("i", Running)]);
    again.before = Some(Case::new("Always", &["i"], &["a"], &[("a", Running)]).status());
    assert_eq!(condition(&again.status(), "Initialized").0, "True");
}

#[test]
fn addresses() {
    let ips = |texts: &[&str]| texts.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
    let told = |status: &ApiStatus| {
        let all = status.pod_ips.clone().unwrap_or_default();
        assert_eq!(status.pod_ip, all.first().map(|first| first.ip.clone()));
        all.into_iter().map(|one| one.ip).collect::<Vec<_>>()
    };
    let mut case = Case::new("Never", &[], &["a"], &[("a", Running)]);
    case.pod.spec.as_mut().unwrap().host_network = Some(false);
    case.runtime.ips = ips(&["fd00::1", "10.0.0.1", "10.0.0.2", "fd00::2"]);
    let both = case.status();
    assert_eq!(told(&both), ["10.0.0.1", "fd00::1"], "the node's family first, one of each");
    assert_eq!(both.host_ip.as_deref(), Some("192.0.2.1"));
    case.before = Some(both);
    case.runtime.ips.clear();
    assert_eq!(told(&case.status()), Vec::<String>::new());
    case.runtime = testkit::status(Ready, &[("a", Exited(0))]);
    assert_eq!(told(&case.status()), ["10.0.0.1", "fd00::1"], "where it was, when it has finished");

    let mut host = Case::new("Always", &[], &["a"], &[("a", Running)]);
    assert_eq!(told(&host.status()), ["192.0.2.1"]);
    let old = k8s_openapi::api::core::v1::PodIP { ip: "192.0.2.9".to_owned() };
    host.before = Some(ApiStatus { pod_ips: Some(vec![old]), ..ApiStatus::default() });
    assert_eq!(told(&host.status()), ["192.0.2.9"], "set once");
}

#[test]
fn what_a_container_was_given() {
    let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
    let own = &mut case.pod.spec.as_mut().unwrap().containers[0];
    let requests = [("cpu".to_owned(), Quantity("100m".to_owned()))].into_iter().collect();
    own.resources =
        Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() });
    let mount = |name: &str, read_only| VolumeMount {
        name: name.to_owned(),
        mount_path: format!("/{name}"),
        read_only,
        ..VolumeMount::default()
    };
    own.volume_mounts = Some(vec![mount("w", None), mount("r", Some(true))]);
    let status = case.status();
    let told = container(&status, "a");
    assert_eq!(told.resources, case.pod.spec.as_ref().unwrap().containers[0].resources);
    assert_eq!(told.allocated_resources.as_ref().unwrap()["cpu"].0, "100m");
    assert_eq!(status.allocated_resources.as_ref().unwrap()["cpu"].0, "100m", "of all together");
    case.runtime = testkit::status(Ready, &[("a", Exited(0))]);
    assert_eq!(container(&case.status(), "a").resources, told.resources, "also of one that has ended");
    case.runtime = testkit::status(Ready, &[]);
    assert_eq!(container(&case.status(), "a").resources, None, "but not of one that never was");
    let mounts: Vec<_> =
        told.volume_mounts.as_ref().unwrap().iter().map(|one| one.recursive_read_only.as_deref()).collect();
    assert_eq!(mounts, [None, Some("Disabled")]);
}

#[test]
fn a_mount_says_whether_what_is_mounted_inside_it_is_read_only() {
    // requested, supported by the runtime → shown
    for (asked, can, wanted) in [
        (None, true, "Disabled"),
        (Some("Disabled"), true, "Disabled"),
        (Some("IfPossible"), true, "Enabled"),
        (Some("IfPossible"), false, "Disabled"),
        (Some("Enabled"), true, "Enabled"),
        (Some("Enabled"), false, "Disabled"),
    ] {
        let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
        case.features.recursive_read_only = can;
        case.pod.spec.as_mut().unwrap().containers[0].volume_mounts = Some(vec![VolumeMount {
            read_only: Some(true),
            recursive_read_only: asked.map(str::to_owned),
            ..VolumeMount::default()
        }]);
        let status = case.status();
        let mounts = container(&status, "a").volume_mounts.as_ref().unwrap();
        assert_eq!(mounts[0].recursive_read_only.as_deref(), Some(wanted), "{asked:?} {can}");
    }
}

#[test]
fn an_image_is_told_by_its_name() {
    let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
    for (known_as, wanted) in [
        ("docker.io/library/image:1", "docker.io/library/image:1"),
        ("", "image:1"),
        ("sha256:12", "image:1"),
    ] {
        case.runtime.containers[0].image = known_as.into();
        assert_eq!(container(&case.status(), "a").image, wanted, "{known_as}");
    }
}

#[test]
fn ends_are_counted_once() {
    let count = |before: Option<&ApiStatus>, now: &ApiStatus| {
        new_ends(before, now).iter().map(|(kind, end)| (kind.as_str(), end.exit_code)).collect::<Vec<_>>()
    };
    let runs = Case::new("Always", &["i"], &["a"], &[("i", Exited(0)), ("a", Running)]);
    let first = runs.status();
    assert_eq!(count(None, &first), [("init_container", 0)]);
    let mut crashed = Case::new("Always", &["i"], &["a"], &[("i", Exited(0)), ("a", Exited(3))]);
    crashed.before = Some(first.clone());
    let second = crashed.status();
    assert_eq!(count(Some(&first), &second), [("container", 3)]);
    let mut back = Case::new("Always", &["i"], &["a"], &[("i", Exited(0))]);
    back.runtime
        .containers
        .extend([instance("a", 1, Running, "sandbox-0"), instance("a", 0, Exited(3), "sandbox-0")]);
    back.before = Some(second.clone());
    let third = back.status();
    assert_eq!(count(Some(&second), &third), []);
    assert_eq!(count(Some(&first), &third), [("container", 3)], "though nobody saw it while it lasted");
}

#[test]
fn a_change_of_resources_that_waits_is_a_condition() {
    let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
    case.resize_pending = Some(ResizePending::Deferred("no room".to_owned()));
    let waits = |status: &ApiStatus| {
        let all = status.conditions.clone().unwrap_or_default();
        let found = all.into_iter().find(|one| one.type_ == "PodResizePending");
        found.map(|one| (one.status, one.reason.unwrap_or_default(), one.message.unwrap_or_default()))
    };
    let told = case.status();
    assert_eq!(waits(&told), Some(("True".to_owned(), "Deferred".to_owned(), "no room".to_owned())));
    case.before = Some(told);
    case.resize_pending = None;
    assert_eq!(waits(&case.status()), None);
}

#[test]
fn a_pod_all_of_whose_containers_are_restarted_says_so_until_they_are_gone() {
    let rule = ContainerRestartRule {
        action: "RestartAllContainers".to_owned(),
        exit_codes: Some(ContainerRestartRuleOnExitCodes {
            operator: "In".to_owned(),
            values: Some(vec![42]),
        }),
    };
    let mut case = Case::new("Never", &[], &["a", "b"], &[("a", Running), ("b", Exited(42))]);
    let plain = case.status();
    let asks = &mut case.pod.spec.as_mut().unwrap().containers[1];
    asks.restart_policy = Some("Never".to_owned());
    asks.restart_policy_rules = Some(vec![rule]);
    let condition = |status: &ApiStatus| {
        let all = status.conditions.iter().flatten();
        all.clone().find(|one| one.type_ == "AllContainersRestarting").map(|one| {
            (
                one.status.clone(),
                one.reason.clone().unwrap_or_default(),
                one.message.clone().unwrap_or_default(),
            )
        })
    };
    assert_eq!(condition(&plain), None, "it could never be");
    let begun = case.status();
    let wanted = ("True", "RestartAllContainersStarted", "container exited with restart policy rule");
    assert_eq!(condition(&begun), Some((wanted.0.into(), wanted.1.into(), wanted.2.into())));

    // Twice: what is reported about them before they are recreated stays the same each time.
    case.runtime = testkit::status(Ready, &[]);
    case.before = Some(begun);
    for wanted in ["waiting RestartingAllContainers", "waiting ContainerCreating"] {
        let gone = case.status();
        assert_eq!(condition(&gone).unwrap().0, "False");
        assert_eq!(gone.phase.as_deref(), Some("Running"), "not over, whatever its policy is");
        for name in ["a", "b"] {
            let one = container(&gone, name);
            assert_eq!((word(one.state.as_ref()).as_str(), one.restart_count), (wanted, 1), "{name}");
            assert_eq!(word(one.last_state.as_ref()), "ended 137 RestartingAllContainers");
        }
        case.before = Some(gone);
    }
}
