//! The one word that tells most of a pod, as `kubectl get pods` finds it.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

/// The word in the column `STATUS` for a pod that is not being ended.
///
/// What was said of the pod as a whole gives way to its first init container that is not done, and that, once the pod is
/// initialised, to its first container that waits or has ended.
pub(super) fn of(pod: &Pod, status: &PodStatus) -> String {
    let reason = status.reason.clone().filter(|reason| !reason.is_empty());
    let of_pod = || reason.or_else(|| status.phase.clone()).unwrap_or_default();
    let of_init = initializing(pod, status);
    if of_init.is_some() && !holds(status, "Initialized") {
        return of_init.unwrap_or_default();
    }
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let word = containers.iter().find_map(of_container).or(of_init).unwrap_or_else(of_pod);
    let is_up = |container: &ContainerStatus| {
        container.ready && container.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    match word.as_str() {
        // Some are done, and others go on.
        "Completed" if containers.iter().any(is_up) => {
            if holds(status, "Ready") { "Running" } else { "NotReady" }.to_owned()
        }
        _ => word,
    }
}

/// How far the init containers have come, if they are not all done.
fn initializing(pod: &Pod, status: &PodStatus) -> Option<String> {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let is_sidecar = |name: &str| {
        wanted.iter().any(|init| init.name == name && init.restart_policy.as_deref() == Some("Always"))
    };
    let statuses = status.init_container_statuses.as_deref().unwrap_or_default();
    let is_done = |init: &ContainerStatus| {
        let ended = init.state.as_ref().and_then(|state| state.terminated.as_ref());
        ended.is_some_and(|ended| ended.exit_code == 0)
            || (is_sidecar(&init.name) && init.started == Some(true))
    };
    let (index, first) = statuses.iter().enumerate().find(|(_, init)| !is_done(init))?;
    let word = match first.state.as_ref() {
        Some(ContainerState { terminated: Some(ended), .. }) => Some(of_end(ended)),
        Some(ContainerState { waiting: Some(waiting), .. }) => {
            waiting.reason.clone().filter(|reason| !reason.is_empty() && reason != "PodInitializing")
        }
        _ => None,
    };
    Some(format!("Init:{}", word.unwrap_or_else(|| format!("{index}/{}", wanted.len()))))
}

/// What a container says that does not run.
fn of_container(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let waits = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
    waits.filter(|reason| !reason.is_empty()).or_else(|| state.terminated.as_ref().map(of_end))
}

fn of_end(ended: &ContainerStateTerminated) -> String {
    match (&ended.reason, ended.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.clone(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", ended.exit_code),
    }
}

fn holds(status: &PodStatus, condition: &str) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().any(|one| one.type_ == condition && one.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// `-` runs, `+` runs and is ready, `*` runs and has started, `Reason` waits for it, `!Reason` ended so with 1,
    /// `.` is done, `?` nothing is known of.
    fn state(name: &str, is: &str) -> Value {
        let state = match is {
            "-" | "+" | "*" => json!({"running": {}}),
            "." => json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
            "?" => json!({}),
            "!" => json!({"terminated": {"exitCode": 1}}),
            "!9" => json!({"terminated": {"exitCode": 137, "signal": 9}}),
            _ => match is.strip_prefix('!') {
                Some(reason) => json!({"terminated": {"exitCode": 1, "reason": reason}}),
                None => json!({"waiting": {"reason": is}}),
            },
        };
        json!({
            "name": name, "image": "i", "imageID": "i", "restartCount": 0, "ready": is == "+",
            "started": matches!(is, "+" | "*"), "state": state,
        })
    }

    fn word(phase: &str, init: &[&str], containers: &[&str], conditions: &[&str]) -> String {
        let statuses = |prefix: &str, all: &[&str]| -> Vec<Value> {
            all.iter().enumerate().map(|(index, is)| state(&format!("{prefix}{index}"), is)).collect()
        };
        let wanted: Vec<Value> = init
            .iter()
            .enumerate()
            .map(|(index, is)| match *is {
                "+" | "*" => json!({"name": format!("i{index}"), "restartPolicy": "Always"}),
                _ => json!({"name": format!("i{index}")}),
            })
            .collect();
        let conditions: Vec<Value> =
            conditions.iter().map(|name| json!({"type": name, "status": "True"})).collect();
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"initContainers": wanted, "containers": []},
            "status": {
                "phase": phase, "conditions": conditions,
                "initContainerStatuses": statuses("i", init), "containerStatuses": statuses("c", containers),
            },
        }))
        .unwrap();
        of(&pod, pod.status.as_ref().unwrap())
    }

    #[test]
    fn words_are_kubectls() {
        let initialized: &[&str] = &["Initialized"];
        let ready: &[&str] = &["Initialized", "Ready"];
        type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str], &'a str);
        let table: &[Row<'_>] = &[
            ("Pending", &[], &[], &[], "Pending"),
            ("Pending", &[], &["ContainerCreating"], initialized, "ContainerCreating"),
            ("Running", &[], &["+"], ready, "Running"),
            ("Running", &[], &["-"], initialized, "Running"),
            ("Running", &[], &["+", "CrashLoopBackOff"], initialized, "CrashLoopBackOff"),
            ("Running", &[], &["!Error", "ErrImagePull"], initialized, "Error"),
            ("Running", &[], &["!"], initialized, "ExitCode:1"),
            ("Running", &[], &["!9"], initialized, "Signal:9"),
            ("Running", &[], &["!OOMKilled"], initialized, "OOMKilled"),
            ("Succeeded", &[], &["."], initialized, "Completed"),
            ("Running", &[], &[".", "+"], ready, "Running"),
            ("Running", &[], &[".", "+"], initialized, "NotReady"),
            ("Running", &[], &[".", "-"], initialized, "Completed"),
            // Before anything of it was made.
            ("Pending", &["PodInitializing", "PodInitializing"], &["PodInitializing"], &[], "Init:0/2"),
            ("Pending", &["-", "PodInitializing"], &["PodInitializing"], &[], "Init:0/2"),
            ("Pending", &[".", "-"], &["PodInitializing"], &[], "Init:1/2"),
            ("Pending", &["*", "-"], &["PodInitializing"], &[], "Init:1/2"),
            ("Pending", &[".", "ImagePullBackOff"], &["PodInitializing"], &[], "Init:ImagePullBackOff"),
            ("Pending", &["!Error"], &["PodInitializing"], &[], "Init:Error"),
            ("Pending", &["!"], &["PodInitializing"], &[], "Init:ExitCode:1"),
            ("Pending", &["!9"], &["PodInitializing"], &[], "Init:Signal:9"),
            ("Pending", &["."], &["PodInitializing"], initialized, "PodInitializing"),
            ("Running", &[".", "+"], &["+"], ready, "Running"),
            // A sidecar that broke after all had begun says so only where nobody else says anything.
            ("Running", &["CrashLoopBackOff"], &["!Error"], initialized, "Error"),
            ("Running", &["CrashLoopBackOff"], &["+"], initialized, "Init:CrashLoopBackOff"),
            ("Failed", &["!Error"], &["PodInitializing"], &[], "Init:Error"),
        ];
        for (phase, init, containers, conditions, wanted) in table {
            let got = word(phase, init, containers, conditions);
            assert_eq!(got, *wanted, "{phase} {init:?} {containers:?} {conditions:?}");
        }
    }

    #[test]
    fn what_is_said_of_the_pod_counts_where_its_containers_say_nothing() {
        let status = PodStatus {
            phase: Some("Failed".to_owned()),
            reason: Some("OutOfcpu".to_owned()),
            ..PodStatus::default()
        };
        assert_eq!(of(&Pod::default(), &status), "OutOfcpu");
    }
}
