//! The texts of descriptions.

use k8s_openapi::api::core::v1::Event;
use serde_json::json;

use super::*;

fn info() -> PodInfo {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-node1", "namespace": "shop", "uid": "0123",
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"kubernetes.io/config.source": "file", "note": "two\nlines"}
        },
        "spec": {
            "nodeName": "node1", "priority": 0, "nodeSelector": {"disk": "ssd"},
            "tolerations": [
                {"operator": "Exists"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "dedicated", "operator": "Equal", "value": "web"}
            ],
            "initContainers": [{
                "name": "setup", "image": "host", "command": ["sh", "-c", "echo one\necho two\n"]
            }],
            "containers": [{
                "name": "web", "image": "web:1", "args": ["--port", "8080"],
                "ports": [{"containerPort": 8080}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}],
                "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "100m"}},
                "livenessProbe": {"httpGet": {"path": "/alive", "port": "http"}, "periodSeconds": 5},
                "readinessProbe": {"exec": {"command": ["cat", "/ready"]}},
                "envFrom": [
                    {"configMapRef": {"name": "settings"}},
                    {"secretRef": {"name": "keys", "optional": true}, "prefix": "KEY_"}
                ],
                "env": [
                    {"name": "COLOR", "value": "blue"},
                    {"name": "EMPTY", "value": ""},
                    {"name": "LINES", "value": "one\ntwo"},
                    {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                    {"name": "DISK", "valueFrom": {"resourceFieldRef": {"resource": "requests.ephemeral-storage"}}},
                    {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "p"}}}
                ],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "conf", "mountPath": "/conf", "readOnly": true, "subPath": "a"}
                ]
            }],
            "volumes": [
                {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "conf", "configMap": {"name": "settings", "optional": true}},
                {"name": "logs", "hostPath": {"path": "/var/log", "type": "Directory"}},
                {"name": "about", "downwardAPI": {"items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                    {"path": "cpus", "resourceFieldRef": {"containerName": "web", "resource": "limits.cpu"}}
                ]}},
                {"name": "all", "projected": {"sources": [
                    {"secret": {"name": "keys", "items": [{"key": "p", "path": "password"}]}},
                    {"configMap": {"name": "settings", "optional": true}},
                    {"downwardAPI": {"items": [{"path": "me", "fieldRef": {"fieldPath": "metadata.name"}}]}}
                ]}}
            ]
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": "2026-08-01T12:00:00Z",
            "hostIP": "192.0.2.1", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}],
            "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-08-01T12:00:02Z"},
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-08-01T12:09:00Z",
                 "reason": "ContainersNotReady", "message": "containers with unready status: [web]"}
            ],
            "initContainerStatuses": [{
                "name": "setup", "image": "host", "imageID": "sha256:1", "ready": true, "restartCount": 0,
                "containerID": "containerd://abc",
                "state": {"terminated": {"exitCode": 0, "reason": "Completed",
                    "startedAt": "2026-08-01T12:00:01Z", "finishedAt": "2026-08-01T12:00:02Z"}}
            }],
            "containerStatuses": [{
                "name": "web", "image": "web:1", "imageID": "sha256:2", "ready": false, "restartCount": 4,
                "containerID": "containerd://def",
                "state": {"waiting": {"reason": "CrashLoopBackOff",
                    "message": "back-off 1m20s restarting failed container=web pod=web-node1_shop(0123)"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "last\nwords",
                    "startedAt": "2026-08-01T12:08:00Z", "finishedAt": "2026-08-01T12:09:00Z"}}
            }]
        }
    });
    let event = |kind: &str, reason: &str, count: i32, first: &str, last: &str, message: &str| -> Event {
        serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {"kind": "Pod", "name": "web-node1"},
            "type": kind, "reason": reason, "count": count, "firstTimestamp": first, "lastTimestamp": last,
            "message": message, "source": {"component": "rubelet", "host": "node1"}
        }))
        .unwrap()
    };
    PodInfo {
        pod: serde_json::from_value(pod).unwrap(),
        stage: "syncing".to_owned(),
        events: vec![
            event(
                "Normal",
                "Pulled",
                1,
                "2026-08-01T12:00:00Z",
                "2026-08-01T12:00:00Z",
                "Container image \"web:1\" already present",
            ),
            event(
                "Warning",
                "BackOff",
                3,
                "2026-08-01T12:07:00Z",
                "2026-08-01T12:09:05Z",
                "Back-off restarting failed container web",
            ),
        ],
    }
}

fn now() -> Zoned {
    let now: jiff::Timestamp = "2026-08-01T12:10:00Z".parse().unwrap();
    now.to_zoned(TimeZone::UTC)
}

#[test]
fn a_pod_that_crashes() {
    insta::assert_snapshot!(told(&info(), &now()));
}

#[test]
fn a_pod_of_which_little_is_known() {
    let mut info = info();
    info.events.clear();
    info.stage = "terminated".to_owned();
    let spec = info.pod.spec.as_mut().unwrap();
    (spec.volumes, spec.init_containers) = (None, None);
    (spec.node_selector, spec.tolerations, spec.priority) = (None, None, None);
    spec.containers = serde_json::from_value(json!([{"name": "web", "image": "web:1"}])).unwrap();
    info.pod.metadata.annotations = None;
    info.pod.status = serde_json::from_value(json!({
        "phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"
    }))
    .unwrap();
    insta::assert_snapshot!(told(&info, &now()));
}

#[test]
fn what_a_container_says_cannot_upset_the_terminal() {
    let rude = "\u{1b}[2J\u{9b}1m\u{7}gone\rhere\n\tand below\n";
    let mut info = info();
    info.pod.metadata.labels = Some([("app".to_owned(), rude.to_owned())].into());
    info.events[0].message = Some(rude.to_owned());
    let status = info.pod.status.as_mut().unwrap();
    status.message = Some(rude.to_owned());
    status.conditions.as_mut().unwrap()[0].message = Some(rude.to_owned());
    let containers = status.container_statuses.as_mut().unwrap();
    containers[0].image_id = rude.to_owned();
    let ended = containers[0].last_state.as_mut().unwrap().terminated.as_mut().unwrap();
    ended.message = Some(rude.to_owned());
    let text = told(&info, &now());
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.contains("gone here\n"), "lines stay lines: {text}");
}
