//! What a node admits, and its messages when it does not.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodOS, PodSecurityContext, ResourceRequirements, SecurityContext, Sysctl,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use proptest::prelude::*;

use super::*;
use crate::pod::testkit;

fn node() -> Node {
    let amount = |(name, amount): (&str, &str)| (name.to_owned(), amount.parse().unwrap());
    Node {
        labels: [(OS_LABEL.to_owned(), OS.to_owned())].into(),
        allocatable: [("cpu", "2"), ("memory", "1Gi"), ("ephemeral-storage", "10Gi")].map(amount).into(),
        max_pods: 3,
        ..Node::named("here")
    }
}

fn asking(amounts: &[(&str, &str)]) -> Pod {
    let mut pod = testkit::pod("Always", &[], &["c"]);
    let wire = |(name, value): &(&str, &str)| ((*name).to_owned(), WireQuantity((*value).to_owned()));
    pod.spec.as_mut().unwrap().containers[0].resources = Some(ResourceRequirements {
        requests: Some(amounts.iter().map(wire).collect()),
        ..ResourceRequirements::default()
    });
    pod
}

fn changed(change: impl FnOnce(&mut k8s_openapi::api::core::v1::PodSpec)) -> Pod {
    let mut pod = testkit::pod("Always", &[], &["c"]);
    change(pod.spec.as_mut().unwrap());
    pod
}

fn profile(kind: &str) -> AppArmorProfile {
    AppArmorProfile { type_: kind.to_owned(), localhost_profile: None }
}

/// Admits a pod beside others that run at the same time.
fn admit_beside(pod: &Pod, others: &[&Pod], node: &Node) -> Result<(), Refusal> {
    let others: Vec<Tenants<'_>> = others.iter().map(|other| Tenants(vec![other])).collect();
    admit(pod, &others.iter().collect::<Vec<_>>(), node)
}

#[test]
fn pods_that_run_one_after_the_other_share_their_room() {
    let versions = [asking(&[("cpu", "500m"), ("memory", "10Mi")]), asking(&[("cpu", "1")])];
    let versions = Tenants(versions.iter().collect());
    // The node has two cores, and admits three pods.
    for (cpu, fits) in [("1", true), ("1001m", false)] {
        assert_eq!(admit(&asking(&[("cpu", cpu)]), &[&versions], &node()).is_ok(), fits, "{cpu}");
    }
    let alone = Tenants::default();
    assert_eq!(admit(&asking(&[]), &[&versions, &alone], &node()), Ok(()), "they count as one pod");
    let with_port = |port| {
        let port = ContainerPort { container_port: 80, host_port: Some(port), ..ContainerPort::default() };
        changed(|spec| spec.containers[0].ports = Some(vec![port]))
    };
    let versions = [with_port(80), with_port(81)];
    let versions = Tenants(versions.iter().collect());
    for (port, fits) in [(80, false), (81, false), (82, true)] {
        assert_eq!(admit(&with_port(port), &[&versions], &node()).is_ok(), fits, "{port}");
    }
}

#[test]
fn what_does_not_fit_is_told_in_numbers() {
    // others, the pod → reason, message
    let table = [
        (vec![], vec![("cpu", "2"), ("memory", "1Gi")], "", ""),
        (
            vec![],
            vec![("cpu", "4")],
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 4000, used: 0, capacity: 2000",
        ),
        (
            vec![vec![("cpu", "1500m")]],
            vec![("cpu", "501m")],
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000",
        ),
        (vec![vec![("cpu", "1500m")]], vec![("cpu", "500m")], "", ""),
        (
            vec![vec![("memory", "512Mi")], vec![("memory", "256Mi")]],
            vec![("memory", "512Mi")],
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 536870912, used: 805306368, capacity: 1073741824",
        ),
        (
            vec![],
            vec![("ephemeral-storage", "11Gi")],
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240",
        ),
        (
            vec![],
            vec![("hugepages-2Mi", "4Mi")],
            "OutOfhugepages-2Mi",
            "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: 0",
        ),
        (
            vec![],
            vec![("hugepages-64Ki", "64Ki")],
            "OutOfhugepages-64Ki",
            "Node didn't have enough resource: hugepages-64Ki, requested: 65536, used: 0, capacity: 0",
        ),
        (
            vec![vec![], vec![], vec![]],
            vec![],
            "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
        ),
        // A pod that requests nothing is not kept out by pods that request too much.
        (vec![vec![("cpu", "9")]], vec![], "", ""),
        // Resources that the node does not know are not counted.
        (vec![], vec![("example.com/gpu", "1")], "", ""),
    ];
    for (others, wanted, reason, message) in table {
        let others: Vec<Pod> = others.iter().map(|amounts| asking(amounts)).collect();
        let others: Vec<&Pod> = others.iter().collect();
        let got = admit_beside(&asking(&wanted), &others, &node());
        let got = got.err().map(|refusal| (refusal.reason(), refusal.to_string()));
        assert_eq!(got.unwrap_or_default(), (reason.into(), message.to_owned()), "{wanted:?}");
    }
}

#[test]
fn what_the_node_is_not_is_told() {
    let port = ContainerPort { container_port: 80, host_port: Some(80), ..ContainerPort::default() };
    let with_port = changed(|spec| spec.containers[0].ports = Some(vec![port]));
    let sysctl = Sysctl { name: "vm.swappiness".to_owned(), value: "1".to_owned() };
    let of_pod = |context: PodSecurityContext| changed(|spec| spec.security_context = Some(context));
    let of_container = |kind: &str| {
        let context =
            SecurityContext { app_armor_profile: Some(profile(kind)), ..SecurityContext::default() };
        changed(|spec| spec.containers[0].security_context = Some(context))
    };
    let selecting = |key: &str, value: &str| {
        changed(|spec| spec.node_selector = Some([(key.to_owned(), value.to_owned())].into()))
    };
    let labelled = |value: &str| {
        let mut pod = changed(|_| ());
        pod.metadata.labels = Some([(OS_LABEL.to_owned(), value.to_owned())].into());
        pod
    };
    let annotated = |mut pod: Pod, value: &str| {
        let key = format!("{}c", crate::pod::app_armor::ANNOTATION);
        pod.metadata.annotations = Some([(key, value.to_owned())].into());
        pod
    };
    let os = |name: &str| changed(|spec| spec.os = Some(PodOS { name: name.to_owned() }));
    let table = [
        (os("linux"), ""),
        (os("windows"), "PodOSNotSupported"),
        (labelled("windows"), "PodOSSelectorNodeLabelDoesNotMatch"),
        (labelled("linux"), ""),
        (selecting(OS_LABEL, "windows"), "NodeAffinity"),
        (selecting(OS_LABEL, "linux"), ""),
        (selecting("disk", "ssd"), "NodeAffinity"),
        (changed(|spec| spec.node_name = Some("here".to_owned())), ""),
        (changed(|spec| spec.node_name = Some("there".to_owned())), "NodeName"),
        (with_port.clone(), "NodePorts"),
        (
            of_pod(PodSecurityContext { sysctls: Some(vec![sysctl]), ..PodSecurityContext::default() }),
            "SysctlForbidden",
        ),
        (
            of_pod(PodSecurityContext {
                app_armor_profile: Some(profile("RuntimeDefault")),
                ..PodSecurityContext::default()
            }),
            "AppArmor",
        ),
        (of_container("Localhost"), "AppArmor"),
        (of_container("Unconfined"), ""),
        (annotated(changed(|_| ()), "runtime/default"), "AppArmor"),
        (annotated(changed(|_| ()), "localhost/mine"), "AppArmor"),
        (annotated(changed(|_| ()), "unconfined"), ""),
        (annotated(of_container("Unconfined"), "runtime/default"), ""),
        (
            of_pod(PodSecurityContext {
                supplemental_groups_policy: Some("Strict".to_owned()),
                ..PodSecurityContext::default()
            }),
            "SupplementalGroupsPolicyNotSupported",
        ),
        (
            changed(|spec| {
                spec.node_name = Some("there".to_owned());
                spec.security_context = Some(PodSecurityContext {
                    supplemental_groups_policy: Some("Strict".to_owned()),
                    ..PodSecurityContext::default()
                });
            }),
            "SupplementalGroupsPolicyNotSupported",
        ),
        (
            of_pod(PodSecurityContext {
                supplemental_groups_policy: Some("Merge".to_owned()),
                ..PodSecurityContext::default()
            }),
            "",
        ),
    ];
    for (pod, wanted) in table {
        let got =
            admit_beside(&pod, &[&with_port], &node()).err().map_or("".into(), |refusal| refusal.reason());
        assert_eq!(got, wanted, "{:?}", pod.spec);
    }
}

#[test]
fn of_several_reasons_the_kubelets_first_one_wins() {
    let port = ContainerPort { container_port: 80, host_port: Some(80), ..ContainerPort::default() };
    let with_port = changed(|spec| spec.containers[0].ports = Some(vec![port.clone()]));
    let other = Tenants(vec![&with_port]);
    let context = PodSecurityContext {
        app_armor_profile: Some(profile("RuntimeDefault")),
        supplemental_groups_policy: Some("Strict".to_owned()),
        sysctls: Some(vec![Sysctl { name: "vm.swappiness".to_owned(), value: "1".to_owned() }]),
        ..PodSecurityContext::default()
    };
    fn spec(pod: &mut Pod) -> &mut k8s_openapi::api::core::v1::PodSpec {
        pod.spec.as_mut().unwrap()
    }
    let mut pod = asking(&[("cpu", "4")]);
    pod.metadata.labels = Some([(OS_LABEL.to_owned(), "windows".to_owned())].into());
    let wrong = spec(&mut pod);
    wrong.containers[0].ports = Some(vec![port]);
    wrong.os = Some(PodOS { name: "windows".to_owned() });
    wrong.node_selector = Some([("disk".to_owned(), "ssd".to_owned())].into());
    wrong.node_name = Some("there".to_owned());
    wrong.security_context = Some(context);
    // At first all reasons apply; each one that is returned is then removed, and the next must follow.
    type Remedy = fn(&mut Pod);
    let table: [(&str, Remedy); 9] = [
        ("SysctlForbidden", |pod| spec(pod).security_context.as_mut().unwrap().sysctls = None),
        ("PodOSSelectorNodeLabelDoesNotMatch", |pod| pod.metadata.labels = None),
        ("PodOSNotSupported", |pod| spec(pod).os = None),
        ("SupplementalGroupsPolicyNotSupported", |pod| {
            spec(pod).security_context.as_mut().unwrap().supplemental_groups_policy = None;
        }),
        ("NodeAffinity", |pod| spec(pod).node_selector = None),
        ("NodeName", |pod| spec(pod).node_name = None),
        ("NodePorts", |pod| spec(pod).containers[0].ports = None),
        ("OutOfcpu", |pod| spec(pod).containers[0].resources = None),
        ("AppArmor", |pod| spec(pod).security_context = None),
    ];
    for (reason, remedy) in table {
        let refusal = admit(&pod, &[&other], &node()).expect_err(reason);
        assert_eq!(refusal.reason(), reason);
        remedy(&mut pod);
    }
    assert_eq!(admit(&pod, &[&other], &node()), Ok(()));
}

#[test]
fn a_node_that_can_takes_what_asks_for_it() {
    let mut node = node();
    node.app_armor = true;
    node.runtime = RuntimeFeatures {
        recursive_read_only: true,
        supplemental_groups_policy: true,
        user_namespaces: true,
    };
    node.unsafe_sysctls = vec!["net.core.*".parse().unwrap()];
    let pod = changed(|spec| {
        spec.host_network = None;
        spec.security_context = Some(PodSecurityContext {
            app_armor_profile: Some(profile("RuntimeDefault")),
            supplemental_groups_policy: Some("Strict".to_owned()),
            sysctls: Some(vec![Sysctl { name: "net.core.somaxconn".to_owned(), value: "1024".to_owned() }]),
            ..PodSecurityContext::default()
        });
    });
    assert_eq!(admit_beside(&pod, &[], &node), Ok(()));
}

#[test]
fn a_node_of_which_nothing_is_known_counts_pods_only() {
    let node = Node::named("here");
    assert_eq!(admit_beside(&asking(&[("cpu", "1000"), ("memory", "1Pi")]), &[], &node), Ok(()));
}

proptest! {
    #[test]
    fn what_was_let_in_never_asks_for_more_than_there_is(
        millis in prop::collection::vec(0_i64..900, 0..20)
    ) {
        let mut node = node();
        node.max_pods = 10;
        let mut inside: Vec<Pod> = Vec::new();
        for millis in millis {
            let mut pod = asking(&[("cpu", &format!("{millis}m"))]);
            pod.spec.as_mut().unwrap().containers.push(Container::default());
            let fits = admit_beside(&pod, &inside.iter().collect::<Vec<_>>(), &node).is_ok();
            if fits {
                inside.push(pod);
            }
            let used: i64 = inside.iter().map(|pod| requests(pod)["cpu"].millis()).sum();
            prop_assert!(used <= 2000 && inside.len() <= 10);
        }
    }
}
