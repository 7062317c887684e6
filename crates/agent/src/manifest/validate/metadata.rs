//! Names, labels and annotations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::names;
use super::report::{Path, Report};

const LARGEST_ANNOTATIONS: usize = 256 << 10;

pub(super) fn check(meta: &ObjectMeta, report: &mut Report) {
    let path = Path::root("metadata");
    match meta.name.as_deref().filter(|name| !name.is_empty()) {
        None => report.required(&path.field("name"), "invalid pod: name is needed for the pod"),
        Some(name) => report.check(&path.field("name"), Some(name), names::dns_subdomain),
    }
    report.check(&path.field("namespace"), meta.namespace.as_deref(), names::dns_label);
    report.check(&path.field("uid"), meta.uid.as_deref(), names::uid);
    for (key, value) in meta.labels.iter().flatten() {
        let path = path.field("labels");
        report.check(&path, Some(key), names::qualified);
        report.check(&path.key(key), Some(value), names::label_value);
    }
    let path = path.field("annotations");
    let mut size = 0;
    for (key, value) in meta.annotations.iter().flatten() {
        report.check(&path, Some(&key.to_lowercase()), names::qualified);
        size += key.len() + value.len();
    }
    if size > LARGEST_ANNOTATIONS {
        report.too_long(&path, LARGEST_ANNOTATIONS, "bytes");
    }
}
