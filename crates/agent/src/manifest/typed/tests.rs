use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::tree::documents;
use super::*;

fn pod(text: &str) -> Result<(Pod, Bounded<UnknownField>), TypeError> {
    decode(&documents(text).expect("YAML")[0])
}

#[test]
fn a_pod_is_read_whole() {
    let (pod, unknown) = pod("apiVersion: v1\nkind: Pod\nmetadata: {name: web, creationTimestamp: null, labels: {a: b}}\nspec:\n  containers:\n  - name: c\n    image: nginx\n    command:\n    args: [a]\n    ports: [{containerPort: 80}]\n    resources: {limits: {cpu: 1, memory: 0.5, x/y: 64Mi}}\n    livenessProbe: {httpGet: {port: 80}, exec: {command: null}}\n    readinessProbe: {httpGet: {port: web}}\nstatus: {}\n").expect("a pod");
    assert_eq!(unknown.kept, []);
    let container = &pod.spec.as_ref().expect("spec").containers[0];
    assert_eq!(container.command, None);
    let limits =
        container.resources.as_ref().and_then(|resources| resources.limits.as_ref()).expect("limits");
    assert_eq!(
        (limits["cpu"].0.as_str(), limits["memory"].0.as_str(), limits["x/y"].0.as_str()),
        ("1", "0.5", "64Mi")
    );
}

#[test]
fn wrong_types_are_told_with_path_and_line() {
    for (text, path, line, message) in [
        (
            "spec:\n  containers:\n  - name: c\n    env:\n    - name: A\n      value: 1\n",
            "spec.containers[0].env[0].value",
            6,
            "expected a string, found the number 1; put it in quotes",
        ),
        (
            "spec:\n  hostNetwork: \"true\"\n",
            "spec.hostNetwork",
            2,
            "expected a boolean, found the string \"true\"; remove the quotes",
        ),
        ("spec:\n  containers: x\n", "spec.containers", 2, "expected a list, found the string \"x\""),
        ("spec: []\n", "spec", 1, "expected a map, found a list"),
        (
            "metadata:\n  labels:\n    app.x/y: 1\n",
            "metadata.labels[app.x/y]",
            3,
            "expected a string, found the number 1; put it in quotes",
        ),
        (
            "spec:\n  terminationGracePeriodSeconds: '30'\n",
            "spec.terminationGracePeriodSeconds",
            2,
            "expected a number, found the string \"30\"; remove the quotes",
        ),
        (
            "spec:\n  terminationGracePeriodSeconds: 1.5\n",
            "spec.terminationGracePeriodSeconds",
            2,
            "expected a whole number, found the number 1.5",
        ),
        (
            "spec:\n  priority: 4294967296\n",
            "spec.priority",
            2,
            "expected a whole number from -2147483648 to 2147483647, found the number 4294967296",
        ),
        (
            "spec:\n  activeDeadlineSeconds: 9223372036854775808\n",
            "spec.activeDeadlineSeconds",
            2,
            "expected a whole number from -9223372036854775808 to 9223372036854775807, found the number 9223372036854775808",
        ),
        (
            "spec:\n  terminationGracePeriodSeconds: .inf\n",
            "spec.terminationGracePeriodSeconds",
            2,
            "expected a whole number, found the number .inf",
        ),
        (
            "metadata: {labels: {a: -.inf}}\n",
            "metadata.labels[a]",
            1,
            "expected a string, found the number -.inf; put it in quotes",
        ),
        (
            "spec: {overhead: {cpu: true}}\n",
            "spec.overhead[cpu]",
            1,
            "expected a quantity such as 500m or 64Mi, found the boolean true",
        ),
        (
            "spec: {overhead: {cpu: [1]}}\n",
            "spec.overhead[cpu]",
            1,
            "expected a quantity such as 500m or 64Mi, found a list",
        ),
        (
            "spec: {containers: [{livenessProbe: {tcpSocket: {port: 80.5}}}]}\n",
            "spec.containers[0].livenessProbe.tcpSocket.port",
            1,
            "expected a whole number or a string, found the number 80.5",
        ),
        (
            "spec: {containers: [{livenessProbe: {tcpSocket: {port: 8000000000}}}]}\n",
            "spec.containers[0].livenessProbe.tcpSocket.port",
            1,
            "expected a 32-bit integer, found the number 8000000000",
        ),
    ] {
        let error = pod(text).expect_err(text);
        assert_eq!(
            (error.path.as_str(), error.line, error.message.as_str()),
            (path, line, message),
            "{text}"
        );
    }
    let error = pod("metadata:\n  deletionTimestamp: yesterday\n").expect_err("not a time");
    assert_eq!(error.path, "metadata.deletionTimestamp");
}

#[test]
fn whole_numbers_may_be_written_as_others_and_no_amount_is_none() {
    let text = "metadata: {labels: {commit: 123e4567}}\nspec:\n  terminationGracePeriodSeconds: 30.0\n  priority: 3e1\n  activeDeadlineSeconds: 08\n  overhead: {cpu: null, memory: 1e3}\n  containers: [{livenessProbe: {tcpSocket: {port: 8080.0}}}]\n";
    let (pod, _) = pod(text).expect("a pod");
    assert_eq!(pod.metadata.labels.expect("labels")["commit"], "123e4567");
    let spec = pod.spec.expect("a spec");
    assert_eq!(
        (spec.termination_grace_period_seconds, spec.priority, spec.active_deadline_seconds),
        (Some(30), Some(30), Some(8))
    );
    let overhead = spec.overhead.expect("overhead");
    assert_eq!((overhead["cpu"].0.as_str(), overhead["memory"].0.as_str()), ("0", "1000"));
    let probe = spec.containers[0].liveness_probe.as_ref().and_then(|probe| probe.tcp_socket.as_ref());
    assert_eq!(probe.expect("a probe").port, IntOrString::Int(8080));
}

#[test]
fn text_in_place_of_base64_is_told_with_where_to_put_it_and_not_shown() {
    fn told<T: DeserializeOwned + Resource + std::fmt::Debug>(text: &str) -> (String, u32, String) {
        let error = decode::<T>(&documents(text).expect("YAML")[0]).expect_err(text);
        (error.path, error.line, error.message)
    }
    let wanted = |path: &str, message: &str| (path.to_owned(), 2, message.to_owned());
    assert_eq!(
        told::<Secret>("data:\n  k: not secret\n"),
        wanted("data[k]", "must be base64; put plain text under stringData")
    );
    assert_eq!(
        told::<ConfigMap>("binaryData:\n  a: '!'\n"),
        wanted("binaryData[a]", "must be base64; put plain text under data")
    );
    assert_eq!(
        told::<Secret>("data:\n  k: 1\n"),
        wanted("data[k]", "expected a string, found a number; put it in quotes")
    );
}

#[test]
fn nothing_of_a_secret_is_shown() {
    for (text, expected) in [
        ("data: {k: 48151623}", "data[k]: expected a string, found a number; put it in quotes"),
        ("stringData: {k: 48151623}", "stringData[k]: expected a string, found a number; put it in quotes"),
        ("stringData: {k: 0.48151623}", "stringData[k]: expected a string, found a number; put it in quotes"),
        ("stringData: {k: true}", "stringData[k]: expected a string, found a boolean; put it in quotes"),
        ("stringData: {k: [48151623]}", "stringData[k]: expected a string, found a list"),
        ("stringData: '48151623'", "stringData: expected a map, found a string"),
        ("data: 48151623", "data: expected a map, found a number"),
        ("type: 48151623", "type: expected a string, found the number 48151623; put it in quotes"),
    ] {
        let error = decode::<Secret>(&documents(text).expect("YAML")[0]).expect_err(text);
        assert_eq!(format!("{}: {}", error.path, error.message), expected);
    }
}

#[test]
fn base64_may_have_broken_lines() {
    let text = "data:\n  k: |\n    cDRz\n    cw==\n";
    let document = &documents(text).expect("YAML")[0];
    let (secret, _) = decode::<Secret>(document).expect("base64");
    assert_eq!(secret.data.expect("data")["k"].0, b"p4ss");
    let (map, _) = decode::<ConfigMap>(document).expect("text");
    assert_eq!(map.data.expect("data")["k"], "cDRz\ncw==\n", "plain text stays as it is");
}

#[test]
fn unknown_fields_are_named_with_what_may_have_been_meant() {
    let (_, unknown) = pod("metadata: {name: x, label: {}}\nspec:\n  containers:\n  - Image: x\n    imagePullpolicy: Always\n    frobnicate: {a: {b: c}}\n  restartpolicy: Never\nextra: 1\n").expect("a pod");
    let unknown: Vec<_> =
        unknown.kept.iter().map(|field| (field.path.as_str(), field.line, field.meant)).collect();
    assert_eq!(
        unknown,
        [
            ("metadata.label", 1, Some("labels")),
            ("spec.containers[0].Image", 4, Some("image")),
            ("spec.containers[0].imagePullpolicy", 5, Some("imagePullPolicy")),
            ("spec.containers[0].frobnicate", 6, None),
            ("spec.restartpolicy", 7, Some("restartPolicy")),
            ("extra", 8, None),
        ]
    );
}

#[test]
fn what_was_read_and_written_is_read_the_same() {
    let text = "metadata: {name: x, labels: {a: '1'}, creationTimestamp: '2026-11-16T04:00:00Z'}\nspec:\n  containers:\n  - name: c\n    resources: {limits: {cpu: 1.5, memory: 1Gi}}\n    livenessProbe: {httpGet: {port: 80}, periodSeconds: 5}\n    readinessProbe: {tcpSocket: {port: web}}\n    env: [{name: A, value: \"line\\nbreak \\\"quoted\\\" 😀 \\t\"}]\n  securityContext: {runAsUser: 1000, supplementalGroups: [1, 2]}\n";
    let (first, _) = pod(text).expect("a pod");
    let json = serde_json::to_string_pretty(&first).expect("JSON");
    assert_eq!(pod(&json), Ok((first, Bounded::default())));
}
