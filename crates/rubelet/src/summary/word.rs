//! The status word of a pod, determined as `kubectl get pods` does.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

/// Returns the word in the column `STATUS` for a pod that is not being ended.
///
/// The reason of the pod as a whole is overridden by its first init container that is not done; once the pod is
/// initialized, that is in turn overridden by its first container that waits or has ended.
pub(super) fn of(pod: &Pod, status: &PodStatus) -> String {
    let reason = status.reason.clone().filter(|reason| !reason.is_empty());
    let of_pod = || reason.or_else(|| status.phase.clone()).unwrap_or_default();
    let of_init = initializing(pod, status).map(|(_, word)| word);
    if of_init.is_some() && !holds(status, "Initialized") {
        return of_init.unwrap_or_default();
    }
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let word = containers.iter().find_map(of_container).or(of_init).unwrap_or_else(of_pod);
    let is_up = |container: &ContainerStatus| {
        container.ready && container.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    match word.as_str() {
        // Some containers have completed, and others keep running.
        "Completed" if containers.iter().any(is_up) => {
            if holds(status, "Ready") { "Running" } else { "NotReady" }.to_owned()
        }
        _ => word,
    }
}

/// Returns the containers whose restarts are counted: until the pod is initialized, its init containers up to the first
/// unfinished one; after that, its sidecars and regular containers.
pub(crate) fn counted<'a>(pod: &Pod, status: &'a PodStatus) -> Vec<&'a ContainerStatus> {
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    let (not_done, so_far) = match initializing(pod, status) {
        Some((index, _)) => (true, &init[..=index]),
        None => (false, init),
    };
    if not_done && !holds(status, "Initialized") {
        return so_far.iter().collect();
    }
    let sidecars = so_far.iter().filter(|container| is_sidecar(pod, &container.name));
    sidecars.chain(status.container_statuses.iter().flatten()).collect()
}

fn is_sidecar(pod: &Pod, name: &str) -> bool {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    init.filter(|init| init.name == name).any(|init| init.restart_policy.as_deref() == Some("Always"))
}

/// Returns the index of the init container that is not done, if any, and a word for the progress of all of them.
fn initializing(pod: &Pod, status: &PodStatus) -> Option<(usize, String)> {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()).map_or(0, Vec::len);
    let statuses = status.init_container_statuses.as_deref().unwrap_or_default();
    let is_done = |init: &ContainerStatus| {
        let ended = init.state.as_ref().and_then(|state| state.terminated.as_ref());
        ended.is_some_and(|ended| ended.exit_code == 0)
            || (is_sidecar(pod, &init.name) && init.started == Some(true))
    };
    let (index, first) = statuses.iter().enumerate().find(|(_, init)| !is_done(init))?;
    let word = match first.state.as_ref() {
        Some(ContainerState { terminated: Some(ended), .. }) => Some(of_end(ended)),
        Some(ContainerState { waiting: Some(waiting), .. }) => {
            waiting.reason.clone().filter(|reason| !reason.is_empty() && reason != "PodInitializing")
        }
        _ => None,
    };
    Some((index, format!("Init:{}", word.unwrap_or_else(|| format!("{index}/{wanted}")))))
}

/// Returns the reason of a container that is not running.
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

    /// In this notation, `-` is running, `+` is running and ready, `*` is running and started, `Reason` waits for it,
    /// `!Reason` ended with it and exit code 1, `.` is done, and `?` is unknown.
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
            // Before any of its containers was created.
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
            // A sidecar that failed after all containers had started matters only if no other container has a reason.
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
    fn restarts_are_counted_as_kubectl_does() {
        // Init containers (`+` and `*` are sidecars) and the regular one, each with its state and restarts.
        type Row<'a> = (&'a [(&'a str, i32)], (&'a str, i32), &'a [&'a str], i32);
        let table: &[Row<'_>] = &[
            (&[], ("+", 2), &["Initialized"], 2),
            (&[("-", 1), ("PodInitializing", 0)], ("PodInitializing", 0), &[], 1),
            (&[(".", 3), ("-", 1)], ("PodInitializing", 0), &[], 4),
            (&[("!Error", 2), ("-", 8)], ("PodInitializing", 0), &[], 2),
            (&[("*", 5), (".", 1)], ("-", 0), &["Initialized"], 5),
            (&[(".", 3), (".", 1)], ("-", 7), &["Initialized"], 7),
            (&[(".", 3), (".", 1)], ("PodInitializing", 0), &[], 0),
            // Initialized stays true when init containers run again.
            (&[(".", 3), ("-", 4)], ("+", 7), &["Initialized"], 7),
        ];
        for (init, (is, restarts), conditions, wanted) in table {
            let counted_state = |name: String, is: &str, restarts: i32| {
                let mut status = state(&name, is);
                status["restartCount"] = json!(restarts);
                status
            };
            let statuses: Vec<Value> = init
                .iter()
                .enumerate()
                .map(|(index, (is, restarts))| counted_state(format!("i{index}"), is, *restarts))
                .collect();
            let specs: Vec<Value> = init
                .iter()
                .enumerate()
                .map(|(index, (is, _))| {
                    let policy = matches!(*is, "+" | "*").then_some("Always");
                    json!({"name": format!("i{index}"), "restartPolicy": policy})
                })
                .collect();
            let conditions: Vec<Value> =
                conditions.iter().map(|name| json!({"type": name, "status": "True"})).collect();
            let pod: Pod = serde_json::from_value(json!({
                "spec": {"initContainers": specs, "containers": [{"name": "c"}]},
                "status": {
                    "conditions": conditions, "initContainerStatuses": statuses,
                    "containerStatuses": [counted_state("c".to_owned(), is, *restarts)],
                },
            }))
            .unwrap();
            let counted = counted(&pod, pod.status.as_ref().unwrap());
            let got: i32 = counted.iter().map(|container| container.restart_count).sum();
            assert_eq!(got, *wanted, "{init:?} {is} {conditions:?}");
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
