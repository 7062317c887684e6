//! Config maps and secrets.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::report::{Path, Report};
use super::{Bounded, FieldError, metadata, names};

const LARGEST: usize = 1 << 20;
const NAMELESS: &str = "pods refer to it by name";

/// Returns everything that is wrong with a config map.
pub(in crate::manifest) fn config_map(map: &ConfigMap) -> Bounded<FieldError> {
    let mut report = Report::default();
    metadata::check(&map.metadata, NAMELESS, &mut report);
    let text: BTreeSet<&str> = map.data.iter().flatten().map(|(key, _)| key.as_str()).collect();
    for key in map.binary_data.iter().flatten().map(|(key, _)| key.as_str()).filter(|key| text.contains(key))
    {
        report.invalid_text(&Path::root("data").key(key), key, "duplicate of key present in binaryData");
    }
    let entries = map.data.iter().flatten().map(|(key, value)| ("data", key, value.len()));
    let binary = map.binary_data.iter().flatten().map(|(key, value)| ("binaryData", key, value.0.len()));
    check(entries.chain(binary), &mut report);
    report.into_errors()
}

/// Returns everything that is wrong with a secret.
pub(in crate::manifest) fn secret(secret: &Secret) -> Bounded<FieldError> {
    let mut report = Report::default();
    metadata::check(&secret.metadata, NAMELESS, &mut report);
    check(secret.data.iter().flatten().map(|(key, value)| ("data", key, value.0.len())), &mut report);
    report.into_errors()
}

fn check<'a>(entries: impl Iterator<Item = (&'static str, &'a String, usize)>, report: &mut Report) {
    let mut size = 0;
    for (field, key, length) in entries {
        report.check(&Path::root(field).key(key), Some(key), names::config_key);
        size += length;
    }
    if size > LARGEST {
        report.too_long(&Path::root("data"), LARGEST, "bytes");
    }
}
