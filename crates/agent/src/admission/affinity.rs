//! Decides whether a pod may run on this node: `nodeSelector` and the required affinity. Preferences are the
//! scheduler's business.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};

/// Whether the node has all labels that the pod selects, and meets what the pod's affinity requires.
pub(super) fn matches(pod: &Pod, node_name: &str, labels: &BTreeMap<String, String>) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let Some(required) = required else { return true };
    required.node_selector_terms.iter().any(|term| meets(term, node_name, labels))
}

/// Whether the node meets a term. An empty term is never met.
fn meets(term: &NodeSelectorTerm, node_name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let of_label = |wanted: &NodeSelectorRequirement| holds(wanted, labels.get(&wanted.key));
    let name = node_name.to_owned();
    let of_field = |wanted: &NodeSelectorRequirement| match wanted.key.as_str() {
        "metadata.name" => holds(wanted, Some(&name)),
        _ => false,
    };
    expressions.iter().all(of_label) && fields.iter().all(of_field)
}

fn holds(wanted: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let compare = |holds: fn(i64, i64) -> bool| {
        let (Some(value), [bound]) = (value, values) else { return false };
        matches!((value.parse(), bound.parse()), (Ok(value), Ok(bound)) if holds(value, bound))
    };
    match wanted.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Affinity, NodeAffinity, NodeSelector};

    use super::*;
    use crate::pod::testkit;

    fn labels() -> BTreeMap<String, String> {
        [("kubernetes.io/os", "linux"), ("disk", "ssd"), ("cores", "8")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
        }
    }

    #[test]
    fn operators_do_what_they_are_called() {
        let table = [
            (requirement("disk", "In", &["hdd", "ssd"]), true),
            (requirement("disk", "In", &["hdd"]), false),
            (requirement("none", "In", &["x"]), false),
            (requirement("disk", "NotIn", &["ssd"]), false),
            (requirement("none", "NotIn", &["ssd"]), true),
            (requirement("disk", "Exists", &[]), true),
            (requirement("none", "Exists", &[]), false),
            (requirement("none", "DoesNotExist", &[]), true),
            (requirement("cores", "Gt", &["4"]), true),
            (requirement("cores", "Gt", &["8"]), false),
            (requirement("cores", "Lt", &["9"]), true),
            (requirement("disk", "Lt", &["9"]), false),
            (requirement("disk", "Like", &["s"]), false),
        ];
        for (wanted, expected) in table {
            assert_eq!(holds(&wanted, labels().get(&wanted.key)), expected, "{wanted:?}");
        }
    }

    #[test]
    fn one_of_the_terms_is_enough_and_all_of_a_term_is_needed() {
        let term =
            |expressions: &[NodeSelectorRequirement], fields: &[NodeSelectorRequirement]| NodeSelectorTerm {
                match_expressions: Some(expressions.to_vec()),
                match_fields: Some(fields.to_vec()),
            };
        let (ssd, hdd) = (requirement("disk", "In", &["ssd"]), requirement("disk", "In", &["hdd"]));
        let here = requirement("metadata.name", "In", &["here"]);
        let there = requirement("metadata.name", "In", &["there"]);
        let ssd = std::slice::from_ref(&ssd);
        let table = [
            (vec![term(ssd, &[])], true),
            (vec![term(&[ssd[0].clone(), hdd.clone()], &[])], false),
            (vec![term(&[hdd], &[]), term(ssd, &[])], true),
            (vec![term(&[], &[])], false),
            (vec![term(ssd, std::slice::from_ref(&here))], true),
            (vec![term(&[], &[there])], false),
            (Vec::new(), false),
        ];
        for (terms, expected) in table {
            let mut pod = testkit::pod("Always", &[], &["c"]);
            pod.spec.as_mut().unwrap().affinity = Some(Affinity {
                node_affinity: Some(NodeAffinity {
                    required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                        node_selector_terms: terms.clone(),
                    }),
                    ..NodeAffinity::default()
                }),
                ..Affinity::default()
            });
            assert_eq!(matches(&pod, "here", &labels()), expected, "{terms:?}");
        }
    }

    #[test]
    fn every_label_of_a_selector_must_be_there() {
        let table: [(&[(&str, &str)], bool); 4] = [
            (&[], true),
            (&[("disk", "ssd")], true),
            (&[("disk", "ssd"), ("kubernetes.io/os", "linux")], true),
            (&[("disk", "ssd"), ("zone", "a")], false),
        ];
        for (selector, expected) in table {
            let mut pod = testkit::pod("Always", &[], &["c"]);
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pod.spec.as_mut().unwrap().node_selector = Some(selector.iter().map(owned).collect());
            assert_eq!(matches(&pod, "here", &labels()), expected, "{selector:?}");
        }
    }
}
