use std::fmt::Write;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value as Json, json};

use super::shapes::{Types, types_in};
use super::*;
use crate::manifest::{Origin, Problem, Severity, load, tree};
use crate::source::SourceKind;
use Verdict::{Refused, Works};

/// Returns every type of the table once, in the order of first use.
fn listed() -> Vec<&'static Type> {
    fn add(of: &'static Type, all: &mut Vec<&'static Type>) {
        if all.iter().any(|known| known.name == of.name) {
            return;
        }
        all.push(of);
        for (_, verdict) in of.fields {
            if let Parts(inside, _) = verdict {
                add(inside, all);
            }
        }
    }
    let mut all = Vec::new();
    add(&POD_SPEC, &mut all);
    all
}

#[test]
fn every_field_of_kubernetes_is_listed() {
    let types = types_in::<PodSpec>();
    for of in listed() {
        let fields = &types[of.name];
        let names =
            |fields: &[(&'static str, Verdict)]| fields.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(
            names(of.fields),
            fields.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            "say in fields/table.rs what becomes of every field of {}, in the order of names",
            of.name
        );
        for ((field, verdict), (_, shape)) in of.fields.iter().zip(fields) {
            match verdict {
                Parts(inside, _) => assert_eq!(Some(inside.name), shape.part(), "{}.{field}", of.name),
                Works(_) => {
                    assert_eq!(None, shape.part(), "{}.{field} has fields of its own: list them", of.name);
                }
                Refused(_) | Ignored(_) => {}
            }
        }
    }
}

#[test]
fn the_documentation_has_the_same_lists() {
    let documentation = include_str!("../../../../../docs/pod-fields.md");
    let mut expected = String::new();
    for of in listed() {
        write!(expected, "\n## {}\n\n| field | | |\n|---|---|---|\n", of.name).expect("text");
        for (field, verdict) in of.fields {
            let (verdict, what) = match verdict {
                Works(what) => ("works", (*what).to_owned()),
                Parts(inside, "") => ("works", link(inside)),
                Parts(inside, what) => ("works", format!("{what}; {}", link(inside))),
                Refused(what) => ("refused", (*what).to_owned()),
                Ignored(what) => ("ignored, with a warning", (*what).to_owned()),
            };
            writeln!(expected, "| `{field}` | {verdict} | {what} |").expect("text");
        }
    }
    assert!(documentation.ends_with(&expected), "docs/pod-fields.md should end with:\n{expected}");
}

fn link(of: &Type) -> String {
    format!("see [{}](#{})", of.name, of.name.to_lowercase())
}

/// Returns a pod in which a field of the API is set, and the path of that field. The field is found by descending
/// through fields that work.
pub(super) fn with_field(
    types: &Types,
    path: &[(&'static Type, &'static str)],
    value: Json,
) -> (Json, String) {
    let mut shown = "spec".to_owned();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x" },
        "spec": { "containers": [{ "name": "c", "image": "x" }] },
    });
    let mut place = &mut pod["spec"];
    for (index, (of, field)) in path.iter().enumerate() {
        let (_, shape) = types[of.name].iter().find(|(name, _)| name == field).expect("it is listed");
        shown = format!("{shown}.{field}");
        let is_last = index + 1 == path.len();
        if is_last {
            place[*field] = value;
            break;
        }
        if place[*field].is_null() {
            place[*field] = shape.example();
        }
        place = &mut place[*field];
        if place.is_array() {
            shown.push_str("[0]");
            place = &mut place[0];
        }
    }
    (pod, shown)
}

pub(super) fn problems(pod: &Json) -> Vec<Problem> {
    let origin = Origin {
        source: SourceKind::File,
        place: "x.json".to_owned(),
        node_name: "n".to_owned(),
        seen: jiff::Timestamp::default(),
    };
    match load(pod.to_string().as_bytes(), &origin) {
        Ok(manifest) => manifest.warnings,
        Err(problems) => problems,
    }
}

/// Whether a path is that of a field, or of something inside it.
pub(super) fn is_inside(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
}

/// Turns an example into one that asks for something, for types whose plain example does not.
fn asking(example: Json) -> Json {
    if example == json!({}) { json!({ "k": "v" }) } else { example }
}

/// The table is not taken at its word: a pod is made for every field that is declared refused or ignored.
#[test]
fn what_is_said_to_be_refused_is_refused_and_what_is_ignored_is_named() {
    fn check(types: &Types, path: &mut Vec<(&'static Type, &'static str)>, of: &'static Type) -> usize {
        let mut checked = 0;
        for (field, verdict) in of.fields {
            path.push((of, field));
            let severity = match verdict {
                Works(_) => None,
                Parts(inside, _) => {
                    checked += check(types, path, inside);
                    None
                }
                Refused(_) => Some(Severity::Error),
                Ignored(_) => Some(Severity::Warning),
            };
            if let Some(severity) = severity {
                let (_, shape) = types[of.name].iter().find(|(name, _)| name == field).expect("it is listed");
                let (pod, shown) = with_field(types, path, asking(shape.example()));
                let found = problems(&pod);
                // About the field or something inside it; an object that is refused as a whole covers its parts.
                let about = |problem: &&Problem| {
                    let text = problem.issue.to_string();
                    let path = text.split(": ").next().unwrap_or_default();
                    is_inside(path, &shown) || (severity == Severity::Error && is_inside(&shown, path))
                };
                assert!(
                    found.iter().filter(about).any(|problem| problem.severity == severity),
                    "{shown} is not {severity:?}: {pod}\n{found:#?}"
                );
                checked += 1;
            }
            path.pop();
        }
        checked
    }
    assert!(check(&types_in::<PodSpec>(), &mut Vec::new(), &POD_SPEC) > 50);
}

#[test]
fn gates_that_nobody_opens_are_remarked_on() {
    for (gates, wanted) in [("[{conditionType: a/b}]", 1), ("[]", 0)] {
        let text = format!("spec:\n  readinessGates: {gates}\n");
        let documents = tree::documents(&text).expect("YAML");
        let found = ignored(&documents[0]);
        assert_eq!(found.len(), wanted);
        for (line, issue) in found {
            assert_eq!(line, 2);
            assert_eq!(
                issue.to_string(),
                "spec.readinessGates: nothing sets such conditions on a static pod, so it never becomes ready"
            );
        }
    }
}

#[test]
fn a_port_of_the_host_that_leads_nowhere_is_remarked_on() {
    let port = |port: &str| format!("[{{name: c, image: x, ports: [{{containerPort: 1}}, {{{port}}}]}}]");
    for (spec, wanted) in [
        (
            format!("initContainers: {}", port("hostPort: 80")),
            &["spec.initContainers[0].ports[1].hostPort"][..],
        ),
        (format!("initContainers: {}", port("hostPort: 0")), &[]),
        (format!("containers: {}", port("hostPort: 80")), &[]),
        (format!("hostNetwork: true\n  initContainers: {}", port("hostPort: 80")), &[]),
    ] {
        let text = format!("spec:\n  {spec}\n");
        let documents = tree::documents(&text).expect("YAML");
        let found: Vec<String> =
            ignored(&documents[0]).into_iter().map(|(_, issue)| issue.to_string()).collect();
        assert_eq!(found.len(), wanted.len(), "{spec}: {found:?}");
        assert!(found.iter().zip(wanted).all(|(found, path)| found.starts_with(path)), "{found:?}");
    }
}

#[test]
fn what_works_but_hardly_as_meant_is_remarked_on() {
    let memory =
        |amount: &str| format!("containers: [{{resources: {{limits: {{memory: {amount}, cpu: 0.5}}}}}}]");
    let admin = |context: &str| format!("initContainers: [{{securityContext: {{{context}}}}}]");
    for (spec, wanted) in [
        (memory("100m"), &["spec.containers[0].resources.limits[memory]: rounded up to whole bytes"][..]),
        (memory("0.5"), &["spec.containers[0].resources.limits[memory]"]),
        (memory("0.5Gi"), &[]),
        (memory("1000m"), &[]),
        (memory("100M"), &[]),
        (memory("lots"), &[]),
        ("resources: {requests: {memory: 1m}}".to_owned(), &["spec.resources.requests[memory]"]),
        (
            "volumes: [{emptyDir: {medium: Memory, sizeLimit: 1m}}]".to_owned(),
            &["spec.volumes[0].emptyDir.sizeLimit: rounded up to whole bytes"],
        ),
        (
            admin("allowPrivilegeEscalation: false, capabilities: {add: [NET_ADMIN, SYS_ADMIN]}"),
            &[
                "spec.initContainers[0].securityContext.allowPrivilegeEscalation: has no effect: the container has SYS_ADMIN",
            ],
        ),
        (admin("allowPrivilegeEscalation: true, capabilities: {add: [SYS_ADMIN]}"), &[]),
        (admin("allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}"), &[]),
        (admin("allowPrivilegeEscalation: false, capabilities: {drop: [SYS_ADMIN]}"), &[]),
    ] {
        let text = format!("spec:\n  {spec}\n");
        let documents = tree::documents(&text).expect("YAML");
        let found: Vec<String> =
            ignored(&documents[0]).into_iter().map(|(_, issue)| issue.to_string()).collect();
        assert_eq!(found.len(), wanted.len(), "{spec}: {found:?}");
        assert!(found.iter().zip(wanted).all(|(found, begin)| found.starts_with(begin)), "{found:?}");
    }
}

#[test]
fn what_is_ignored_is_named_once_with_its_line() {
    let text = "spec:\n  preemptionPolicy: Never\n  affinity: {podAffinity: {a: b}, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {a: b}}}\n  tolerations: []\n  schedulerName: default-scheduler\n  setHostnameAsFQDN: true\n  automountServiceAccountToken: false\n  restartPolicy: Never\n  securityContext:\n    seLinuxChangePolicy: Recursive\n    runAsUser: 1\n  initContainers:\n  - name: i\n  containers:\n  - name: c\n    securityContext:\n      appArmorProfile: {type: Unconfined}\n    resources: {limits: {cpu: 1, example.com/gpu: 1, ephemeral-storage: 1Gi}, requests: {ephemeral-storage: 1Gi}}\n  volumes:\n  - emptyDir: {sizeLimit: 1Gi}\n  - emptyDir: {sizeLimit: 1Gi, medium: Memory}\n  - emptyDir: {sizeLimit: 1Gi, medium: HugePages-2Mi}\n";
    let documents = tree::documents(text).expect("YAML");
    let found: Vec<(u32, String)> = ignored(&documents[0])
        .into_iter()
        .map(|(line, issue)| (line, issue.to_string().split(": ").next().unwrap_or_default().to_owned()))
        .collect();
    let expected = [
        (2, "spec.preemptionPolicy"),
        (3, "spec.affinity.podAffinity"),
        (10, "spec.securityContext.seLinuxChangePolicy"),
        (20, "spec.volumes[0].emptyDir.sizeLimit"),
        (22, "spec.volumes[2].emptyDir.sizeLimit"),
        (18, "spec.containers[0].resources.limits[example.com/gpu]"),
        (18, "spec.containers[0].resources.limits[ephemeral-storage]"),
    ];
    assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
}
