use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};

use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, WireQuantity>> {
    Some(
        pairs.iter().map(|(name, amount)| ((*name).to_owned(), WireQuantity((*amount).to_owned()))).collect(),
    )
}

fn container(name: &str, limits: &[(&str, &str)], requests: &[(&str, &str)]) -> Container {
    let resources =
        ResourceRequirements { limits: amounts(limits), requests: amounts(requests), ..Default::default() };
    Container { name: name.to_owned(), resources: Some(resources), ..Container::default() }
}

struct World {
    pod: Pod,
    objects: Objects,
    node: NodeFacts,
    pod_ips: Vec<IpAddr>,
}

impl World {
    fn new() -> Self {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web".to_owned());
        pod.metadata.namespace = Some("prod".to_owned());
        pod.metadata.uid = Some("uid-1".to_owned());
        pod.metadata.labels = Some(map(&[("b", "2"), ("a", "1")]));
        pod.metadata.annotations = Some(map(&[(
            "x/y",
            "line\n\"quote\"'\ttab\\ \u{1} ä\u{a0}\u{ad}\u{200b}\u{feff}\u{e0001}e\u{301}€",
        )]));
        pod.spec = Some(PodSpec {
            node_name: Some("node".to_owned()),
            containers: vec![
                container(
                    "full",
                    &[("cpu", "1500m"), ("memory", "64Mi")],
                    &[("cpu", "100m"), ("ephemeral-storage", "1G")],
                ),
                container("bare", &[], &[]),
                container("none", &[("cpu", "0"), ("hugepages-2Mi", "4Mi")], &[]),
            ],
            ..PodSpec::default()
        });
        let allocatable = [
            ("cpu", Quantity::from_units(4)),
            ("memory", Quantity::from_units(8 << 30)),
            ("hugepages-2Mi", Quantity::from_units(1 << 30)),
        ];
        Self {
            pod,
            objects: Objects::default(),
            node: NodeFacts {
                host_ips: vec!["10.0.0.1".parse().expect("an IP"), "fd00::1".parse().expect("an IP")],
                allocatable: allocatable
                    .into_iter()
                    .map(|(name, amount)| (name.to_owned(), amount))
                    .collect(),
            },
            pod_ips: vec!["10.1.0.7".parse().expect("an IP"), "fd01::7".parse().expect("an IP")],
        }
    }

    fn facts(&self) -> PodFacts<'_> {
        PodFacts { pod: &self.pod, objects: &self.objects, node: &self.node, pod_ips: &self.pod_ips }
    }
}

#[test]
fn fields() {
    let world = World::new();
    for (path, expected) in [
        ("metadata.name", "web"),
        ("metadata.namespace", "prod"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['missing']", ""),
        ("metadata.labels", "a=\"1\"\nb=\"2\""),
        (
            "metadata.annotations",
            "x/y=\"line\\n\\\"quote\\\"'\\ttab\\\\ \\x01 ä\\u00a0\\u00ad\\u200b\\ufeff\\U000e0001e\u{301}€\"",
        ),
        ("spec.nodeName", "node"),
        ("spec.serviceAccountName", ""),
        ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1,fd00::1"),
        ("status.podIP", "10.1.0.7"),
        ("status.podIPs", "10.1.0.7,fd01::7"),
    ] {
        assert_eq!(world.facts().field(path).as_deref(), Ok(expected), "{path}");
    }
    for path in ["", "metadata", "spec.containers", "status.phase", "spec['a']", "metadata.labels['a'"] {
        assert_eq!(world.facts().field(path), Err(DownwardError::Field(path.to_owned())), "{path}");
    }
}

#[test]
fn resources_are_counted_in_divisors_and_rounded_up() {
    let world = World::new();
    for (container, resource, divisor, expected) in [
        ("full", "limits.cpu", None, "2"),
        ("full", "limits.cpu", Some("1m"), "1500"),
        ("full", "requests.cpu", None, "1"),
        ("full", "requests.cpu", Some("1m"), "100"),
        ("full", "limits.memory", None, "67108864"),
        ("full", "limits.memory", Some("1Mi"), "64"),
        ("full", "limits.memory", Some("1M"), "68"),
        ("full", "limits.memory", Some("0"), "67108864"),
        ("full", "requests.memory", None, "0"),
        ("full", "requests.ephemeral-storage", Some("1k"), "1000000"),
        ("bare", "limits.cpu", None, "4"),
        ("bare", "limits.memory", Some("1Gi"), "8"),
        ("bare", "limits.ephemeral-storage", None, "0"),
        ("bare", "requests.cpu", None, "0"),
        ("bare", "limits.hugepages-2Mi", None, "0"),
        ("none", "limits.hugepages-2Mi", None, "4194304"),
        ("none", "limits.cpu", None, "4"),
    ] {
        let selector = ResourceFieldSelector {
            container_name: Some(container.to_owned()),
            resource: resource.to_owned(),
            divisor: divisor.map(|text| WireQuantity(text.to_owned())),
        };
        assert_eq!(
            world.facts().resource(&selector, None).as_deref(),
            Ok(expected),
            "{container} {resource} {divisor:?}"
        );
    }
}

#[test]
fn a_limit_of_the_pod_counts_before_what_the_node_has() {
    let mut world = World::new();
    world.pod.spec.as_mut().expect("a spec").resources =
        Some(ResourceRequirements { limits: amounts(&[("cpu", "2")]), ..Default::default() });
    let selector = ResourceFieldSelector { resource: "limits.cpu".to_owned(), ..Default::default() };
    let bare = container("bare", &[], &[]);
    assert_eq!(world.facts().resource(&selector, Some(&bare)).as_deref(), Ok("2"));
}

#[test]
fn selectors_that_lead_nowhere() {
    let world = World::new();
    let select = |container: &str, resource: &str, divisor: &str| {
        let selector = ResourceFieldSelector {
            container_name: Some(container.to_owned()),
            resource: resource.to_owned(),
            divisor: Some(WireQuantity(divisor.to_owned())),
        };
        world.facts().resource(&selector, None)
    };
    assert_eq!(select("nobody", "limits.cpu", "1"), Err(DownwardError::Container("nobody".to_owned())));
    assert_eq!(select("full", "limits.gpu", "1"), Err(DownwardError::Resource("limits.gpu".to_owned())));
    assert_eq!(select("full", "cpu", "1"), Err(DownwardError::Resource("cpu".to_owned())));
    assert_eq!(select("full", "limits.cpu", "x"), Err(DownwardError::Divisor("x".to_owned())));
    assert!(matches!(select("full", "limits.cpu", "-1"), Err(DownwardError::Divisor(_))));
}
