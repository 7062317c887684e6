use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapEnvSource, ConfigMapKeySelector, ObjectFieldSelector, Pod, Secret, SecretEnvSource,
    SecretKeySelector,
};

use super::*;
use crate::downward::NodeFacts;
use crate::manifest::{ObjectKey, Objects};

fn objects() -> Objects {
    let text = [("A", "from map"), ("only.map", "m")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let map = ConfigMap { data: Some(text.into()), ..ConfigMap::default() };
    let secret = |entries: &[(&str, &[u8])]| {
        let data =
            entries.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
        Arc::new(Secret { data: Some(data), ..Secret::default() })
    };
    Objects {
        config_maps: [(ObjectKey::new("ns", "map"), Arc::new(map))].into(),
        secrets: [
            (ObjectKey::new("ns", "secret"), secret(&[("A", b"from secret"), ("S", b"s")])),
            (ObjectKey::new("ns", "binary"), secret(&[("B", &[0xff])])),
        ]
        .into(),
    }
}

fn environment(container: &Container) -> Result<Environment, EnvironmentError> {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("ns".to_owned());
    let facts = PodFacts { pod: &pod, objects: &objects(), node: &NodeFacts::default(), pod_ips: &[] };
    Environment::of(container, &facts)
}

fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn from(name: &str, source: EnvVarSource) -> EnvVar {
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}

fn map_key(name: &str, key: &str, optional: bool) -> EnvVarSource {
    let key = ConfigMapKeySelector { name: name.to_owned(), key: key.to_owned(), optional: Some(optional) };
    EnvVarSource { config_map_key_ref: Some(key), ..Default::default() }
}

fn secret_key(name: &str, key: &str, optional: bool) -> EnvVarSource {
    let key = SecretKeySelector { name: name.to_owned(), key: key.to_owned(), optional: Some(optional) };
    EnvVarSource { secret_key_ref: Some(key), ..Default::default() }
}

fn all_of_map(name: &str, prefix: &str, optional: bool) -> EnvFromSource {
    let reference = ConfigMapEnvSource { name: name.to_owned(), optional: Some(optional) };
    EnvFromSource { config_map_ref: Some(reference), prefix: Some(prefix.to_owned()), secret_ref: None }
}

fn all_of_secret(name: &str, prefix: &str, optional: bool) -> EnvFromSource {
    let reference = SecretEnvSource { name: name.to_owned(), optional: Some(optional) };
    EnvFromSource { secret_ref: Some(reference), prefix: Some(prefix.to_owned()), config_map_ref: None }
}

fn container(env_from: Vec<EnvFromSource>, env: Vec<EnvVar>) -> Container {
    Container { name: "c".to_owned(), env_from: Some(env_from), env: Some(env), ..Container::default() }
}

fn pairs(environment: &Environment) -> Vec<(&str, &str)> {
    environment.iter().collect()
}

#[test]
fn later_ones_win_and_keep_the_first_place() {
    let made = environment(&container(
        vec![
            all_of_map("map", "", false),
            all_of_secret("secret", "", false),
            all_of_map("map", "P_", false),
        ],
        vec![literal("S", "env"), literal("NEW", "n"), literal("NEW", "again"), literal("EMPTY", "")],
    ))
    .expect("an environment");
    assert_eq!(
        pairs(&made),
        [
            ("A", "from secret"),
            ("only.map", "m"),
            ("S", "env"),
            ("P_A", "from map"),
            ("P_only.map", "m"),
            ("NEW", "again"),
            ("EMPTY", ""),
        ]
    );
}

#[test]
fn values_are_expanded_with_what_came_before() {
    let made = environment(&container(
        vec![all_of_map("map", "", false)],
        vec![
            literal("EARLY", "$(LATE)"),
            literal("LATE", "late"),
            literal("BOTH", "$(A)/$(LATE)/$$(A)"),
            from(
                "FIELD",
                EnvVarSource {
                    field_ref: Some(ObjectFieldSelector {
                        field_path: "metadata.name".to_owned(),
                        ..Default::default()
                    }),
                    ..Default::default()
                },
            ),
            literal("USES", "$(FIELD)-$(LATE)"),
        ],
    ))
    .expect("an environment");
    for (name, value) in
        [("EARLY", "$(LATE)"), ("BOTH", "from map/late/$(A)"), ("FIELD", "web"), ("USES", "web-late")]
    {
        assert_eq!(made.get(name), Some(value), "{name}");
    }
    let texts = ["run $(FIELD) $(NOBODY) $$(FIELD)".to_owned()];
    assert_eq!(made.expand_all(&texts).expect("short"), ["run web $(NOBODY) $(FIELD)"]);
}

#[test]
fn values_of_references_are_not_expanded() {
    let source = EnvVarSource {
        config_map_key_ref: Some(ConfigMapKeySelector {
            name: "map".to_owned(),
            key: "only.map".to_owned(),
            optional: None,
        }),
        ..Default::default()
    };
    let made =
        environment(&container(vec![], vec![literal("m", "x"), from("R", source)])).expect("an environment");
    assert_eq!(made.get("R"), Some("m"));
}

#[test]
fn what_is_missing_is_an_error_unless_it_is_optional() {
    let found = |env_from: Vec<EnvFromSource>, env: Vec<EnvVar>| {
        environment(&container(env_from, env))
            .map(|made| made.iter().count())
            .map_err(|error| error.to_string())
    };
    for (env_from, env, expected) in [
        (vec![all_of_map("none", "", true)], vec![], Ok(0)),
        (vec![all_of_map("none", "", false)], vec![], Err("configmap \"none\" not found")),
        (vec![all_of_secret("none", "", true)], vec![], Ok(0)),
        (vec![all_of_secret("none", "", false)], vec![], Err("secret \"none\" not found")),
        (vec![], vec![from("X", map_key("none", "k", true))], Ok(0)),
        (vec![], vec![from("X", map_key("none", "k", false))], Err("configmap \"none\" not found")),
        (vec![], vec![from("X", map_key("map", "k", true))], Ok(0)),
        (vec![], vec![from("X", map_key("map", "k", false))], Err("couldn't find key k in ConfigMap ns/map")),
        (vec![], vec![from("X", map_key("map", "A", false))], Ok(1)),
        (vec![], vec![from("X", secret_key("none", "k", true))], Ok(0)),
        (vec![], vec![from("X", secret_key("none", "k", false))], Err("secret \"none\" not found")),
        (vec![], vec![from("X", secret_key("secret", "k", true))], Ok(0)),
        (
            vec![],
            vec![from("X", secret_key("secret", "k", false))],
            Err("couldn't find key k in Secret ns/secret"),
        ),
        (vec![], vec![from("X", secret_key("secret", "S", false))], Ok(1)),
    ] {
        assert_eq!(found(env_from, env), expected.map_err(str::to_owned));
    }
    let error = environment(&container(vec![], vec![from("X", secret_key("binary", "B", false))]))
        .expect_err("not text");
    assert!(matches!(error, EnvironmentError::NotText { .. }), "{error}");
    let bad = EnvVarSource {
        field_ref: Some(ObjectFieldSelector { field_path: "spec.x".to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let error = environment(&container(vec![], vec![from("X", bad)])).expect_err("no such field");
    assert_eq!(error.to_string(), "variable X: unsupported fieldPath: spec.x");
}

/// Each variable takes twenty bytes, and expands to twice the size of the previous one.
#[test]
fn variables_that_repeat_each_other_do_not_fill_the_memory() {
    let doubling = |count: usize| {
        let twice = |n: usize| literal(&format!("V{n}"), &format!("$(V{0})$(V{0})", n - 1));
        let env = std::iter::once(literal("V0", "0123456789abcdef")).chain((1..count).map(twice));
        environment(&container(vec![], env.collect()))
    };
    let made = doubling(13).expect("64 KiB are fine");
    assert_eq!(made.get("V12").map(str::len), Some(64 << 10));
    assert_eq!(
        doubling(1000).expect_err("too long").to_string(),
        "variable V13 is longer than 128 KiB, the limit for a single string passed to a program; use a file in a \
         volume"
    );
    let repeated = |count: usize| {
        let env = std::iter::once(literal("LONG", &"x".repeat(100 << 10)));
        let copies = (0..count).map(|n| literal(&format!("C{n}"), "$(LONG)"));
        environment(&container(vec![], env.chain(copies).collect()))
    };
    let made = repeated(50).expect("5 MiB are fine");
    assert_eq!(
        repeated(100).expect_err("too much").to_string(),
        "the variables are longer than 6 MiB in total, the limit for what is passed to a program; use files in a \
         volume"
    );
    assert!(made.expand_all(&["$(LONG)".to_owned()]).is_ok());
    assert_eq!(
        made.expand_all(&["a".to_owned(), "$(LONG)$(LONG)".to_owned()]).expect_err("too long"),
        EnvironmentError::TooLong { what: "argument 1".to_owned() }
    );
    assert_eq!(
        made.expand_all(&vec!["$(LONG)".to_owned(); 100]).expect_err("too much"),
        EnvironmentError::TooMuch { what: "the arguments" }
    );
}
