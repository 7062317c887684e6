//! What a pod's status says about its containers' logs: whether more output can follow, and which instance wrote the
//! newest log.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};

/// Whether a container writes no more: its pod has ended, or it has ended itself and will not be restarted.
pub(crate) fn is_over(pod: &Pod, stage: &str, container: &str) -> bool {
    stage == "terminated" || has_ended_for_good(pod, container).unwrap_or(false)
}

/// Whether a container has ended and waits for a restart: then its newest log is that of the previous instance.
pub(crate) fn is_between_instances(pod: &Pod, container: &str) -> bool {
    let status = pod.status.as_ref().and_then(|status| status_of(status, container));
    status.is_some_and(|status| {
        let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        waits && status.last_state.as_ref().is_some_and(|last| last.terminated.is_some())
    })
}

fn status_of<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.find(|one| one.name == container)
}

/// `None` if the pod's status does not say.
fn has_ended_for_good(pod: &Pod, container: &str) -> Option<bool> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    let of_name = |one: &&Container| one.name == container;
    let init = spec.init_containers.iter().flatten().find(of_name);
    let spec_of_it = init.or_else(|| spec.containers.iter().find(of_name))?;
    let Some(ended) = status_of(status, container)?.state.as_ref()?.terminated.as_ref() else {
        return Some(false);
    };
    if spec_of_it.restart_policy_rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
        // Its own restart rules, or those of another container, may restart it.
        return Some(false);
    }
    let policy = spec_of_it.restart_policy.as_deref().or(spec.restart_policy.as_deref());
    Some(match policy.unwrap_or("Always") {
        "Never" => true,
        "OnFailure" => ended.exit_code == 0,
        // An init container that is not a sidecar has done its work.
        _ => init.is_some() && spec_of_it.restart_policy.is_none() && ended.exit_code == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(policy: &str, state: &str) -> Pod {
        serde_json::from_str(&format!(
            "{{\"spec\": {{\"restartPolicy\": \"{policy}\", \"containers\": [{{\"name\": \"c\"}},
                {{\"name\": \"ruled\", \"restartPolicy\": \"Never\", \"restartPolicyRules\": [{{\"action\": \"Restart\"}}]}}],
                \"initContainers\": [{{\"name\": \"i\"}}, {{\"name\": \"s\", \"restartPolicy\": \"Always\"}}]}},
              \"status\": {{\"containerStatuses\": [{0}, {1}], \"initContainerStatuses\": [{2}, {3}]}}}}",
            status("c", state),
            status("ruled", state),
            status("i", state),
            status("s", state),
        ))
        .unwrap()
    }

    fn status(name: &str, state: &str) -> String {
        format!(
            "{{\"name\": \"{name}\", \"image\": \"\", \"imageID\": \"\", \"ready\": false, \"restartCount\": 0,
              \"state\": {{{state}}}}}"
        )
    }

    #[test]
    fn what_ended_for_good_is_over_and_nothing_else() {
        let running = "\"running\": {}";
        let done = "\"terminated\": {\"exitCode\": 0}";
        let failed = "\"terminated\": {\"exitCode\": 1}";
        let waiting = "\"waiting\": {\"reason\": \"CrashLoopBackOff\"}";
        // policy, state → c, ruled, i, s
        let table = [
            ("Always", running, [false, false, false, false]),
            ("Never", waiting, [false, false, false, false]),
            ("Never", done, [true, false, true, false]),
            ("Never", failed, [true, false, true, false]),
            ("OnFailure", done, [true, false, true, false]),
            ("OnFailure", failed, [false, false, false, false]),
            ("Always", done, [false, false, true, false]),
            ("Always", failed, [false, false, false, false]),
        ];
        for (policy, state, wanted) in table {
            let pod = pod(policy, state);
            let found = ["c", "ruled", "i", "s"].map(|name| is_over(&pod, "syncing", name));
            assert_eq!(found, wanted, "{policy} {state}");
            assert!(is_over(&pod, "terminated", "c"));
        }
        assert!(!is_over(&Pod::default(), "pending", "c"));
    }

    #[test]
    fn a_container_that_waits_to_be_started_again_has_a_previous_instance_only() {
        let between = |state: &str, last: &str| {
            let pod = format!(
                "{{\"status\": {{\"containerStatuses\": [{{\"name\": \"c\", \"image\": \"\", \"imageID\": \"\",
                  \"ready\": false, \"restartCount\": 2, \"state\": {{{state}}}, \"lastState\": {{{last}}}}}]}}}}"
            );
            is_between_instances(&serde_json::from_str(&pod).unwrap(), "c")
        };
        let (waiting, running) = ("\"waiting\": {\"reason\": \"CrashLoopBackOff\"}", "\"running\": {}");
        let ended = "\"terminated\": {\"exitCode\": 3}";
        assert!(between(waiting, ended));
        assert!(!between(waiting, ""));
        assert!(!between(running, ended));
        assert!(!between(ended, ended));
    }
}
