use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

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
    ] {
        let error = pod(text).expect_err(text);
        assert_eq!(
            (error.path.as_str(), error.line, error.message.as_str()),
            (path, line, message),
            "{text}"
        );
    }
    let error = pod("spec:\n  priority: 99999999999\n").expect_err("too large");
    assert_eq!((error.path.as_str(), error.line), ("spec.priority", 2));
    let error = pod("metadata:\n  deletionTimestamp: yesterday\n").expect_err("not a time");
    assert_eq!(error.path, "metadata.deletionTimestamp");
}

#[test]
fn text_in_place_of_base64_is_told_with_where_to_put_it_and_not_shown() {
    fn told<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> (String, u32, String) {
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
        wanted("data[k]", "expected a string, found the number 1; put it in quotes")
    );
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
