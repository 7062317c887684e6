//! The kinds of objects that a manifest may hold, and which of them a typo may have meant.

use super::typed::alike;

/// The API version that all of them have.
pub(super) const VERSION: &str = "v1";

const SINGLE: &[&str] = &["Pod", "ConfigMap", "Secret"];
const ALL: &[&str] = &["Pod", "ConfigMap", "Secret", "List", "PodList", "ConfigMapList", "SecretList"];

/// Returns the known kind that was meant, either by its exact name or by a similar spelling.
pub(super) fn meant(kind: &str) -> Option<&'static str> {
    // `NodeList` and `JobList` are two letters away from `PodList`, but are meant as written.
    let is_list_of_others =
        kind.strip_suffix("List").is_some_and(|item| !item.is_empty() && alike(item, SINGLE).is_none());
    if is_list_of_others { None } else { alike(kind, ALL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_a_kind_of_somebody_else() {
        for (kind, expected) in [
            ("Pod", Some("Pod")),
            ("pod", Some("Pod")),
            ("POD", Some("Pod")),
            ("Pods", Some("Pod")),
            ("Pdo", Some("Pod")),
            ("Pod ", Some("Pod")),
            ("Configmap", Some("ConfigMap")),
            ("ConfigMaps", Some("ConfigMap")),
            ("Config-Map", Some("ConfigMap")),
            ("Secrte", Some("Secret")),
            ("Lists", Some("List")),
            ("podlist", Some("PodList")),
            ("PodsList", Some("PodList")),
            ("PodLits", Some("PodList")),
            ("ConfigmapList", Some("ConfigMapList")),
            ("SecretList", Some("SecretList")),
            ("", None),
        ] {
            assert_eq!(meant(kind), expected, "{kind:?}");
        }
    }
}
