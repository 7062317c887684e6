//! What a pod and its containers may use, in the notation of the API. What was not asked for is not told.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use crate::pod::demand::{self, Amounts};
use crate::resource::canonical;

type Wire = BTreeMap<String, WireQuantity>;

/// The resources of one container.
pub(super) fn told(resources: Option<&ResourceRequirements>) -> Option<ResourceRequirements> {
    let list = |list: Option<&Wire>| {
        let amounts = list?.iter().map(|(name, amount)| (name.clone(), canonical(amount)));
        Some(amounts.collect()).filter(|amounts: &Wire| !amounts.is_empty())
    };
    let (requests, limits) = (list(resources?.requests.as_ref()), list(resources?.limits.as_ref()));
    (requests.is_some() || limits.is_some()).then(|| ResourceRequirements {
        requests,
        limits,
        ..ResourceRequirements::default()
    })
}

/// Those of a pod as a whole: its own, or what its containers have together.
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
    fn nothing_is_told_of_nothing() {
        assert_eq!(told(None), None);
        assert_eq!(told(Some(&ResourceRequirements::default())), None);
        assert_eq!(told(Some(&resources("1000M", None))), Some(resources("1G", None)));
    }
}
