//! Static pods, which no API server has created: they get a name with the node's in it, and a UID that changes whenever
//! the manifest does.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus, Toleration};
use serde::Serialize;

use super::annotation;
use crate::fnv::Fnv128;
use crate::source::SourceKind;

/// Where, when and by which node a manifest was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kind of source.
    pub source: SourceKind,
    /// The file or URL.
    pub place: String,
    /// The name of this node.
    pub node_name: String,
    /// When it was read.
    pub seen: Timestamp,
}

/// Gives the pod its identity on this node.
pub(super) fn adopt(pod: &mut Pod, origin: &Origin) {
    let meta = &mut pod.metadata;
    // Whoever writes a manifest wants a pod: that another pod of this name was being deleted when it was copied means
    // nothing.
    (meta.deletion_timestamp, meta.deletion_grace_period_seconds) = (None, None);
    let given = pod.metadata.uid.take().filter(|uid| !uid.is_empty());
    let uid = given.unwrap_or_else(|| uid(pod, origin));

    let meta = &mut pod.metadata;
    let given = meta.name.take().filter(|name| !name.is_empty());
    meta.name = given.map(|name| format!("{name}-{}", origin.node_name.to_lowercase()));
    if meta.namespace.as_ref().is_none_or(String::is_empty) {
        meta.namespace = Some("default".to_owned());
    }
    let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
    annotations.insert(annotation::HASH.to_owned(), uid.clone());
    annotations.insert(annotation::SOURCE.to_owned(), origin.source.to_string());
    annotations.insert(annotation::SEEN.to_owned(), format!("{:.9}", origin.seen));
    meta.uid = Some(uid);

    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(origin.node_name.clone());
    if origin.source == SourceKind::File {
        tolerate_everything(spec.tolerations.get_or_insert_default());
    }
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
}

/// A pod from this node's own files stays, whatever taints the node has.
fn tolerate_everything(tolerations: &mut Vec<Toleration>) {
    let everything = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    tolerations.retain(|toleration| !(toleration.key.is_none() && toleration.effect == everything.effect));
    tolerations.push(everything);
}

fn uid(pod: &Pod, origin: &Origin) -> String {
    let place = match origin.source {
        SourceKind::File => "file",
        SourceKind::Http | SourceKind::Api => "url",
    };
    let mut hash = Fnv128::default();
    // Maps are sorted and structs have a fixed order, so equal pods have equal texts.
    pod.serialize(&mut serde_json::Serializer::new(&mut hash))
        .unwrap_or_else(|error| hash.add(error.to_string().as_bytes()));
    hash.add(format!("host:{}", origin.node_name).as_bytes());
    hash.add(format!("{place}:{}", origin.place).as_bytes());
    hash.to_string()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;

    use super::*;

    fn origin(source: SourceKind) -> Origin {
        Origin {
            source,
            place: "/manifests/web.yaml".to_owned(),
            node_name: "Node-1".to_owned(),
            seen: Timestamp::default(),
        }
    }

    fn named(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod
    }

    fn adopted(mut pod: Pod, origin: &Origin) -> Pod {
        adopt(&mut pod, origin);
        pod
    }

    #[test]
    fn a_pod_gets_the_identity_of_this_node() {
        let pod = adopted(named("web"), &origin(SourceKind::File));
        let uid = pod.metadata.uid.clone().expect("a UID");
        assert_eq!(uid.len(), 32);
        assert_eq!(pod.metadata.name.as_deref(), Some("web-node-1"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(annotation::value(&pod, annotation::SOURCE), Some("file"));
        assert_eq!(annotation::value(&pod, annotation::SEEN), Some("1970-01-01T00:00:00.000000000Z"));
        assert!(annotation::is_static(&pod) && annotation::is_critical(&pod) && !annotation::is_mirror(&pod));
        assert_eq!(annotation::value(&pod, annotation::HASH), Some(uid.as_str()));
        let spec = pod.spec.expect("a spec");
        assert_eq!(spec.node_name.as_deref(), Some("Node-1"));
        let tolerations = spec.tolerations.expect("tolerations");
        assert_eq!(
            (tolerations[0].operator.as_deref(), tolerations[0].effect.as_deref()),
            (Some("Exists"), Some("NoExecute"))
        );
        assert_eq!(pod.status.and_then(|status| status.phase).as_deref(), Some("Pending"));
        assert_eq!(
            adopted(named("web"), &origin(SourceKind::Http)).spec.and_then(|spec| spec.tolerations),
            None
        );
    }

    #[test]
    fn a_pod_that_was_copied_while_it_was_deleted_is_wanted() {
        let mut pod = named("web");
        pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        pod.metadata.deletion_grace_period_seconds = Some(0);
        let meta = adopted(pod, &origin(SourceKind::File)).metadata;
        assert_eq!((meta.deletion_timestamp, meta.deletion_grace_period_seconds), (None, None));
    }

    #[test]
    fn a_given_uid_stays() {
        let mut pod = named("web");
        pod.metadata.uid = Some("mine".to_owned());
        let pod = adopted(pod, &origin(SourceKind::File));
        assert_eq!(pod.metadata.uid.as_deref(), Some("mine"));
        assert_eq!(annotation::value(&pod, annotation::HASH), Some("mine"));
    }

    #[test]
    fn the_uid_depends_on_all_that_makes_a_pod_another_one() {
        let uid = |pod: Pod, origin: &Origin| adopted(pod, origin).metadata.uid;
        let base = origin(SourceKind::File);
        let first = uid(named("web"), &base);
        assert_eq!(uid(named("web"), &base), first);
        assert_ne!(uid(named("web2"), &base), first);
        assert_ne!(uid(named("web"), &Origin { place: "/other.yaml".to_owned(), ..base.clone() }), first);
        assert_ne!(uid(named("web"), &Origin { node_name: "node-2".to_owned(), ..base.clone() }), first);
        assert_ne!(uid(named("web"), &Origin { source: SourceKind::Http, ..base }), first);
    }

    proptest! {
        #[test]
        fn any_change_of_a_label_changes_the_uid(a in "[a-z]{0,8}", b in "[a-z]{0,8}") {
            let labelled = |value: &str| {
                let mut pod = named("web");
                pod.metadata.labels = Some([("k".to_owned(), value.to_owned())].into());
                adopted(pod, &origin(SourceKind::File)).metadata.uid
            };
            prop_assert_eq!(labelled(&a) == labelled(&b), a == b);
        }
    }
}
