//! What a pod requests as a whole: the sum over its containers, as the kubelet and the scheduler compute it.
//!
//! Containers run together, so their requests are added up. Init containers run one after the other, each beside the
//! sidecars that started before it, so the largest of them counts. What the pod itself requests comes before both, and
//! its overhead is added in either case.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::spec;
use crate::resource::{Notation, Quantity};

/// Amounts by the name of the resource. A missing resource was not requested.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// One of the two lists of a [`ResourceRequirements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Requests,
    Limits,
}

impl List {
    pub(super) fn of(self, resources: Option<&ResourceRequirements>) -> Amounts {
        let list = resources.and_then(|resources| match self {
            Self::Requests => resources.requests.as_ref(),
            Self::Limits => resources.limits.as_ref(),
        });
        read(list)
    }

    fn of_container(self, container: &Container) -> Amounts {
        self.of(container.resources.as_ref())
    }
}

/// Quantities that cannot be read were rejected with their manifest.
fn read(list: Option<&BTreeMap<String, WireQuantity>>) -> Amounts {
    let amount = |(name, wire): (&String, &WireQuantity)| Some((name.clone(), Quantity::of(wire).ok()?));
    list.into_iter().flatten().filter_map(amount).collect()
}

/// What a pod requests, with its overhead: what a node must have left for it.
pub(crate) fn requests(pod: &Pod) -> Amounts {
    with_overhead(pod, of_pod(pod, List::Requests))
}

/// What a pod requests, without its overhead: what its sandbox is given.
pub(crate) fn requests_without_overhead(pod: &Pod) -> Amounts {
    of_pod(pod, List::Requests)
}

/// What the containers of a pod request together, whatever the pod requests itself.
pub(crate) fn requests_of_containers(pod: &Pod) -> Amounts {
    of_containers(pod, List::Requests)
}

/// The limits of the containers of a pod together, whatever the limits of the pod itself.
pub(crate) fn limits_of_containers(pod: &Pod) -> Amounts {
    of_containers(pod, List::Limits)
}

/// The limits of a pod, with its overhead. If some container has no limit for a resource, the sum covers only the
/// others: see [`declares_limit`].
pub(crate) fn limits(pod: &Pod) -> Amounts {
    let limits = of_pod(pod, List::Limits);
    let overhead = overhead(pod);
    limits
        .into_iter()
        .map(|(name, amount)| {
            let more = overhead.get(&name).copied().unwrap_or(Quantity::ZERO);
            (name, amount + more)
        })
        .collect()
}

/// The limit of a resource for the pod as a whole, with its overhead, if anything enforces it.
pub(crate) fn limit(pod: &Pod, name: &str) -> Option<Quantity> {
    limits(pod).remove(name).filter(|limit| !limit.is_zero() && declares_limit(pod, name))
}

/// The limits of a pod, without its overhead.
pub(crate) fn limits_without_overhead(pod: &Pod) -> Amounts {
    of_pod(pod, List::Limits)
}

/// Whether the limit of a resource holds for the pod as a whole: either it has one itself, or each of its containers
/// has.
pub(crate) fn declares_limit(pod: &Pod, name: &str) -> bool {
    let is_limited = |amounts: &Amounts| amounts.get(name).is_some_and(|amount| !amount.is_zero());
    is_limited(&List::Limits.of(own(pod)))
        || spec::all_containers(pod).all(|container| is_limited(&List::Limits.of_container(container)))
}

/// The resources of the pod itself.
pub(crate) fn own(pod: &Pod) -> Option<&ResourceRequirements> {
    pod.spec.as_ref()?.resources.as_ref()
}

/// What running the pod costs besides its containers.
pub(crate) fn overhead(pod: &Pod) -> Amounts {
    read(pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref()))
}

/// The notation of a sum: that of the first amount in it.
pub(crate) fn notation(
    pod: &Pod,
    list: fn(&ResourceRequirements) -> Option<&BTreeMap<String, WireQuantity>>,
    name: &str,
) -> Notation {
    let of_containers = spec::containers(pod).iter().chain(spec::init_containers(pod));
    let of_containers = of_containers.filter_map(|container| container.resources.as_ref());
    let all = own(pod).into_iter().chain(of_containers);
    let overhead = pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref());
    let first = all.filter_map(list).chain(overhead).find_map(|amounts| amounts.get(name));
    first.map_or(Notation::Tens, |first| Notation::of(&first.0))
}

fn with_overhead(pod: &Pod, mut amounts: Amounts) -> Amounts {
    add(&mut amounts, &overhead(pod));
    amounts
}

fn of_pod(pod: &Pod, list: List) -> Amounts {
    let mut amounts = of_containers(pod, list);
    amounts.extend(list.of(own(pod)));
    amounts
}

fn of_containers(pod: &Pod, list: List) -> Amounts {
    let mut together = Amounts::new();
    for container in spec::containers(pod) {
        add(&mut together, &list.of_container(container));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in spec::init_containers(pod) {
        let mut now = list.of_container(container);
        if spec::is_sidecar(container) {
            add(&mut together, &now);
            add(&mut sidecars, &now);
            now.clone_from(&sidecars);
        } else {
            add(&mut now, &sidecars);
        }
        raise(&mut largest, &now);
    }
    raise(&mut together, &largest);
    together
}

fn add(amounts: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = amounts.entry(name.clone()).or_default();
        *sum = *sum + *amount;
    }
}

fn raise(amounts: &mut Amounts, others: &Amounts) {
    for (name, amount) in others {
        let largest = amounts.entry(name.clone()).or_default();
        *largest = (*largest).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit;

    fn with_cpu(mut container: Container, request: &str, limit: Option<&str>) -> Container {
        let amounts = |cpu: &str| Some([("cpu".to_owned(), WireQuantity(cpu.to_owned()))].into());
        container.resources = Some(ResourceRequirements {
            requests: amounts(request),
            limits: limit.and_then(amounts),
            claims: None,
        });
        container
    }

    fn pod(init: &[(&str, &str)], containers: &[&str]) -> Pod {
        let names: Vec<&str> = init.iter().map(|(name, _)| *name).collect();
        let mut pod = testkit::pod("Always", &names, &[]);
        let spec = pod.spec.as_mut().unwrap();
        for (container, (_, cpu)) in spec.init_containers.iter_mut().flatten().zip(init) {
            *container = with_cpu(container.clone(), cpu, None);
        }
        spec.containers = containers.iter().map(|cpu| with_cpu(testkit::container("c"), cpu, None)).collect();
        pod
    }

    #[test]
    fn what_runs_together_is_added_and_the_largest_of_what_runs_before_counts() {
        // init containers (a star is a sidecar), containers → millicores
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], i64);
        let table: [Row<'_>; 7] = [
            (&[], &["1", "500m"], 1500),
            (&[("i", "2")], &["1", "500m"], 2000),
            (&[("i", "100m"), ("j", "3")], &["1"], 3000),
            (&[("s*", "500m")], &["1"], 1500),
            (&[("s*", "500m"), ("i", "1")], &["1"], 1500),
            (&[("s*", "500m"), ("i", "2")], &["1"], 2500),
            (&[("i", "2"), ("s*", "500m")], &["1"], 2000),
        ];
        for (init, containers, wanted) in table {
            let got = requests(&pod(init, containers))["cpu"].millis();
            assert_eq!(got, wanted, "{init:?} {containers:?}");
        }
    }

    #[test]
    fn the_pods_own_amounts_come_first_and_its_overhead_on_top() {
        let mut pod = pod(&[], &["1", "500m"]);
        let cpu = |cpu: &str| Some([("cpu".to_owned(), WireQuantity(cpu.to_owned()))].into());
        let spec = pod.spec.as_mut().unwrap();
        spec.overhead = cpu("250m");
        assert_eq!(requests(&pod)["cpu"].millis(), 1750);
        assert_eq!(requests_without_overhead(&pod)["cpu"].millis(), 1500);
        pod.spec.as_mut().unwrap().resources =
            Some(ResourceRequirements { requests: cpu("3"), limits: cpu("4"), claims: None });
        assert_eq!(requests(&pod)["cpu"].millis(), 3250);
        assert_eq!(limits(&pod)["cpu"].millis(), 4250);
        assert!(declares_limit(&pod, "cpu"));
    }

    #[test]
    fn a_limit_holds_for_the_pod_if_every_container_has_one() {
        let mut pod = pod(&[("i", "1")], &["1", "1"]);
        assert!(!declares_limit(&pod, "cpu"));
        let spec = pod.spec.as_mut().unwrap();
        for container in &mut spec.containers {
            *container = with_cpu(container.clone(), "1", Some("2"));
        }
        assert!(!declares_limit(&pod, "cpu"), "the init container has none");
        for container in pod.spec.as_mut().unwrap().init_containers.iter_mut().flatten() {
            *container = with_cpu(container.clone(), "1", Some("2"));
        }
        assert!(declares_limit(&pod, "cpu"));
        assert_eq!(limits(&pod)["cpu"].millis(), 4000);
    }
}
