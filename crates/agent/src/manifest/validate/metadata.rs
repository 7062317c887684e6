//! Names, labels and annotations.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::names;
use super::report::{Path, Report};

/// No file system supports a longer folder name.
const LONGEST_FOLDER: usize = 255;
const LARGEST_ANNOTATIONS: usize = 256 << 10;

/// Checks metadata; `nameless` is the message for an object without a name.
pub(super) fn check(meta: &ObjectMeta, nameless: &str, report: &mut Report) {
    let path = Path::root("metadata");
    match meta.name.as_deref().filter(|name| !name.is_empty()) {
        None => report.required(&path.field("name"), nameless),
        Some(name) => report.check(&path.field("name"), Some(name), names::dns_subdomain),
    }
    report.check(&path.field("namespace"), meta.namespace.as_deref(), names::dns_label);
    report.check(&path.field("uid"), meta.uid.as_deref(), names::uid);
    check_labels(meta.labels.as_ref(), &path.field("labels"), report);
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

/// Checks the keys and values of labels.
pub(super) fn check_labels(labels: Option<&BTreeMap<String, String>>, path: &Path, report: &mut Report) {
    for (key, value) in labels.into_iter().flatten() {
        report.check(path, Some(key), names::qualified);
        report.check(&path.key(key), Some(value), names::label_value);
    }
}

/// Logs are in `<namespace>_<name>_<uid>`: even if each of the three has a valid length, together they may be too long.
pub(super) fn check_log_folder(meta: &ObjectMeta, report: &mut Report) {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let others = length(&meta.namespace) + length(&meta.uid) + 2;
    let name = meta.name.as_deref().unwrap_or_default();
    let is_name = names::dns_subdomain(name).is_ok();
    if is_name && others + name.len() > LONGEST_FOLDER {
        let most = LONGEST_FOLDER.saturating_sub(others);
        report.invalid_text(
            &Path::root("metadata").field("name"),
            name,
            &format!(
                "must be no more than {most} characters with this namespace and UID: its logs are in a folder called \
                 <namespace>_<name>_<uid>, a name of at most {LONGEST_FOLDER} characters"
            ),
        );
    }
}
