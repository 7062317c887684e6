use super::*;
use crate::manifest::{tree, typed};

/// Returns the pod's spec with its defaults, as JSON.
fn defaulted(spec: &str) -> serde_json::Value {
    let text = format!("metadata: {{name: x}}\nspec: {spec}\n");
    let documents = tree::documents(&text).expect("YAML");
    let (mut pod, unknown) = typed::decode::<Pod>(&documents[0]).expect("a pod");
    assert_eq!(unknown.kept, []);
    super::pod(&mut pod);
    serde_json::to_value(pod.spec).expect("JSON")
}

#[test]
fn a_pod() {
    let spec = defaulted("{containers: []}");
    assert_eq!(
        spec,
        serde_json::json!({
            "containers": [], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "enableServiceLinks": true, "securityContext": {},
        })
    );
    let spec = defaulted(
        "{containers: [], restartPolicy: Never, dnsPolicy: Default, terminationGracePeriodSeconds: 0, enableServiceLinks: false}",
    );
    assert_eq!((&spec["restartPolicy"], &spec["dnsPolicy"]), (&"Never".into(), &"Default".into()));
    assert_eq!(
        (&spec["terminationGracePeriodSeconds"], &spec["enableServiceLinks"]),
        (&0.into(), &false.into())
    );
}

#[test]
fn a_container_and_its_probes() {
    let spec = defaulted(
        "{containers: [{name: c, image: 'x:1', securityContext: {}, ports: [{containerPort: 80}], env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], livenessProbe: {httpGet: {port: 80}, failureThreshold: 7}, startupProbe: {grpc: {port: 1}}, lifecycle: {preStop: {httpGet: {port: 80, path: /x}}}}]}",
    );
    assert_eq!(
        spec["containers"][0],
        serde_json::json!({
            "name": "c", "image": "x:1", "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "securityContext": {"procMount": "Default"},
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "livenessProbe": {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 7,
            },
            "startupProbe": {
                "grpc": {"port": 1, "service": ""},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
            },
            "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/x", "scheme": "HTTP"}}},
        })
    );
}

#[test]
fn pull_policies_follow_the_tag() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("nginx:latest@sha256:abc", "Always"),
        ("nginx:1@sha256:abc", "IfNotPresent"),
    ] {
        let spec = defaulted(&format!(
            "{{containers: [{{name: c, image: '{image}'}}], initContainers: [{{name: i, image: '{image}'}}]}}"
        ));
        assert_eq!(spec["containers"][0]["imagePullPolicy"], policy, "{image}");
        assert_eq!(spec["initContainers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn ports_of_the_host_network_are_those_of_the_host() {
    let spec = defaulted(
        "{hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80}, {containerPort: 81, hostPort: 81}]}]}",
    );
    assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 80);
    assert_eq!(spec["containers"][0]["ports"][1]["hostPort"], 81);
}

#[test]
fn requests_follow_limits() {
    let spec = defaulted(
        "{resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Mi}, requests: {cpu: 500m}}}, {name: d, resources: {}}]}",
    );
    assert_eq!(
        spec["containers"][0]["resources"]["requests"],
        serde_json::json!({"cpu": "500m", "memory": "1Mi"})
    );
    assert_eq!(spec["containers"][1]["resources"], serde_json::json!({}));
}

#[test]
fn a_pod_that_limits_itself_asks_for_what_its_containers_do_else_for_its_limit() {
    let both = "limits: {cpu: 2, memory: 1Gi}";
    let asks = |cpu: &str| format!("{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}");
    let sidecar = "{name: s, restartPolicy: Always, resources: {requests: {cpu: 250m}}}";
    // of the pod, init containers, containers → its requests
    let table = [
        (both, String::new(), "{name: c}".to_owned(), serde_json::json!({"cpu": "2", "memory": "1Gi"})),
        (both, String::new(), asks("500m"), serde_json::json!({"cpu": "500m", "memory": "1Gi"})),
        (both, asks("1500m"), asks("500m"), serde_json::json!({"cpu": "1500m", "memory": "1Gi"})),
        (both, sidecar.to_owned(), asks("500m"), serde_json::json!({"cpu": "750m", "memory": "1Gi"})),
        (
            "limits: {memory: 1Gi}",
            String::new(),
            asks("500m"),
            serde_json::json!({"cpu": "500m", "memory": "1Gi"}),
        ),
        (
            "limits: {cpu: 2}, requests: {cpu: 1}",
            String::new(),
            asks("500m"),
            serde_json::json!({"cpu": "1"}),
        ),
        (
            "limits: {memory: 1Gi}",
            String::new(),
            "{name: c, resources: {requests: {memory: 64Mi}}}, {name: d, resources: {requests: {memory: 64Mi}}}"
                .to_owned(),
            serde_json::json!({"memory": "128Mi"}),
        ),
        ("requests: {cpu: 1}", String::new(), asks("500m"), serde_json::json!({"cpu": "1"})),
    ];
    for (own, init, containers, wanted) in table {
        let spec = defaulted(&format!(
            "{{resources: {{{own}}}, initContainers: [{init}], containers: [{containers}]}}"
        ));
        assert_eq!(spec["resources"]["requests"], wanted, "{own} {init} {containers}");
    }
}

#[test]
fn volumes() {
    let spec = defaulted(
        "{containers: [], volumes: [{name: a}, {name: b, hostPath: {path: /x}}, {name: c, configMap: {name: m}}, {name: d, secret: {secretName: s, defaultMode: 0400}}, {name: e, downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}, {name: f, projected: {sources: [{downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}]}}]}",
    );
    let field =
        serde_json::json!({"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}});
    assert_eq!(
        spec["volumes"],
        serde_json::json!([
            {"name": "a", "emptyDir": {}},
            {"name": "b", "hostPath": {"path": "/x", "type": ""}},
            {"name": "c", "configMap": {"name": "m", "defaultMode": 420}},
            {"name": "d", "secret": {"secretName": "s", "defaultMode": 256}},
            {"name": "e", "downwardAPI": {"defaultMode": 420, "items": [field]}},
            {"name": "f", "projected": {"defaultMode": 420, "sources": [{"downwardAPI": {"items": [field]}}]}},
        ])
    );
}

#[test]
fn amounts_are_written_as_the_api_does() {
    let spec = defaulted(
        "{overhead: {cpu: '0.25'}, resources: {limits: {memory: 1024Mi}}, containers: [{name: c, image: 'x:1', resources: {limits: {cpu: '0.5', memory: 65536Ki}, requests: {cpu: 0.1m}}, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: '0.001'}}}]}], volumes: [{name: v, emptyDir: {sizeLimit: 2048Ki}}, {name: d, downwardAPI: {items: [{path: p, resourceFieldRef: {containerName: c, resource: limits.memory, divisor: 1024Ki}}]}}, {name: w, emptyDir: {sizeLimit: nonsense}}]}",
    );
    for (path, wanted) in [
        ("/overhead/cpu", "250m"),
        ("/resources/limits/memory", "1Gi"),
        ("/containers/0/resources/limits/cpu", "500m"),
        ("/containers/0/resources/limits/memory", "64Mi"),
        ("/containers/0/resources/requests/cpu", "1m"),
        ("/containers/0/resources/requests/memory", "64Mi"),
        ("/containers/0/env/0/valueFrom/resourceFieldRef/divisor", "1m"),
        ("/volumes/0/emptyDir/sizeLimit", "2Mi"),
        ("/volumes/1/downwardAPI/items/0/resourceFieldRef/divisor", "1Mi"),
        ("/volumes/2/emptyDir/sizeLimit", "nonsense"),
    ] {
        assert_eq!(spec.pointer(path), Some(&wanted.into()), "{path}");
    }
}

#[test]
fn huge_pages_of_containers_are_those_of_the_pod() {
    let limits = |resources: &str| {
        let page = |number: u32| {
            format!("{{name: c{number}, image: 'x:1', resources: {{limits: {{hugepages-2Mi: 4Mi}}}}}}")
        };
        let spec = defaulted(&format!("{{{resources} containers: [{}, {}]}}", page(1), page(2)));
        let of = |list: &str| spec["resources"][list]["hugepages-2Mi"].as_str().map(str::to_owned);
        (of("limits"), of("requests"))
    };
    let both = |amount: &str| (Some(amount.to_owned()), Some(amount.to_owned()));
    assert_eq!(limits("resources: {limits: {cpu: 1}},"), both("8Mi"));
    assert_eq!(limits("resources: {requests: {cpu: 1}},"), both("8Mi"));
    assert_eq!(limits("resources: {limits: {hugepages-2Mi: 16Mi}},"), both("16Mi"));
    assert_eq!(limits("resources: {requests: {hugepages-2Mi: 2Mi}},"), (None, Some("2Mi".to_owned())));
    assert_eq!(limits("resources: {},"), (None, None));
    assert_eq!(limits(""), (None, None));
}
