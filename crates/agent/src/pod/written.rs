//! The annotations of a container for whatever has to end it without its manifest: an agent that finds it, and commands
//! that run without an agent.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, Lifecycle, LifecycleHandler, Pod};
use rubelet_cri::labels;

const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";

/// The annotations, in the kubelet's words.
pub(crate) fn annotations(pod: &Pod, container: &Container) -> [(&'static str, Option<String>); 3] {
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    // API values have no keys that JSON lacks.
    let as_json = |value: serde_json::Result<String>| value.ok();
    [
        (labels::POD_GRACE, grace.map(|grace| grace.to_string())),
        (PRE_STOP, pre_stop(container).and_then(|handler| as_json(serde_json::to_string(handler)))),
        (PORTS, ports.and_then(|ports| as_json(serde_json::to_string(ports)))),
    ]
}

/// The `preStop` hook of a container.
pub(crate) fn pre_stop(container: &Container) -> Option<&LifecycleHandler> {
    container.lifecycle.as_ref()?.pre_stop.as_ref()
}

/// The grace period of the container's pod, in seconds.
pub(crate) fn grace(annotations: &HashMap<String, String>) -> Option<u64> {
    annotations.get(labels::POD_GRACE)?.parse().ok()
}

/// Restores as much of a container as is needed to end it. What cannot be read is left out.
pub(crate) fn container(name: &str, annotations: &HashMap<String, String>) -> Container {
    let pre_stop = annotations.get(PRE_STOP).and_then(|text| {
        let read = serde_json::from_str(text);
        read.inspect_err(|error| {
            tracing::warn!(container = name, %error, "cannot read the preStop hook in a container's annotations");
        })
        .ok()
    });
    Container {
        name: name.to_owned(),
        lifecycle: Some(Lifecycle { pre_stop, ..Lifecycle::default() }),
        ports: annotations.get(PORTS).and_then(|text| serde_json::from_str(text).ok()),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerPort, ExecAction};

    use super::*;
    use crate::pod::testkit;

    #[test]
    fn what_is_written_on_a_container_is_read_from_it() {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        let command = vec!["bye".to_owned()];
        let hook = LifecycleHandler {
            exec: Some(ExecAction { command: Some(command) }),
            ..LifecycleHandler::default()
        };
        let web = &mut pod.spec.as_mut().unwrap().containers[0];
        web.lifecycle = Some(Lifecycle { pre_stop: Some(hook.clone()), ..Lifecycle::default() });
        web.ports = Some(vec![ContainerPort { container_port: 80, ..ContainerPort::default() }]);
        let web = web.clone();
        let written: HashMap<String, String> = annotations(&pod, &web)
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect();
        let read = container("web", &written);
        assert_eq!((pre_stop(&read), &read.ports), (Some(&hook), &web.ports));
        assert_eq!(grace(&written), Some(30));
    }

    #[test]
    fn what_is_not_written_or_damaged_is_not_there() {
        let nothing = container("web", &HashMap::new());
        assert_eq!((pre_stop(&nothing), &nothing.ports), (None, &None));
        let damaged = HashMap::from([(PRE_STOP, "{"), (PORTS, "[{}"), (labels::POD_GRACE, "long")]);
        let damaged = damaged.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        assert_eq!(pre_stop(&container("web", &damaged)), None);
        assert_eq!(grace(&damaged), None);
    }
}
