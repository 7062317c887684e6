//! Fields that mean something in a cluster and nothing on a node by itself. They are named once, when a manifest is read:
//! nothing is ignored in silence.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::Issue;

/// What is ignored in a pod as its author wrote it.
pub(super) fn in_pod(pod: &Pod) -> Vec<Issue> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let status =
        pod.status.is_some().then(|| ("status".to_owned(), "ignored: a status is found out, not given"));
    in_spec(spec)
        .map(|(field, what)| (format!("spec.{field}"), what))
        .chain(status)
        .map(|(path, what)| Issue::IgnoredField { path, what })
        .collect()
}

fn in_spec(spec: &PodSpec) -> impl Iterator<Item = (&'static str, &'static str)> {
    const SCHEDULING: &str = "ignored: no scheduler chooses a node for this pod";
    const PRIORITY: &str =
        "ignored: priorities are given by the API server, and a pod of a file is critical to its node";
    fn some<T>(list: &Option<Vec<T>>) -> bool {
        list.as_ref().is_some_and(|list| !list.is_empty())
    }
    [
        ("affinity", spec.affinity.is_some(), SCHEDULING),
        (
            "nodeSelector",
            spec.node_selector.as_ref().is_some_and(|selector| !selector.is_empty()),
            SCHEDULING,
        ),
        (
            "schedulerName",
            spec.scheduler_name.as_ref().is_some_and(|name| name != "default-scheduler"),
            SCHEDULING,
        ),
        ("schedulingGroup", spec.scheduling_group.is_some(), SCHEDULING),
        ("topologySpreadConstraints", some(&spec.topology_spread_constraints), SCHEDULING),
        (
            "nodeName",
            spec.node_name.as_ref().is_some_and(|name| !name.is_empty()),
            "ignored: the pod runs on the node that has its manifest",
        ),
        ("priorityClassName", spec.priority_class_name.is_some(), PRIORITY),
        ("preemptionPolicy", spec.preemption_policy.is_some(), PRIORITY),
        (
            "readinessGates",
            some(&spec.readiness_gates),
            "no controller sets such conditions here, so the pod will never be ready",
        ),
        (
            "automountServiceAccountToken",
            spec.automount_service_account_token == Some(true),
            "ignored: there is no service account, so no token",
        ),
    ]
    .into_iter()
    .filter_map(|(field, given, what)| given.then_some((field, what)))
}
