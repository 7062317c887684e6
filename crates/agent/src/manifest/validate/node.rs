//! On which nodes a pod may run: its node selectors, and what only a scheduler considers.
//!
//! A mistake here could not be recognised as one later: the pod would be refused as one for another node.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Toleration};

use super::report::{Path, Report};
use super::{metadata, names};

pub(super) fn check(spec: &PodSpec, path: &Path, report: &mut Report) {
    metadata::check_labels(spec.node_selector.as_ref(), &path.field("nodeSelector"), report);
    check_affinity(spec, &path.field("affinity").field("nodeAffinity"), report);
    for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
        check_toleration(toleration, &path.field("tolerations").index(index), report);
    }
    report.one_of(
        &path.field("preemptionPolicy"),
        spec.preemption_policy.as_deref(),
        &["PreemptLowerPriority", "Never"],
    );
    for (index, constraint) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        let path = path.field("topologySpreadConstraints").index(index);
        if constraint.max_skew < 1 {
            report.invalid(&path.field("maxSkew"), constraint.max_skew, "must be greater than zero");
        }
        if constraint.topology_key.is_empty() {
            report.required(&path.field("topologyKey"), "can not be empty");
        }
        let when = Some(constraint.when_unsatisfiable.as_str());
        report.one_of(&path.field("whenUnsatisfiable"), when, &["DoNotSchedule", "ScheduleAnyway"]);
    }
}

fn check_affinity(spec: &PodSpec, path: &Path, report: &mut Report) {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let Some(affinity) = affinity else { return };
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = path.field("requiredDuringSchedulingIgnoredDuringExecution").field("nodeSelectorTerms");
        if required.node_selector_terms.is_empty() {
            report.required(&path, "must have at least one node selector term");
        }
        for (index, term) in required.node_selector_terms.iter().enumerate() {
            check_term(term, &path.index(index), report);
            check_label_values(term, &path.index(index), report);
        }
    }
    // Preferred values may be anything, as in the API server.
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    for (index, term) in preferred.enumerate() {
        let path = path.field("preferredDuringSchedulingIgnoredDuringExecution").index(index);
        if !(1..=100).contains(&term.weight) {
            report.invalid(&path.field("weight"), term.weight, "must be in the range 1-100");
        }
        check_term(&term.preference, &path.field("preference"), report);
    }
}

fn check_term(term: &NodeSelectorTerm, path: &Path, report: &mut Report) {
    for (index, wanted) in term.match_expressions.iter().flatten().enumerate() {
        check_expression(wanted, &path.field("matchExpressions").index(index), report);
    }
    for (index, wanted) in term.match_fields.iter().flatten().enumerate() {
        check_field(wanted, &path.field("matchFields").index(index), report);
    }
}

const NO_OPERATOR: &str = "not a valid selector operator";

fn check_expression(wanted: &NodeSelectorRequirement, path: &Path, report: &mut Report) {
    let values = wanted.values.as_deref().unwrap_or_default();
    let at_values = path.field("values");
    match (wanted.operator.as_str(), values) {
        ("In" | "NotIn", []) => {
            report.required(&at_values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        ("Exists" | "DoesNotExist", [_, ..]) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            report.forbidden(&at_values, detail);
        }
        ("Gt" | "Lt", [bound]) => report.check(&at_values.index(0), Some(bound), |bound| {
            let is_number = bound.parse::<i64>().is_ok();
            is_number.then_some(()).ok_or("for 'Gt', 'Lt' operators, the value must be an integer")
        }),
        ("Gt" | "Lt", _) => {
            report.required(&at_values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        ("In" | "NotIn", _) | ("Exists" | "DoesNotExist", []) => {}
        (unknown, _) => report.invalid_text(&path.field("operator"), unknown, NO_OPERATOR),
    }
    report.check(&path.field("key"), Some(&wanted.key), names::qualified);
}

fn check_label_values(term: &NodeSelectorTerm, path: &Path, report: &mut Report) {
    for (index, wanted) in term.match_expressions.iter().flatten().enumerate() {
        let path = path.field("matchExpressions").index(index).field("values");
        for (index, value) in wanted.values.iter().flatten().enumerate() {
            report.check(&path.index(index), Some(value), names::label_value);
        }
    }
}

/// A node can be selected by one field only, its name.
fn check_field(wanted: &NodeSelectorRequirement, path: &Path, report: &mut Report) {
    let values = wanted.values.as_deref().unwrap_or_default();
    let at_values = path.field("values");
    match (wanted.operator.as_str(), values) {
        ("In" | "NotIn", [_]) => {}
        ("In" | "NotIn", _) => report.required(
            &at_values,
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        (unknown, _) => report.invalid_text(&path.field("operator"), unknown, NO_OPERATOR),
    }
    if wanted.key != "metadata.name" {
        report.invalid_text(&path.field("key"), &wanted.key, "not a valid field selector key");
    }
    for (index, value) in values.iter().enumerate() {
        report.check(&at_values.index(index), Some(value), names::dns_subdomain);
    }
}

fn check_toleration(toleration: &Toleration, path: &Path, report: &mut Report) {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (key, operator, effect) =
        (given(&toleration.key), given(&toleration.operator), given(&toleration.effect));
    let at_operator = path.field("operator");
    report.check(&path.field("key"), key.as_deref(), names::qualified);
    if key.is_none() && operator.as_deref() != Some("Exists") {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        report.invalid_text(&at_operator, operator.as_deref().unwrap_or_default(), detail);
    }
    if toleration.toleration_seconds.is_some() && effect.as_deref() != Some("NoExecute") {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        report.invalid_text(&path.field("effect"), effect.as_deref().unwrap_or_default(), detail);
    }
    match (operator.as_deref(), given(&toleration.value)) {
        (None | Some("Equal"), value) => report.check(&at_operator, value.as_deref(), names::label_value),
        (Some("Exists"), Some(value)) => {
            report.invalid_text(&at_operator, &value, "value must be empty when `operator` is 'Exists'");
        }
        (unknown, _) => report.one_of(&at_operator, unknown, &["Equal", "Exists"]),
    }
    let effects = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
    report.one_of(&path.field("effect"), effect.as_deref(), effects);
}

#[cfg(test)]
mod tests {
    use crate::manifest::validate::tests::{check, wrong};

    fn wrong_in_pod(fields: &str) -> Vec<String> {
        let told = wrong(&format!("{{containers: [{{name: c, image: x}}], {fields}}}"));
        let short = |error: String| {
            error.replacen("spec.", "", 1).replacen(
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
                "terms",
                1,
            )
        };
        told.into_iter().map(short).collect()
    }

    fn wrong_terms(terms: &str) -> Vec<String> {
        wrong_in_pod(&format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: {terms}}}}}}}"
        ))
    }

    const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', must start and end with an alphanumeric character, and must be no more than 63 characters (e.g. 'MyName', or 'my.name')";
    const VALUE: &str = "a valid label must be an empty string or consist of no more than 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or '12345')";

    #[test]
    fn what_nodes_are_selected_by() {
        check(
            wrong_in_pod,
            &[
                ("nodeSelector: {kubernetes.io/os: linux, empty: ''}", &[]),
                (
                    "nodeSelector: {'a b': c, d: 'e f'}",
                    &[
                        &format!("nodeSelector: Invalid value: \"a b\": {KEY}"),
                        &format!("nodeSelector[d]: Invalid value: \"e f\": {VALUE}"),
                    ],
                ),
            ],
        );
        check(
            wrong_terms,
            &[
                (
                    "[{}, {matchExpressions: [{key: a, operator: In, values: [b, '']}, {key: a, operator: Exists}, {key: a, operator: Lt, values: ['7']}], matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}]",
                    &[],
                ),
                ("[]", &["terms: Required value: must have at least one node selector term"]),
                (
                    "[{matchExpressions: [{key: a, operator: Inn, values: [b]}, {key: a, operator: NotIn}, {key: a, operator: DoesNotExist, values: [b]}, {key: a, operator: Gt, values: ['1', '2']}, {key: a, operator: Gt, values: [b]}, {key: 'a b', operator: In, values: ['c d']}]}]",
                    &[
                        "terms[0].matchExpressions[0].operator: Invalid value: \"Inn\": not a valid selector operator",
                        "terms[0].matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                        "terms[0].matchExpressions[2].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                        "terms[0].matchExpressions[3].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                        "terms[0].matchExpressions[4].values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
                        &format!("terms[0].matchExpressions[5].key: Invalid value: \"a b\": {KEY}"),
                        &format!("terms[0].matchExpressions[5].values[0]: Invalid value: \"c d\": {VALUE}"),
                    ],
                ),
                (
                    "[{matchFields: [{key: metadata.uid, operator: Exists}, {key: metadata.name, operator: In, values: [a, b]}]}]",
                    &[
                        "terms[0].matchFields[0].operator: Invalid value: \"Exists\": not a valid selector operator",
                        "terms[0].matchFields[0].key: Invalid value: \"metadata.uid\": not a valid field selector key",
                        "terms[0].matchFields[1].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn what_only_a_scheduler_looks_at() {
        check(
            wrong_in_pod,
            &[
                (
                    "tolerations: [{operator: Exists}, {key: a, value: b}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}], preemptionPolicy: Never, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]",
                    &[],
                ),
                (
                    "tolerations: [{key: a, operator: Exist}, {}, {key: a, operator: Exists, value: b}, {key: a, effect: Never, tolerationSeconds: 5}]",
                    &[
                        "tolerations[0].operator: Unsupported value: \"Exist\": supported values: \"Equal\", \"Exists\"",
                        "tolerations[1].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                        "tolerations[2].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
                        "tolerations[3].effect: Invalid value: \"Never\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                        "tolerations[3].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
                    ],
                ),
                (
                    "preemptionPolicy: Always, topologySpreadConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: Wait}]",
                    &[
                        "preemptionPolicy: Unsupported value: \"Always\": supported values: \"PreemptLowerPriority\", \"Never\"",
                        "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                        "topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                        "topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Wait\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                    ],
                ),
                (
                    "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: ['b c']}]}}]}}",
                    &[],
                ),
                (
                    "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {matchExpressions: [{key: a, operator: Is}]}}]}}",
                    &[
                        "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                        "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator",
                    ],
                ),
            ],
        );
    }
}
