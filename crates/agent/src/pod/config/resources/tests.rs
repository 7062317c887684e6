//! Every row of the tables of resources.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::*;
use crate::pod::testkit;

fn machine() -> Machine {
    Machine { memory: 8 << 30, ..Machine::default() }
}

type Named<'a> = &'a [(&'a str, &'a str)];

fn resources(requests: Named<'_>, limits: Named<'_>) -> ResourceRequirements {
    let amounts = |named: Named<'_>| {
        let wire = |(name, value): &(&str, &str)| ((*name).to_owned(), WireQuantity((*value).to_owned()));
        Some(named.iter().map(wire).collect())
    };
    ResourceRequirements { requests: amounts(requests), limits: amounts(limits), claims: None }
}

fn pod_with(resources: &[ResourceRequirements]) -> Pod {
    let names: Vec<String> = (0..resources.len()).map(|index| format!("c{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut pod = testkit::pod("Always", &[], &names);
    for (container, resources) in pod.spec.as_mut().unwrap().containers.iter_mut().zip(resources) {
        container.resources = Some(resources.clone());
    }
    pod
}

#[test]
fn classes_follow_requests_and_limits() {
    let both: Named<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    let table = [
        (vec![resources(&[], &[])], QosClass::BestEffort),
        (vec![resources(&[("cpu", "0")], &[])], QosClass::BestEffort),
        (vec![resources(both, both)], QosClass::Guaranteed),
        // The defaults of a manifest would have copied them.
        (vec![resources(&[], both)], QosClass::Burstable),
        (vec![resources(&[("cpu", "0"), ("memory", "0")], both)], QosClass::Burstable),
        (vec![resources(&[("cpu", "1"), ("memory", "0")], both)], QosClass::Burstable),
        (vec![resources(both, both), resources(both, &[("cpu", "1")])], QosClass::Burstable),
        (vec![resources(both, both), resources(&[], &[])], QosClass::Burstable),
        (vec![resources(&[("cpu", "1")], &[])], QosClass::Burstable),
        (vec![resources(&[("cpu", "500m"), ("memory", "1Gi")], both)], QosClass::Burstable),
    ];
    for (resources, wanted) in table {
        assert_eq!(qos_class(&pod_with(&resources)), wanted, "{resources:?}");
    }
}

#[test]
fn init_containers_and_sidecars_count_for_the_class_too() {
    let both: Named<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    let less: Named<'_> = &[("cpu", "500m"), ("memory", "1Gi")];
    let (sure, none) = (resources(both, both), resources(&[], &[]));
    let table = [
        (sure.clone(), sure.clone(), QosClass::Guaranteed),
        (none.clone(), none.clone(), QosClass::BestEffort),
        (none.clone(), sure.clone(), QosClass::Burstable),
        (sure.clone(), none, QosClass::Burstable),
        (resources(less, both), sure.clone(), QosClass::Burstable),
        (resources(both, &[("cpu", "1")]), sure, QosClass::Burstable),
    ];
    for (of_init, of_regular, wanted) in table {
        for name in ["i", "s*"] {
            let mut pod = testkit::pod("Always", &[name], &["c"]);
            let spec = pod.spec.as_mut().unwrap();
            spec.init_containers.as_mut().unwrap()[0].resources = Some(of_init.clone());
            spec.containers[0].resources = Some(of_regular.clone());
            assert_eq!(qos_class(&pod), wanted, "{name}: {of_init:?} {of_regular:?}");
        }
    }
}

#[test]
fn a_pods_own_amounts_decide_its_class() {
    let both: Named<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    let less: Named<'_> = &[("cpu", "500m"), ("memory", "1Gi")];
    let table = [
        (resources(both, both), QosClass::Guaranteed),
        (resources(less, both), QosClass::Burstable),
        (resources(&[("cpu", "1")], &[("cpu", "1")]), QosClass::Burstable),
        (resources(both, &[]), QosClass::Burstable),
        (resources(&[], &[]), QosClass::BestEffort),
    ];
    for (own, wanted) in table {
        let mut pod = pod_with(&[resources(both, both)]);
        pod.spec.as_mut().unwrap().resources = Some(own.clone());
        assert_eq!(qos_class(&pod), wanted, "{own:?}");
    }
}

#[test]
fn amounts_become_shares_quota_and_bytes() {
    // requests, limits → shares, quota, bytes
    let table: [(Named<'_>, Named<'_>, i64, i64, i64); 7] = [
        (&[("cpu", "0")], &[("cpu", "1")], 2, 100_000, 0),
        (&[], &[], 2, 0, 0),
        (&[("cpu", "100m")], &[], 102, 0, 0),
        (&[("cpu", "1")], &[("cpu", "2"), ("memory", "64Mi")], 1024, 200_000, 64 << 20),
        (&[], &[("cpu", "500m")], 512, 50_000, 0),
        (&[], &[("cpu", "1m")], 2, 1_000, 0),
        (&[("cpu", "1000")], &[], 262_144, 0, 0),
    ];
    for (requests, limits, shares, quota, bytes) in table {
        let pod = pod_with(&[resources(requests, limits)]);
        let got = of_container(&pod, &spec::containers(&pod)[0], &machine());
        let got = (got.cpu_shares, got.cpu_quota, got.memory_limit_in_bytes);
        assert_eq!(got, (shares, quota, bytes), "{requests:?} {limits:?}");
    }
}

#[test]
fn a_container_without_a_limit_has_that_of_its_pod() {
    let own: Named<'_> = &[("cpu", "2"), ("memory", "1Gi"), ("hugepages-2Mi", "4Mi")];
    // of the container: requests, limits → shares, quota, bytes, pages
    let table: [(Named<'_>, Named<'_>, i64, i64, i64, u64); 3] = [
        (&[], &[], 2048, 200_000, 1 << 30, 4 << 20),
        (&[("cpu", "100m")], &[], 102, 200_000, 1 << 30, 4 << 20),
        (
            &[("cpu", "1")],
            &[("cpu", "1"), ("memory", "64Mi"), ("hugepages-2Mi", "2Mi")],
            1024,
            100_000,
            64 << 20,
            2 << 20,
        ),
    ];
    let machine = Machine { huge_page_sizes: vec![2 << 20], ..machine() };
    for (requests, limits, shares, quota, bytes, pages) in table {
        let mut pod = pod_with(&[resources(requests, limits)]);
        pod.spec.as_mut().unwrap().resources = Some(resources(&[], own));
        let got = of_container(&pod, &spec::containers(&pod)[0], &machine);
        let huge = got.hugepage_limits[0].limit;
        let got = (got.cpu_shares, got.cpu_quota, got.memory_limit_in_bytes, huge);
        assert_eq!(got, (shares, quota, bytes, pages), "{requests:?} {limits:?}");
    }
}

#[test]
fn the_kernel_ends_first_what_asked_for_least() {
    let node = 10_000_000_000;
    let score = |memory: &str| {
        let pod = pod_with(&[resources(&[("memory", memory)], &[])]);
        oom_score(&pod, &spec::containers(&pod)[0], node)
    };
    assert_eq!(score("5G"), 500);
    assert_eq!(score("1k"), 999);
    assert_eq!(score("100G"), 3);
    let best_effort = pod_with(&[resources(&[], &[])]);
    assert_eq!(oom_score(&best_effort, &spec::containers(&best_effort)[0], node), 1000);
}

#[test]
fn a_sidecar_outlives_those_that_it_serves_and_what_a_pod_has_left_is_shared() {
    let node = 10_000_000_000;
    let mut pod = pod_with(&[resources(&[("memory", "4G")], &[]), resources(&[("memory", "2G")], &[])]);
    let spec = pod.spec.as_mut().unwrap();
    let sidecar = |memory: &str| Container {
        restart_policy: Some("Always".to_owned()),
        resources: Some(resources(&[("memory", memory)], &[])),
        ..testkit::container("s")
    };
    spec.init_containers = Some(vec![sidecar("1G")]);
    let score = |pod: &Pod, container: &Container| oom_score(pod, container, node);
    let of_sidecar = |pod: &Pod| score(pod, &spec::init_containers(pod)[0]);
    assert_eq!(of_sidecar(&pod), 800, "as the smallest container, not 900");
    assert_eq!(score(&pod, &spec::containers(&pod)[0]), 600);
    pod.spec.as_mut().unwrap().init_containers = Some(vec![sidecar("3G")]);
    assert_eq!(of_sidecar(&pod), 700);
    pod.spec.as_mut().unwrap().resources = Some(resources(&[("memory", "12G")], &[]));
    assert_eq!(score(&pod, &spec::containers(&pod)[1]), 700, "a third of 3G more");
    assert_eq!(of_sidecar(&pod), 600);
    // One that ends has its share as well; its request counts where that is more than those of the others together.
    let ending = |memory: &str| Container { restart_policy: None, name: "i".to_owned(), ..sidecar(memory) };
    for (memory, wanted) in [("1G", 725), ("10G", 750), ("12G", 800)] {
        pod.spec.as_mut().unwrap().init_containers = Some(vec![ending(memory), sidecar("3G")]);
        assert_eq!(score(&pod, &spec::containers(&pod)[1]), wanted, "beside {memory}");
    }
    pod.spec.as_mut().unwrap().init_containers = Some(vec![sidecar("3G")]);
    pod.spec.as_mut().unwrap().priority_class_name = Some("system-node-critical".to_owned());
    assert_eq!(of_sidecar(&pod), -997);
}

#[test]
fn machines_differ_in_what_they_can_limit() {
    let pod = pod_with(&[resources(&[], &[("cpu", "1"), ("memory", "64Mi"), ("hugepages-2Mi", "4Mi")])]);
    let on = |machine: &Machine| of_container(&pod, &spec::containers(&pod)[0], machine);
    let files = |machine: &Machine| {
        let mut files: Vec<String> =
            on(machine).unified.into_iter().map(|(file, value)| format!("{file}={value}")).collect();
        files.sort();
        files
    };
    assert_eq!(files(&machine()), ["memory.oom.group=1"]);
    let swap = Machine { swap_accounting: true, ..machine() };
    assert_eq!(files(&swap), ["memory.oom.group=1", "memory.swap.max=0"]);
    assert_eq!(on(&swap).memory_swap_limit_in_bytes, 0);
    assert!(files(&Machine { single_process_oom_kill: true, ..machine() }).is_empty());
    let old = Machine { unified_cgroups: false, ..swap };
    assert!(files(&old).is_empty());
    assert_eq!(on(&old).memory_swap_limit_in_bytes, 64 << 20);
    let slower = Machine { cpu_period: 50_000, ..machine() };
    assert_eq!((on(&slower).cpu_period, on(&slower).cpu_quota), (50_000, 50_000));
    assert_eq!(on(&Machine { cpu_quota: false, ..machine() }).cpu_quota, NO_QUOTA);
    let pages = Machine { huge_page_sizes: vec![2 << 20, 1 << 30], ..machine() };
    let pages: Vec<(String, u64)> =
        on(&pages).hugepage_limits.into_iter().map(|page| (page.page_size, page.limit)).collect();
    assert_eq!(pages, [("2MB".to_owned(), 4 << 20), ("1GB".to_owned(), 0)]);
    assert_eq!(page_size(64 << 10), "64KB");
}

#[test]
fn a_pod_is_limited_as_a_whole_if_all_of_it_is() {
    let both: Named<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    let cpu: Named<'_> = &[("cpu", "500m")];
    let amounts = |cpu_shares, cpu_quota, memory| PodAmounts { cpu_shares, cpu_quota, memory };
    let table = [
        // Best effort gets the minimum of everything.
        (vec![resources(&[], &[])], amounts(2, None, None)),
        (vec![resources(both, both)], amounts(1024, Some(100_000), Some(1 << 30))),
        (vec![resources(both, both), resources(both, both)], amounts(2048, Some(200_000), Some(2 << 30))),
        (vec![resources(cpu, &[])], amounts(512, None, None)),
        // One of them could use all memory, but not all cpu.
        (vec![resources(cpu, both), resources(cpu, &[("cpu", "2")])], amounts(1024, Some(300_000), None)),
    ];
    for (resources, wanted) in table {
        assert_eq!(of_pod(&pod_with(&resources), &machine()), wanted, "{resources:?}");
    }
    let mut pod = pod_with(&[resources(cpu, &[])]);
    pod.spec.as_mut().unwrap().resources = Some(resources(both, both));
    assert_eq!(of_pod(&pod, &machine()), amounts(1024, Some(100_000), Some(1 << 30)), "its own come first");
    let unlimited = Machine { cpu_quota: false, ..machine() };
    assert_eq!(of_pod(&pod, &unlimited).cpu_quota, None);
}

#[test]
fn a_sandbox_is_told_what_is_in_it_and_what_it_costs() {
    let mut pod = pod_with(&[
        resources(&[("cpu", "1")], &[("cpu", "2"), ("memory", "1Gi")]),
        resources(&[("cpu", "1")], &[("cpu", "2")]),
    ]);
    let (together, overhead) = of_sandbox(&pod, &machine());
    assert_eq!((together.cpu_shares, together.cpu_quota), (2048, 400_000));
    assert_eq!(together.memory_limit_in_bytes, 1 << 30);
    assert_eq!(overhead, None);
    pod.spec.as_mut().unwrap().overhead = Some([("cpu".to_owned(), WireQuantity("250m".to_owned()))].into());
    let (again, overhead) = of_sandbox(&pod, &machine());
    assert_eq!((again, overhead.map(|overhead| overhead.cpu_shares)), (together, Some(256)));
}
