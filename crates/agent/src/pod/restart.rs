//! Whether a container is started (again).

use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_model::{ContainerState, ContainerStatus};

use super::spec::{self, RestartPolicy};

/// What a rule about exit codes asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleAction {
    Restart,
    RestartAllContainers,
}

/// The first rule of a container that matches an exit code. Rules count only if the container has its own restart
/// policy.
pub(crate) fn matching_rule(container: &Container, exit_code: i32) -> Option<RuleAction> {
    RestartPolicy::of_container(container)?;
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    rules.iter().find_map(|rule| {
        let codes = rule.exit_codes.as_ref()?;
        let is_listed = codes.values.as_deref().unwrap_or_default().contains(&exit_code);
        let matches = match codes.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        match rule.action.as_str() {
            _ if !matches => None,
            "Restart" => Some(RuleAction::Restart),
            "RestartAllContainers" => Some(RuleAction::RestartAllContainers),
            _ => None,
        }
    })
}

/// Whether a container that ended with `exit_code` is started again, by its rules, its policy, or the pod's.
pub(crate) fn restarts_after(pod: &Pod, container: &Container, exit_code: i32) -> bool {
    matching_rule(container, exit_code).is_some()
        || RestartPolicy::effective(pod, container).restarts(exit_code)
}

/// Returns the exit code of an init container as its restart policy sees it. If the kernel killed only one of its
/// processes for lack of memory, the others may have ended with 0 although the container has not done its work.
pub(crate) fn init_exit_code(exit_code: i32, reason: &str) -> i32 {
    const KILLED: i32 = 137;
    if exit_code == 0 && reason == ContainerStatus::OOM_KILLED { KILLED } else { exit_code }
}

/// Whether a container has ended in a way that restarts all containers of its pod.
pub(crate) fn asks_for_all(container: &Container, newest: Option<&ContainerStatus>) -> bool {
    newest.is_some_and(|newest| {
        newest.state == ContainerState::Exited
            && matching_rule(container, newest.exit_code) == Some(RuleAction::RestartAllContainers)
    })
}

/// Whether any container of the pod could ever ask to restart all.
pub(crate) fn could_ask_for_all(pod: &Pod) -> bool {
    spec::all_containers(pod)
        .flat_map(|container| container.restart_policy_rules.iter().flatten())
        .any(|rule| rule.action == "RestartAllContainers")
}

/// Whether a container is to be started, given its newest instance. If it `is_owed` another instance, it is started
/// however it has ended.
pub(super) fn should_start(
    pod: &Pod,
    container: &Container,
    newest: Option<&ContainerStatus>,
    is_owed: bool,
) -> bool {
    if spec::is_being_deleted(pod) {
        return false;
    }
    match newest {
        None => true,
        Some(status) => match status.state {
            ContainerState::Running => false,
            ContainerState::Unknown | ContainerState::Created => true,
            ContainerState::Exited => {
                let is_init = spec::init_containers(pod).iter().any(|own| own.name == container.name);
                let exit_code =
                    if is_init { init_exit_code(status.exit_code, &status.reason) } else { status.exit_code };
                is_owed || restarts_after(pod, container, exit_code)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes, PodSpec};
    use rubelet_model::UnixNanos;

    use super::*;

    fn pod(policy: &str) -> Pod {
        let spec = PodSpec { restart_policy: Some(policy.to_owned()), ..PodSpec::default() };
        Pod { spec: Some(spec), ..Pod::default() }
    }

    fn container(policy: Option<&str>, rules: &[(&str, &str, &[i32])]) -> Container {
        let rules = rules.iter().map(|(action, operator, values)| ContainerRestartRule {
            action: (*action).to_owned(),
            exit_codes: Some(ContainerRestartRuleOnExitCodes {
                operator: (*operator).to_owned(),
                values: Some(values.to_vec()),
            }),
        });
        Container {
            restart_policy: policy.map(str::to_owned),
            restart_policy_rules: Some(rules.collect()),
            ..Container::default()
        }
    }

    fn status(state: ContainerState, exit_code: i32) -> ContainerStatus {
        ContainerStatus {
            id: "id".into(),
            name: "c".into(),
            sandbox: "s".into(),
            attempt: 0,
            state,
            created_at: UnixNanos(1),
            started_at: UnixNanos(1),
            finished_at: UnixNanos(1),
            exit_code,
            reason: "".into(),
            message: "".into(),
            image: "".into(),
            image_ref: "".into(),
            log_path: "".into(),
            hash: None,
            restart_count: 0,
            user: None,
        }
    }

    #[test]
    fn every_state_and_policy_has_its_answer() {
        use ContainerState::{Created, Exited, Running, Unknown};
        // pod policy, container policy, state and exit code → starts?
        let table = [
            ("Never", None, None, true),
            ("Always", None, Some((Running, 0)), false),
            ("Never", None, Some((Unknown, 0)), true),
            ("Never", None, Some((Created, 0)), true),
            ("Always", None, Some((Exited, 0)), true),
            ("Always", None, Some((Exited, 1)), true),
            ("OnFailure", None, Some((Exited, 0)), false),
            ("OnFailure", None, Some((Exited, 1)), true),
            ("Never", None, Some((Exited, 0)), false),
            ("Never", None, Some((Exited, 1)), false),
            ("Never", Some("Always"), Some((Exited, 0)), true),
            ("Never", Some("OnFailure"), Some((Exited, 0)), false),
            ("Never", Some("OnFailure"), Some((Exited, 7)), true),
            ("Always", Some("Never"), Some((Exited, 7)), false),
        ];
        for (of_pod, of_container, state, wanted) in table {
            let status = state.map(|(state, code)| status(state, code));
            let starts =
                |is_owed| should_start(&pod(of_pod), &container(of_container, &[]), status.as_ref(), is_owed);
            assert_eq!(starts(false), wanted, "{of_pod} {of_container:?} {state:?}");
            let has_ended = state.is_some_and(|(state, _)| state == Exited);
            assert_eq!(starts(true), wanted || has_ended, "{of_pod} {of_container:?} {state:?}, owed");
        }
    }

    #[test]
    fn a_deleted_pod_starts_nothing() {
        let mut pod = pod("Always");
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        ));
        assert!(!should_start(&pod, &container(None, &[]), None, true));
    }

    #[test]
    fn the_first_matching_rule_counts_and_only_beside_a_policy() {
        let rules: &[(&str, &str, &[i32])] =
            &[("Restart", "In", &[3, 4]), ("RestartAllContainers", "NotIn", &[0, 5])];
        let with_policy = container(Some("Never"), rules);
        let cases = [
            (3, Some(RuleAction::Restart)),
            (9, Some(RuleAction::RestartAllContainers)),
            (0, None),
            (5, None),
        ];
        for (code, wanted) in cases {
            assert_eq!(matching_rule(&with_policy, code), wanted, "{code}");
            assert_eq!(restarts_after(&pod("Always"), &with_policy, code), wanted.is_some(), "{code}");
            assert_eq!(matching_rule(&container(None, rules), code), None, "{code}");
        }
    }
}
