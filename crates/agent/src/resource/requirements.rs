//! What a container or a pod asks for of one resource, and what it may have at most.
//!
//! A quantity that cannot be read was refused with its manifest, so it is none here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::Quantity;

pub(crate) fn request(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    amount(resources?.requests.as_ref(), name)
}

pub(crate) fn limit(resources: Option<&ResourceRequirements>, name: &str) -> Option<Quantity> {
    amount(resources?.limits.as_ref(), name)
}

fn amount(amounts: Option<&BTreeMap<String, WireQuantity>>, name: &str) -> Option<Quantity> {
    Quantity::of(amounts?.get(name)?).ok()
}
