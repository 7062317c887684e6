use std::cell::Cell;
use std::fmt::Write;

use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, SecurityContext, Volume, VolumeMount,
};
use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

use super::*;
use crate::manifest::tree;

/// Asks a type which fields it has.
struct Fields<'a>(&'a Cell<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0.set(fields);
        Err(Error::custom("only the fields were wanted"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields_of<T: for<'de> Deserialize<'de>>() -> Vec<&'static str> {
    let fields = Cell::new(&[][..]);
    assert!(T::deserialize(Fields(&fields)).is_err());
    let mut fields = fields.get().to_vec();
    fields.sort_unstable();
    fields
}

fn tables() -> [(&'static str, Table, Vec<&'static str>); 6] {
    [
        ("PodSpec", POD_SPEC, fields_of::<PodSpec>()),
        ("Container", CONTAINER, fields_of::<Container>()),
        ("PodSecurityContext", POD_SECURITY_CONTEXT, fields_of::<PodSecurityContext>()),
        ("SecurityContext", SECURITY_CONTEXT, fields_of::<SecurityContext>()),
        ("VolumeMount", VOLUME_MOUNT, fields_of::<VolumeMount>()),
        ("Volume", VOLUME, fields_of::<Volume>()),
    ]
}

#[test]
fn every_field_of_kubernetes_is_listed() {
    for (name, table, fields) in tables() {
        let listed: Vec<&str> = table.iter().map(|(field, _)| *field).collect();
        assert_eq!(
            listed, fields,
            "say in fields.rs what becomes of every field of {name}, in the order of names"
        );
    }
}

#[test]
fn the_documentation_has_the_same_lists() {
    let documentation = include_str!("../../../../../docs/pod-fields.md");
    let mut expected = String::new();
    for (name, table, _) in tables() {
        write!(expected, "\n## {name}\n\n| field | | |\n|---|---|---|\n").expect("text");
        for (field, verdict) in table {
            let (verdict, what) = match verdict {
                Works(what) => ("works", what),
                Refused(what) => ("refused", what),
                Ignored(what) => ("ignored, with a warning", what),
            };
            writeln!(expected, "| `{field}` | {verdict} | {what} |").expect("text");
        }
    }
    assert!(documentation.ends_with(&expected), "docs/pod-fields.md should end with:\n{expected}");
}

#[test]
fn what_is_ignored_is_named_once_with_its_line() {
    let text = "spec:\n  nodeSelector: {a: b}\n  affinity: {}\n  tolerations: []\n  schedulerName: default-scheduler\n  setHostnameAsFQDN: false\n  automountServiceAccountToken: false\n  restartPolicy: Never\n  securityContext:\n    seLinuxChangePolicy: Recursive\n    runAsUser: 1\n  initContainers:\n  - resizePolicy: [{resourceName: cpu}]\n  containers:\n  - name: c\n    securityContext:\n      appArmorProfile: {type: Unconfined}\n  volumes:\n  - emptyDir: {sizeLimit: 1Gi}\n  - emptyDir: {sizeLimit: 1Gi, medium: Memory}\n";
    let documents = tree::documents(text).expect("YAML");
    let found: Vec<(u32, String)> = ignored(&documents[0])
        .into_iter()
        .map(|(line, issue)| (line, issue.to_string().split(": ").next().unwrap_or_default().to_owned()))
        .collect();
    let expected = [
        (2, "spec.nodeSelector"),
        (10, "spec.securityContext.seLinuxChangePolicy"),
        (13, "spec.initContainers[0].resizePolicy"),
        (17, "spec.containers[0].securityContext.appArmorProfile"),
        (19, "spec.volumes[0].emptyDir.sizeLimit"),
    ];
    assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
}
