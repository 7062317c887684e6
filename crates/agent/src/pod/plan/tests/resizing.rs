//! Containers that get other resources while they run.

use k8s_openapi::api::core::v1::{ContainerResizePolicy, PodSpec};

use super::*;
use crate::pod::demand::own;
use crate::pod::grants::PodGrant;
use crate::pod::testkit::resources;

#[test]
fn running_containers_get_what_a_changed_manifest_says() {
    let small = || Some(resources("100m", "64Mi"));
    let given_to = |init: &[&str], main: &[&str]| {
        let mut pod = pod("Always", init, main);
        let spec = pod.spec.as_mut().unwrap();
        let all = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        all.for_each(|container| container.resources = small());
        pod
    };
    let grants = |pod: &Pod| {
        let mut grants = Grants::default();
        spec::all_containers(pod).for_each(|one| grants.give(&one.name, 0, one.resources.as_ref(), own(pod)));
        grants.pod = Some(PodGrant::of(pod, pod_amounts(pod, &Machine::default())));
        grants
    };
    let restarts = Some(vec![ContainerResizePolicy {
        resource_name: "memory".to_owned(),
        restart_policy: "RestartContainer".to_owned(),
    }]);
    let all_run: Containers<'_> = &[("c0", Running), ("c1", Running)];
    let initialising: Containers<'_> = &[("i0", Running)];
    let with_sidecar: Containers<'_> = &[("i0", Running), ("c0", Running), ("c1", Running)];
    type Change<'a> = &'a dyn Fn(&mut PodSpec);
    let resize_first = |spec: &mut PodSpec| spec.containers[0].resources = Some(resources("200m", "64Mi"));
    let table: [(&str, &[&str], Containers<'_>, Change<'_>, &str); 10] = [
        ("the same", &[], all_run, &|_| {}, "nothing"),
        ("more cpu for one", &[], all_run, &resize_first, "resize c0-0"),
        (
            "less memory for one that wants to restart",
            &[],
            all_run,
            &|spec| {
                spec.containers[0].resources = Some(resources("200m", "32Mi"));
                spec.containers[0].resize_policy.clone_from(&restarts);
            },
            "kill c0-0; start c0; resize the pod",
        ),
        (
            "more cpu for one that wants to restart for memory",
            &[],
            all_run,
            &|spec| {
                resize_first(spec);
                spec.containers[0].resize_policy.clone_from(&restarts);
            },
            "resize c0-0",
        ),
        (
            "one that does not run",
            &[],
            &[("c0", Exited(1)), ("c1", Running)],
            &resize_first,
            "start c0; resize the pod",
        ),
        (
            "one whose image changed, too",
            &[],
            all_run,
            &|spec| {
                resize_first(spec);
                spec.containers[0].image = Some("other".to_owned());
            },
            "kill c0-0; start c0; resize the pod",
        ),
        (
            "the pod as a whole",
            &[],
            all_run,
            &|spec| spec.resources = Some(resources("1", "1Gi")),
            "resize the pod",
        ),
        (
            "an init container, which never restarts for it",
            &["i0"],
            initialising,
            &|spec| {
                let init = &mut spec.init_containers.as_mut().unwrap()[0];
                init.resources = Some(resources("200m", "32Mi"));
                init.resize_policy.clone_from(&restarts);
            },
            "resize i0-0",
        ),
        (
            "a sidecar",
            &["i0*"],
            with_sidecar,
            &|spec| spec.init_containers.as_mut().unwrap()[0].resources = Some(resources("200m", "64Mi")),
            "resize i0-0",
        ),
        (
            "a sidecar that wants to restart",
            &["i0*"],
            with_sidecar,
            &|spec| {
                let sidecar = &mut spec.init_containers.as_mut().unwrap()[0];
                sidecar.resources = Some(resources("100m", "32Mi"));
                sidecar.resize_policy.clone_from(&restarts);
            },
            "kill i0-0; start i0; resize the pod",
        ),
    ];
    for (what, init, containers, change, wanted) in table {
        let mut pod = given_to(init, &["c0", "c1"]);
        let grants = grants(&pod);
        change(pod.spec.as_mut().unwrap());
        let status = testkit::status(Ready, containers);
        assert_eq!(planned_with(&pod, &status, &Verdicts::default(), &grants), wanted, "{what}");
        let unknown = planned_with(&pod, &status, &Verdicts::default(), &Grants::default());
        assert!(!unknown.contains("resize"), "{what}, where nothing is known: {unknown}");
    }
}

#[test]
fn what_is_resized_and_what_wants_a_restart_says_so() {
    let mut pod = pod("Always", &[], &["c0"]);
    let mut grants = Grants::default();
    grants.give("c0", 0, Some(&resources("1", "1Gi")), None);
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    container.resources = Some(resources("2", "1Gi"));
    container.resize_policy = Some(vec![ContainerResizePolicy {
        resource_name: "cpu".to_owned(),
        restart_policy: "RestartContainer".to_owned(),
    }]);
    let (status, verdicts) = (testkit::status(Ready, &[("c0", Running)]), Verdicts::default());
    let amounts = pod_amounts(&pod, &Machine::default());
    let plan = plan(Inputs {
        pod: &pod,
        status: &status,
        verdicts: &verdicts,
        over: &BTreeSet::new(),
        grants: &grants,
        replaced: &Replaced::default(),
        amounts: &amounts,
    });
    let Plan::Adjust(Adjustment { kills, .. }) = plan else { panic!("{plan:?}") };
    assert_eq!(
        (kills[0].reason, &*kills[0].message),
        (KillReason::Resized, "Container c0 resize requires restart")
    );
}
