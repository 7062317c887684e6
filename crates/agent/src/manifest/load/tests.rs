use super::*;
use crate::manifest::annotation;
use crate::source::SourceKind;

fn origin() -> Origin {
    Origin {
        source: SourceKind::File,
        place: "web.yaml".to_owned(),
        node_name: "Node".to_owned(),
        seen: jiff::Timestamp::default(),
    }
}

fn good(text: &str) -> Manifest {
    load(text.as_bytes(), &origin())
        .unwrap_or_else(|problems| panic!("{text}\n{}", shown(&problems).join("\n")))
}

fn bad(text: &str) -> Vec<String> {
    shown(&load(text.as_bytes(), &origin()).expect_err(text))
}

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::to_string).collect()
}

fn names(manifest: &Manifest) -> Vec<&str> {
    manifest.pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
}

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: c\n    image: host\n";

#[test]
fn a_pod_comes_out_ready_to_run() {
    let manifest = good(POD);
    let pod = &manifest.pods[0];
    assert_eq!(names(&manifest), ["web-node"]);
    assert_eq!(manifest.warnings, []);
    assert_eq!(pod.metadata.uid.as_deref(), annotation::value(pod, annotation::HASH));
    let spec = pod.spec.as_ref().expect("a spec");
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("Always"));
}

#[test]
fn documents_and_lists_of_all_sorts() {
    let text = "\u{feff}---\n# first\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: prod}\ndata: {a: '1'}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\ndata: {a: aGk=, b: eA==}\nstringData: {b: plain}\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: empty, namespace: ''}}\n---\napiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: b}\n  spec: {containers: [{name: c, image: x}]}\n";
    let manifest = good(text);
    assert_eq!(names(&manifest), ["a-node", "b-node"]);
    assert!(manifest.objects.config_map("prod", "conf").is_some());
    assert!(manifest.objects.config_map("default", "other").is_some());
    assert!(manifest.objects.config_map("default", "empty").is_some(), "an empty name is none");
    let secret =
        manifest.objects.secret("default", "key").and_then(|secret| secret.data.as_ref()).expect("a secret");
    assert_eq!((&secret["a"].0[..], &secret["b"].0[..]), (&b"hi"[..], &b"plain"[..]));

    let json = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"j"},"spec":{"containers":[{"name":"c","image":"x"}]}}"#;
    assert_eq!(names(&good(json)), ["j-node"]);
    assert_eq!(
        good("{apiVersion: v1, kind: PodList, items: []}").pods,
        [],
        "an empty list says that there is nothing"
    );
    let none = good(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":null,"more":1}"#,
    );
    assert_eq!(none.pods, [], "as Go writes an empty list");
    assert_eq!(shown(&none.warnings), ["web.yaml:1 (document 1): more: unknown field, ignored"]);
}

#[test]
fn problems_name_file_line_document_object_and_field() {
    let text = format!(
        "{POD}---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: other\nspec:\n  restartPolicy: Sometimes\n  containers:\n  - name: C\n    image: x\n  - name: d\n"
    );
    assert_eq!(
        bad(&text),
        [
            "web.yaml:15 (document 2, Pod default/other-node): spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            "web.yaml:17 (document 2, Pod default/other-node): spec.containers[0].name: Invalid value: \"C\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')",
            "web.yaml:19 (document 2, Pod default/other-node): spec.containers[1].image: Required value",
        ]
    );
    assert_eq!(
        bad(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: c\n    image: x\n    env: [{name: A, value: 1}]\n"
        ),
        [
            "web.yaml:8 (document 1, Pod x): spec.containers[0].env[0].value: expected a string, found the number 1; put it in quotes"
        ]
    );
    assert_eq!(bad("a: [\n"), ["web.yaml:1: unclosed bracket '['"]);
}

#[test]
fn unknown_and_meaningless_fields_are_told_but_do_no_harm() {
    let manifest = good(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  schedulerName: mine\n  restartpolicy: Never\n  containers:\n  - name: c\n    image: x\n",
    );
    assert_eq!(
        shown(&manifest.warnings),
        [
            "web.yaml:6 (document 1, Pod web): spec.restartpolicy: unknown field, ignored; did you mean \
             \"restartPolicy\"?",
            "web.yaml:5 (document 1, Pod default/web): spec.schedulerName: ignored: there is no scheduler; the pod \
             runs on this node",
        ]
    );
}

#[test]
fn other_kinds_are_left_out_with_a_remark_if_there_is_something_else() {
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
    let manifest = good(&format!("{POD}{service}{deployment}"));
    let expected = "is not supported here; a manifest may contain v1 objects of kind Pod, PodList, List, ConfigMap and Secret";
    assert_eq!(
        shown(&manifest.warnings),
        [
            format!("web.yaml:10 (document 2): v1 Service {expected}"),
            format!("web.yaml:14 (document 3): apps/v1 Deployment {expected}")
        ]
    );
    assert_eq!(bad(deployment), [format!("web.yaml:2 (document 1): apps/v1 Deployment {expected}")]);
}

#[test]
fn what_is_not_a_manifest() {
    let kind = "is not supported here; a manifest may contain v1 objects of kind Pod, PodList, List, ConfigMap and \
                Secret";
    for (text, expected) in [
        ("", "web.yaml: contains no document; write a Pod or an empty PodList, or remove it".to_owned()),
        ("# nothing\n---\n", "web.yaml: contains no document; write a Pod or an empty PodList, or remove it".to_owned()),
        ("just text\n", format!("web.yaml:1 (document 1): a document that is not an object {kind}")),
        ("[1, 2]\n", format!("web.yaml:1 (document 1): a document that is not an object {kind}")),
        ("a: 1\n", format!("web.yaml:1 (document 1): a document without apiVersion and kind {kind}")),
        ("kind: Pod\n", format!("web.yaml:1 (document 1): Pod without an apiVersion {kind}")),
        ("apiVersion: v1\nkind: PodList\n", "web.yaml:1 (document 1): items: expected a list".to_owned()),
        ("apiVersion: v1\nkind: List\nitems: {}\n", "web.yaml:3 (document 1): items: expected a list".to_owned()),
        ("apiVersion: v1\nkind: SecretList\nitems: ''\n", "web.yaml:3 (document 1): items: expected a list".to_owned()),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: x}]}\n", "web.yaml:1 (document 1, Pod default/): metadata.name: Required value: invalid pod: name is needed for the pod".to_owned()),
        ("apiVersion: v1\nkind: ConfigMap\n", "web.yaml:1 (document 1, ConfigMap default/): metadata.name: Required \
                                               value: pods refer to it by name".to_owned()),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: ''}\n", "web.yaml:3 (document 1, Secret default/): \
                                                                  metadata.name: Required value: pods refer to it by \
                                                                  name".to_owned()),
    ] {
        assert_eq!(bad(text), [expected], "{text:?}");
    }
    assert_eq!(
        bad("apiVersion: v1\nkind: PodList\nitem: []\n"),
        [
            "web.yaml:3 (document 1): item: unknown field, ignored; did you mean \"items\"?",
            "web.yaml:1 (document 1): items: expected a list",
        ]
    );
    assert!(
        bad(&format!("{POD}---\nkind: Pod\n"))[0].contains("Pod without an apiVersion"),
        "half a document spoils the file"
    );
    let problems = load(&[b'a', 0xff], &origin()).expect_err("not text");
    assert!(problems[0].to_string().starts_with("web.yaml: is not UTF-8 text"), "{problems:?}");
    let problems = load(&vec![b' '; LARGEST_MANIFEST + 1], &origin()).expect_err("too large");
    assert_eq!(shown(&problems), ["web.yaml: is larger than 10 MiB, the limit for a manifest"]);
}

/// If any of these were left out with a remark, the pod that runs from an earlier version of the file would be ended.
#[test]
fn a_slip_in_what_a_document_is_spoils_the_file() {
    let other = "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: other\nspec: {containers: [{name: c, image: x}]}\n";
    for (from, to, expected) in [
        (
            "kind: Pod",
            "kind: pod",
            vec!["web.yaml:2 (document 1): v1 pod is not supported here; did you mean \"Pod\"?"],
        ),
        (
            "kind: Pod",
            "kind: Pdo",
            vec!["web.yaml:2 (document 1): v1 Pdo is not supported here; did you mean \"Pod\"?"],
        ),
        (
            "apiVersion: v1",
            "apiVersion: V1",
            vec![
                "web.yaml:1 (document 1, Pod web): apiVersion: Unsupported value: \"V1\": supported values: \"v1\"",
            ],
        ),
        (
            "apiVersion: v1",
            "apiversion: v1",
            vec![
                "web.yaml:1 (document 1): apiversion: unknown field, ignored; did you mean \"apiVersion\"?",
                "web.yaml:1 (document 1): Pod without an apiVersion is not supported here; a manifest may contain v1 \
                 objects of kind Pod, PodList, List, ConfigMap and Secret",
            ],
        ),
    ] {
        assert_eq!(bad(&format!("{}{other}", POD.replacen(from, to, 1))), expected, "{to}");
    }
}

#[test]
fn two_pods_with_one_uid_spoil_the_file() {
    let with_uid = |name: &str| POD.replacen("name: web", &format!("name: {name}\n  uid: abc"), 1);
    assert_eq!(
        bad(&format!("{}---\n{}", with_uid("a"), with_uid("b"))),
        [
            "web.yaml:15 (document 2, Pod default/b-node): FailedValidation: another pod has the UID abc; this one \
             is ignored"
        ]
    );
}

#[test]
fn of_two_of_a_name_the_first_is_used() {
    let text = format!("{POD}---\n{POD}").replacen("image: host", "image: first", 1);
    let twice = load(text.as_bytes(), &origin()).expect("the first is good");
    assert_eq!(
        shown(&twice.warnings),
        [
            "web.yaml:10 (document 2, Pod default/web-node): FailedValidation: another object has this name; this \
             one is ignored"
        ]
    );
    assert_eq!(twice.warnings[0].severity, Severity::Error, "one pod does not run");
    let images = twice.pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap());
    assert_eq!(images.collect::<Vec<_>>(), ["first"]);

    let map = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{a: {value}}}\n")
    };
    let secret = |value: &str| map(value).replace("ConfigMap", "Secret").replace("\ndata", "\nstringData");
    let twice = [map("one"), map("two"), secret("one"), secret("two")].join("---\n");
    let Manifest { objects, warnings, .. } = load(twice.as_bytes(), &origin()).expect("the first are good");
    assert_eq!(warnings.len(), 2);
    let key = ObjectKey::new("default", "m");
    assert_eq!(objects.config_maps[&key].data.as_ref().unwrap()["a"], "one");
    assert_eq!(objects.secrets[&key].data.as_ref().unwrap()["a"].0, b"one");

    let spoilt = bad(&format!("{POD}---\n{POD}").replacen("image: host", "imagePullPolicy: Sometimes", 1));
    assert!(spoilt.len() > 1, "what is wrong with the first is not the second's fault: {spoilt:?}");
}

#[test]
fn that_a_file_may_be_changed_whatever_it_says_is_told() {
    for kind in ["ConfigMap", "Secret"] {
        let text = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: m}}\nimmutable: true\n");
        let Manifest { warnings, .. } = load(text.as_bytes(), &origin()).expect("it is used");
        let wanted = format!(
            "web.yaml:4 (document 1, {kind} default/m): immutable: ignored: changes to the file are applied all the \
             same"
        );
        assert_eq!(shown(&warnings), [wanted]);
    }
}
