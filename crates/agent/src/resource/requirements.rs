//! The request and the limit that a container or a pod has for a resource.
//!
//! An invalid quantity was refused with its manifest, so it counts as absent here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::{Quantity, canonical};

pub(crate) fn request(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    amount(resources?.requests.as_ref(), name)
}

pub(crate) fn limit(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    amount(resources?.limits.as_ref(), name)
}

/// Returns the same in the API's notation, which a manifest need not use: `0.5` becomes `500m`. `None` if nothing is
/// requested or limited.
pub(crate) fn written(resources: &ResourceRequirements) -> Option<ResourceRequirements> {
    let list = |list: Option<&BTreeMap<String, WireQuantity>>| {
        let amounts = list?.iter().map(|(name, amount)| (name.clone(), canonical(amount)));
        Some(amounts.collect()).filter(|amounts: &BTreeMap<_, _>| !amounts.is_empty())
    };
    let (requests, limits) = (list(resources.requests.as_ref()), list(resources.limits.as_ref()));
    (requests.is_some() || limits.is_some()).then(|| ResourceRequirements {
        requests,
        limits,
        ..ResourceRequirements::default()
    })
}

fn amount(amounts: Option<&BTreeMap<String, WireQuantity>>, name: &str) -> Option<Quantity> {
    Quantity::of(amounts?.get(name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_written_as_the_api_does() {
        let read = |text: &str| -> ResourceRequirements { serde_json::from_str(text).unwrap() };
        assert_eq!(written(&ResourceRequirements::default()), None);
        assert_eq!(written(&read(r#"{"requests": {}, "limits": {}}"#)), None);
        let given = read(r#"{"requests": {"memory": "1000M"}, "limits": {"cpu": "0.5"}}"#);
        assert_eq!(
            written(&given),
            Some(read(r#"{"requests": {"memory": "1G"}, "limits": {"cpu": "500m"}}"#))
        );
    }
}
