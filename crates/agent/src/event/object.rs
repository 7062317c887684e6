//! Events as objects of the Kubernetes API.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use rubelet_model::UnixNanos;

use super::{COMPONENT, PodEvent};

/// Returns the event of a pod as `kubectl get events` would show it.
#[must_use]
pub fn to_event(event: &PodEvent, pod: &Pod) -> Event {
    let metadata = &pod.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let (first, last) = (time(event.first_seen), time(event.last_seen));
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", event.first_seen.0)),
            namespace: metadata.namespace.clone(),
            creation_timestamp: first.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            field_path: event.container.as_deref().and_then(|container| field_path(pod, container)),
            resource_version: None,
        },
        type_: Some(event.severity.as_str().to_owned()),
        reason: Some(event.reason.to_string()),
        message: Some(event.message.clone()),
        count: Some(i32::try_from(event.count).unwrap_or(i32::MAX)),
        first_timestamp: first,
        last_timestamp: last,
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: node.clone() }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: node,
        ..Event::default()
    }
}

/// Returns the path of a container in its pod: `spec.containers{web}`; `None` for one that is not (or no longer) in the
/// spec.
fn field_path(pod: &Pod, container: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_it = |name: &str| name == container;
    let list = if spec.containers.iter().any(|one| is_it(&one.name)) {
        "containers"
    } else if spec.init_containers.iter().flatten().any(|one| is_it(&one.name)) {
        "initContainers"
    } else if spec.ephemeral_containers.iter().flatten().any(|one| is_it(&one.name)) {
        "ephemeralContainers"
    } else {
        return None;
    };
    Some(format!("spec.{list}{{{container}}}"))
}

/// Converts a time to the API's format, which has whole seconds only.
fn time(at: UnixNanos) -> Option<Time> {
    jiff::Timestamp::from_second(at.0.div_euclid(1_000_000_000)).ok().map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Severity;
    use crate::pod::testkit::pod;

    #[test]
    fn an_event_says_what_it_is_about() {
        let mut pod = pod("Always", &["setup"], &["web"]);
        pod.spec.as_mut().unwrap().node_name = Some("node".to_owned());
        let event = |container: Option<&str>| PodEvent {
            severity: Severity::Warning,
            reason: "BackOff".into(),
            message: "again".to_owned(),
            container: container.map(str::to_owned),
            count: 3,
            first_seen: UnixNanos(1_900_000_000),
            last_seen: UnixNanos(61_000_000_000),
        };
        let table = [
            (None, None),
            (Some("web"), Some("spec.containers{web}")),
            (Some("setup"), Some("spec.initContainers{setup}")),
            (Some("gone"), None),
        ];
        for (container, wanted) in table {
            let event = to_event(&event(container), &pod);
            assert_eq!(event.involved_object.field_path.as_deref(), wanted, "{container:?}");
        }
        let event = serde_json::to_value(to_event(&event(Some("web")), &pod)).unwrap();
        assert_eq!(event["involvedObject"]["kind"], "Pod");
        assert_eq!(event["involvedObject"]["uid"], "uid");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["count"], 3);
        assert_eq!(event["firstTimestamp"], "1970-01-01T00:00:01Z");
        assert_eq!(event["lastTimestamp"], "1970-01-01T00:01:01Z");
        assert_eq!(event["source"], serde_json::json!({"component": "rubelet", "host": "node"}));
    }
}
