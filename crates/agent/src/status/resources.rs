//! The resources of a pod and its containers, in the API's notation. What was not requested is not reported.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use crate::pod::demand::{self, Amounts};
use crate::resource::{self, Notation, Quantity, canonical};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

type Wire = BTreeMap<String, WireQuantity>;

/// A kubelet does not read back CPU requests up to this: the kernel has nothing smaller to give.
const LEAST_CPU_REQUEST: i64 = 2;
const LEAST_CPU_LIMIT: i64 = 10;

/// Rewrites what the runtime and the kernel enforce in the units that they count in, whatever the manifest says: CPU in
/// decimal millicores, memory limits in binary units, so that `64M` becomes `62500Ki`. Memory requests are not
/// enforced, and stay as they are.
fn as_read_back(told: &mut ResourceRequirements) {
    let rewrite = |list: Option<&mut Wire>, name: &str, write: &dyn Fn(Quantity) -> Option<WireQuantity>| {
        let wire = list.and_then(|list| list.get_mut(name));
        if let Some(wire) = wire
            && let Some(written) = Quantity::of(wire).ok().and_then(write)
        {
            *wire = written;
        }
    };
    let cpu = |least: i64| {
        move |amount: Quantity| {
            let millis = Some(amount.millis()).filter(|millis| *millis > least)?;
            Some(Notation::Tens.write(Quantity::from_millis(millis)))
        }
    };
    let memory = |amount: Quantity| {
        (!amount.is_zero()).then(|| Notation::Twos.write(Quantity::from_units(amount.units())))
    };
    rewrite(told.requests.as_mut(), CPU, &cpu(LEAST_CPU_REQUEST));
    rewrite(told.limits.as_mut(), CPU, &cpu(LEAST_CPU_LIMIT));
    rewrite(told.limits.as_mut(), MEMORY, &memory);
}

/// Returns the resources in effect for a running container: those it was `given`, in a pod that had `of_pod` as a whole
/// at that time. A container with any limit also reports the limits that its pod passes on to it, and one with requests
/// but no CPU request is weighted as if it requested its CPU limit.
pub(super) fn holding(
    of_pod: Option<&ResourceRequirements>,
    given: Option<&ResourceRequirements>,
) -> Option<ResourceRequirements> {
    let mut told = resource::written(given?)?;
    let passed_on = of_pod.and_then(|own| own.limits.as_ref());
    let passed_on = |name: &str| passed_on.and_then(|limits| limits.get(name)).map(canonical);
    let cpu = told.limits.as_ref().and_then(|limits| limits.get(CPU).cloned()).or_else(|| passed_on(CPU));
    if let Some(limits) = &mut told.limits {
        for (name, limit) in [CPU, MEMORY].into_iter().filter_map(|name| Some((name, passed_on(name)?))) {
            limits.entry(name.to_owned()).or_insert(limit);
        }
    }
    if let (Some(requests), Some(cpu)) = (&mut told.requests, cpu) {
        requests.entry(CPU.to_owned()).or_insert(cpu);
    }
    as_read_back(&mut told);
    Some(told)
}

/// Returns the resources of a pod as a whole: its own, or those of its containers together.
pub(super) fn of_pod(pod: &Pod) -> Option<ResourceRequirements> {
    let list = |amounts: Amounts, list: fn(&ResourceRequirements) -> Option<&Wire>| {
        let written = amounts.into_iter().map(|(name, amount)| {
            let notation = demand::notation(pod, list, &name);
            (name, notation.write(amount))
        });
        Some(written.collect()).filter(|amounts: &Wire| !amounts.is_empty())
    };
    let requests = list(demand::requests(pod), |resources| resources.requests.as_ref());
    let limits = list(demand::limits(pod), |resources| resources.limits.as_ref());
    (requests.is_some() || limits.is_some()).then(|| ResourceRequirements {
        requests,
        limits,
        ..ResourceRequirements::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit;

    fn amounts(memory: &str) -> Option<Wire> {
        Some([("memory".to_owned(), WireQuantity(memory.to_owned()))].into())
    }

    fn resources(request: &str, limit: Option<&str>) -> ResourceRequirements {
        ResourceRequirements { requests: amounts(request), limits: limit.and_then(amounts), claims: None }
    }

    #[test]
    fn what_a_pod_has_is_what_its_containers_have_together_or_its_own() {
        let mut pod = testkit::pod("Always", &["i"], &["a", "b"]);
        assert_eq!(of_pod(&pod), None);
        let spec = pod.spec.as_mut().unwrap();
        spec.init_containers.as_mut().unwrap()[0].resources = Some(resources("1M", None));
        spec.containers[0].resources = Some(resources("0.5Gi", Some("1024Mi")));
        spec.containers[1].resources = Some(resources("512Mi", None));
        assert_eq!(of_pod(&pod), Some(resources("1Gi", Some("1Gi"))));
        pod.spec.as_mut().unwrap().resources = Some(resources("2000M", Some("3Gi")));
        assert_eq!(of_pod(&pod), Some(resources("2G", Some("3Gi"))));
    }

    #[test]
    fn a_container_that_says_anything_tells_what_its_pod_passes_on() {
        let read = |text: &str| -> ResourceRequirements { serde_json::from_str(text).unwrap() };
        let mut pod = testkit::pod("Always", &[], &["a"]);
        pod.spec.as_mut().unwrap().resources = Some(read(r#"{"limits": {"cpu": "0.5", "memory": "64Mi"}}"#));
        for (given, wanted) in [
            (r#"{"requests": {"cpu": "0.1"}}"#, r#"{"requests": {"cpu": "100m"}}"#),
            (r#"{"requests": {"memory": "1Mi"}}"#, r#"{"requests": {"cpu": "500m", "memory": "1Mi"}}"#),
            (r#"{"limits": {"memory": "16Mi"}}"#, r#"{"limits": {"cpu": "500m", "memory": "16Mi"}}"#),
            (r#"{"limits": {"cpu": "0.2"}}"#, r#"{"limits": {"cpu": "200m", "memory": "64Mi"}}"#),
        ] {
            assert_eq!(holding(demand::own(&pod), Some(&read(given))), Some(read(wanted)), "{given}");
        }
        assert_eq!(holding(demand::own(&pod), None), None);
    }

    #[test]
    fn what_is_read_back_is_in_the_notation_of_who_holds_it() {
        let read = |text: &str| -> ResourceRequirements { serde_json::from_str(text).unwrap() };
        let pod = testkit::pod("Always", &[], &["a"]);
        for (given, wanted) in [
            (r#"{"limits": {"memory": "64M"}}"#, r#"{"limits": {"memory": "62500Ki"}}"#),
            (r#"{"limits": {"memory": "1G"}}"#, r#"{"limits": {"memory": "1000000000"}}"#),
            (r#"{"limits": {"memory": "1e9"}}"#, r#"{"limits": {"memory": "1000000000"}}"#),
            (r#"{"limits": {"memory": "0.5Gi"}}"#, r#"{"limits": {"memory": "512Mi"}}"#),
            (r#"{"limits": {"memory": "0.1Gi"}}"#, r#"{"limits": {"memory": "107374183"}}"#),
            (r#"{"limits": {"memory": "1048576"}}"#, r#"{"limits": {"memory": "1Mi"}}"#),
            (r#"{"requests": {"memory": "64M"}}"#, r#"{"requests": {"memory": "64M"}}"#),
            (r#"{"requests": {"memory": "1048576"}}"#, r#"{"requests": {"memory": "1048576"}}"#),
            (r#"{"limits": {"cpu": "1e0"}}"#, r#"{"limits": {"cpu": "1"}}"#),
            (r#"{"requests": {"cpu": "1e3m"}}"#, r#"{"requests": {"cpu": "1e3m"}}"#),
            (r#"{"requests": {"cpu": "500e-3"}}"#, r#"{"requests": {"cpu": "500m"}}"#),
            (r#"{"requests": {"cpu": "1e-3"}}"#, r#"{"requests": {"cpu": "1e-3"}}"#),
            (r#"{"limits": {"cpu": "10e-3"}}"#, r#"{"limits": {"cpu": "10e-3"}}"#),
            (r#"{"limits": {"hugepages-2Mi": "4M"}}"#, r#"{"limits": {"hugepages-2Mi": "4M"}}"#),
        ] {
            assert_eq!(holding(demand::own(&pod), Some(&read(given))), Some(read(wanted)), "{given}");
        }
    }
}
