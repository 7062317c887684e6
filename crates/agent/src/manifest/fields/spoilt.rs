//! Tests values that are never valid, in every field that works, so that a new or overlooked field is checked as well.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value as Json, json};

use super::shapes::{Shape, Types, types_in};
use super::tests::{is_inside, problems, with_field};
use super::*;
use crate::manifest::Severity;
use Verdict::Works;

/// Puts a value into each field that works (if there is one for the shape of the field), and returns the type and the
/// field, with the errors about it. Fields that are declared refused or ignored have their own test.
fn told(value: impl Fn(&Shape) -> Option<Json>) -> Vec<(String, Vec<String>)> {
    type Path = Vec<(&'static Type, &'static str)>;
    fn walk(path: &mut Path, of: &'static Type, found: &mut Vec<Path>) {
        for (field, verdict) in of.fields {
            path.push((of, field));
            match verdict {
                Works(_) => found.push(path.clone()),
                Parts(inside, _) => walk(path, inside, found),
                _ => {}
            }
            path.pop();
        }
    }
    let types: Types = types_in::<PodSpec>();
    let mut paths = Vec::new();
    walk(&mut Vec::new(), &POD_SPEC, &mut paths);
    let mut told = Vec::new();
    for path in paths {
        let (of, field) = *path.last().expect("a field");
        let (_, shape) = types[of.name].iter().find(|(name, _)| *name == field).expect("it is listed");
        let Some(value) = value(shape) else { continue };
        let (pod, shown) = with_field(&types, &path, value);
        let errors = problems(&pod).into_iter().filter(|problem| problem.severity == Severity::Error);
        let errors = errors.map(|problem| problem.issue.to_string());
        let about = errors.filter(|error| {
            let path = error.split(": ").next().unwrap_or_default();
            // An error that forbids a whole object covers its parts.
            is_inside(path, &shown) || (is_inside(&shown, path) && error.contains(": Forbidden: "))
        });
        told.push((format!("{}.{field}", of.name), about.collect()));
    }
    told
}

#[test]
fn an_amount_below_nothing_or_that_is_none_is_refused_everywhere() {
    fn spoilt(shape: &Shape, text: &str) -> Option<Json> {
        match shape {
            Shape::Quantity => Some(json!(text)),
            Shape::Map(item) => spoilt(item, text).map(|amount| json!({ "cpu": amount })),
            Shape::List(item) => spoilt(item, text).map(|amount| json!([amount])),
            _ => None,
        }
    }
    for text in ["-1", "lots"] {
        let told = told(|shape| spoilt(shape, text));
        assert!(told.len() > 5, "{told:?}");
        for (field, errors) in told {
            let wanted = format!("Invalid value: {text:?}");
            assert!(errors.iter().any(|error| error.contains(&wanted)), "{field}: {text}: {errors:?}");
        }
    }
}

/// The fields that take any text.
const FREE: &[&str] = &[
    // Paths: a file may have this name.
    "AppArmorProfile.localhostProfile",
    "Container.terminationMessagePath",
    "Container.workingDir",
    "DownwardAPIVolumeFile.path",
    "KeyToPath.path",
    "SeccompProfile.localhostProfile",
    "VolumeMount.mountPath",
    "VolumeMount.subPath",
    "VolumeMount.subPathExpr",
    // Values for the program in the container.
    "Container.args",
    "Container.command",
    "EnvVar.value",
    "ExecAction.command",
    "GRPCAction.service",
    "HTTPGetAction.path",
    "HTTPHeader.value",
    // Values for the kernel and the runtime, which know what they accept.
    "Capabilities.add",
    "Capabilities.drop",
    "Container.image",
    "SELinuxOptions.level",
    "SELinuxOptions.role",
    "SELinuxOptions.type",
    "SELinuxOptions.user",
    "Sysctl.value",
    // Values that are looked up, and not found.
    "HTTPGetAction.host",
    "KeyToPath.key",
    "LocalObjectReference.name",
    "ResourceFieldSelector.containerName",
    "TCPSocketAction.host",
];

#[test]
fn a_line_break_is_refused_in_whatever_is_not_free_text() {
    const BROKEN: &str = "a\nb";
    fn spoilt(shape: &Shape) -> Option<Json> {
        match shape {
            Shape::Text | Shape::Any => Some(json!(BROKEN)),
            Shape::Map(item) => spoilt(item).map(|text| json!({ "k": text })),
            Shape::List(item) => spoilt(item).map(|text| json!([text])),
            _ => None,
        }
    }
    let told = told(spoilt);
    assert!(told.len() > 50, "{told:?}");
    let taken: BTreeSet<String> =
        told.into_iter().filter(|(_, errors)| errors.is_empty()).map(|(field, _)| field).collect();
    assert_eq!(taken, FREE.iter().map(|field| (*field).to_owned()).collect());
}
