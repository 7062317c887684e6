//! Changes of config maps, secrets and pod fields reach the files of a running container without a restart; files
//! mounted by `subPath` stay as they are.

use crate::node::{Node, restarts, text};

fn manifest(node: &Node, colour: &str, tier: &str, key: &str) -> String {
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{{key}: {colour}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: password}}
stringData: {{password: {colour}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: reader
  uid: 11111111-2222-3333-4444-555555555555
  labels: {{tier: {tier}}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: host
    imagePullPolicy: IfNotPresent
    command: [sleep, \"{}\"]
    volumeMounts:
    - {{name: settings, mountPath: /settings}}
    - {{name: settings, mountPath: /one, subPath: colour}}
    - {{name: password, mountPath: /password}}
    - {{name: facts, mountPath: /facts}}
    - {{name: all, mountPath: /all}}
  volumes:
  - name: settings
    configMap: {{name: settings}}
  - name: password
    secret: {{secretName: password, defaultMode: 0400}}
  - name: facts
    downwardAPI: {{items: [{{path: labels, fieldRef: {{fieldPath: metadata.labels}}}}]}}
  - name: all
    projected: {{sources: [{{configMap: {{name: settings}}}}, {{secret: {{name: password}}}}]}}
",
        node.seconds(1)
    )
}

#[test]
fn files_change_while_the_pod_runs() {
    let Some(node) = Node::start() else { return };
    node.write("reader.yaml", &manifest(&node, "green", "front", "colour"));
    node.until_phase("reader", "Running");
    let pid = node.sleeper(1);
    let read = |file: &str| text(&node.ask(&["exec", "reader-n", "--", "cat", file])).1;
    assert_eq!((read("/settings/colour"), read("/one")), ("green".to_owned(), "green".to_owned()));
    assert_eq!(
        (read("/password/password"), read("/facts/labels")),
        ("green".to_owned(), "tier=\"front\"".to_owned())
    );

    node.write("reader.yaml", &manifest(&node, "blue", "back", "colour"));
    for (file, expected) in [
        ("/settings/colour", "blue"),
        ("/password/password", "blue"),
        ("/facts/labels", "tier=\"back\""),
        ("/all/colour", "blue"),
        ("/all/password", "blue"),
    ] {
        node.until(&format!("{file} is {expected}"), || read(file) == expected);
    }
    assert_eq!(read("/one"), "green", "a file by subPath stays as it was");

    // With another key, the old file disappears in the same step in which the new one appears.
    node.write("reader.yaml", &manifest(&node, "red", "back", "shade"));
    node.until("the new key", || read("/settings/shade") == "red");
    assert_eq!(text(&node.ask(&["exec", "reader-n", "--", "ls", "/settings"])).1, "shade\n");
    assert_eq!((restarts(&node.until_phase("reader", "Running")), node.sleepers(1)), (0, vec![pid]));
}
