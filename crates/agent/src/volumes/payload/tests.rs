use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapProjection, DownwardAPIProjection, ObjectFieldSelector, Pod, Secret,
    SecretProjection, ServiceAccountTokenProjection,
};

use super::*;
use crate::downward::NodeFacts;
use crate::manifest::{ObjectKey, Objects};

fn objects() -> Objects {
    let map = ConfigMap {
        data: Some([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into()),
        binary_data: Some([("c".to_owned(), ByteString(vec![0, 255]))].into()),
        ..ConfigMap::default()
    };
    let secret =
        Secret { data: Some([("key".to_owned(), ByteString(b"s".to_vec()))].into()), ..Secret::default() };
    Objects {
        config_maps: [(ObjectKey::new("ns", "map"), Arc::new(map))].into(),
        secrets: [(ObjectKey::new("ns", "secret"), Arc::new(secret))].into(),
    }
}

fn with_facts<T>(look: impl FnOnce(&PodFacts<'_>) -> T) -> T {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("ns".to_owned());
    look(&PodFacts { pod: &pod, objects: &objects(), node: &NodeFacts::default(), pod_ips: &[] })
}

fn item(key: &str, path: &str, mode: Option<i32>) -> KeyToPath {
    KeyToPath { key: key.to_owned(), path: path.to_owned(), mode }
}

/// Returns paths with contents and modes.
fn shown(files: Result<Files, VolumeError>) -> Result<Vec<(String, Vec<u8>, u32)>, String> {
    let files = files.map_err(|error| error.to_string())?;
    Ok(files.into_iter().map(|(path, file)| (path, file.content, file.mode)).collect())
}

fn file(path: &str, content: &[u8], mode: u32) -> (String, Vec<u8>, u32) {
    (path.to_owned(), content.to_vec(), mode)
}

#[test]
fn config_maps() {
    let of = |name: &str, items: Option<Vec<KeyToPath>>, optional: bool, mode: Option<i32>| {
        let source = ConfigMapVolumeSource {
            name: name.to_owned(),
            items,
            optional: Some(optional),
            default_mode: mode,
        };
        shown(with_facts(|facts| config_map(&source, facts, &mut Room::of_pod())))
    };
    assert_eq!(
        of("map", None, false, None),
        Ok(vec![file("a", b"1", 0o644), file("b", b"2", 0o644), file("c", &[0, 255], 0o644)])
    );
    assert_eq!(
        of("map", Some(vec![item("a", "./x//y/", Some(0o400)), item("c", "z", None)]), false, Some(0o600)),
        Ok(vec![file("x/y", b"1", 0o400), file("z", &[0, 255], 0o600)])
    );
    assert_eq!(
        of("map", Some(vec![item("q", "x", None)]), false, None),
        Err("configmap references non-existent config key: q".to_owned())
    );
    assert_eq!(of("map", Some(vec![item("q", "x", None)]), true, None), Ok(vec![]));
    assert_eq!(of("none", None, false, None), Err("configmap \"none\" not found".to_owned()));
    assert_eq!(of("none", Some(vec![item("q", "x", None)]), true, None), Ok(vec![]));
}

#[test]
fn secrets() {
    let of = |name: &str, items: Option<Vec<KeyToPath>>, optional: bool| {
        let source = SecretVolumeSource {
            secret_name: Some(name.to_owned()),
            items,
            optional: Some(optional),
            default_mode: Some(0o400),
        };
        shown(with_facts(|facts| secret(&source, facts, &mut Room::of_pod())))
    };
    assert_eq!(of("secret", None, false), Ok(vec![file("key", b"s", 0o400)]));
    assert_eq!(
        of("secret", Some(vec![item("q", "x", None)]), false),
        Err("references non-existent secret key: q".to_owned())
    );
    assert_eq!(of("none", None, false), Err("secret \"none\" not found".to_owned()));
    assert_eq!(of("none", None, true), Ok(vec![]));
}

fn field(path: &str, field: &str) -> DownwardAPIVolumeFile {
    DownwardAPIVolumeFile {
        path: path.to_owned(),
        field_ref: Some(ObjectFieldSelector { field_path: field.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

#[test]
fn projections_come_together_and_the_later_one_stays() {
    let map = ConfigMapProjection {
        name: "map".to_owned(),
        items: Some(vec![item("a", "x", None)]),
        optional: None,
    };
    let secret = SecretProjection {
        name: "secret".to_owned(),
        items: Some(vec![item("key", "y", Some(0o440))]),
        optional: None,
    };
    let downward = DownwardAPIProjection { items: Some(vec![field("x", "metadata.name")]) };
    let of = |sources: Vec<VolumeProjection>| {
        let source = ProjectedVolumeSource { default_mode: Some(0o644), sources: Some(sources) };
        shown(with_facts(|facts| projected(&source, facts, &mut Room::of_pod())))
    };
    let map = VolumeProjection { config_map: Some(map), ..Default::default() };
    let secret = VolumeProjection { secret: Some(secret), ..Default::default() };
    let downward = VolumeProjection { downward_api: Some(downward), ..Default::default() };
    assert_eq!(of(vec![map, secret, downward]), Ok(vec![file("x", b"web", 0o644), file("y", b"s", 0o440)]));
    let missing = |name: &str| {
        let map = ConfigMapProjection { name: name.to_owned(), ..Default::default() };
        VolumeProjection { config_map: Some(map), ..Default::default() }
    };
    let both = of(vec![missing("one"), missing("two")]);
    assert_eq!(both, Err(r#"[configmap "one" not found, configmap "two" not found]"#.to_owned()));
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection::default()),
        ..Default::default()
    };
    let refused = of(vec![token]).expect_err("no tokens here");
    assert!(refused.starts_with("volume type serviceAccountToken is not supported"), "{refused}");
}

#[test]
fn downward_files_are_the_fields() {
    let source = DownwardAPIVolumeSource {
        items: Some(vec![field("n", "metadata.name"), field("./d/e", "metadata.namespace")]),
        default_mode: None,
    };
    let found = shown(with_facts(|facts| downward(&source, facts, &mut Room::of_pod())));
    assert_eq!(found, Ok(vec![file("d/e", b"ns", 0o644), file("n", b"web", 0o644)]));
}

#[test]
fn what_repeats_itself_ends_before_it_fills_the_memory() {
    let map =
        ConfigMap { data: Some([("k".to_owned(), "y".repeat(1 << 20))].into()), ..ConfigMap::default() };
    let objects =
        Objects { config_maps: [(ObjectKey::new("ns", "map"), Arc::new(map))].into(), ..Objects::default() };
    let mut pod = Pod::default();
    pod.metadata.namespace = Some("ns".to_owned());
    pod.metadata.annotations = Some([("a".to_owned(), "y".repeat(256 << 10))].into());
    let facts = PodFacts { pod: &pod, objects: &objects, node: &NodeFacts::default(), pod_ips: &[] };
    let items = |count: usize| Some((0..count).map(|n| item("k", &format!("p{n}"), None)).collect());
    let maps = |count: usize| {
        let source =
            ConfigMapVolumeSource { name: "map".to_owned(), items: items(count), ..Default::default() };
        config_map(&source, &facts, &mut Room::of_pod())
    };
    let projections = |count: usize, of_each: usize| {
        let map = ConfigMapProjection { name: "map".to_owned(), items: items(of_each), optional: None };
        let source = VolumeProjection { config_map: Some(map), ..Default::default() };
        let source = ProjectedVolumeSource { sources: Some(vec![source; count]), default_mode: None };
        projected(&source, &facts, &mut Room::of_pod())
    };
    let fields = |count: usize| {
        let items = (0..count).map(|n| field(&format!("p{n}"), "metadata.annotations")).collect();
        let source = DownwardAPIVolumeSource { items: Some(items), default_mode: None };
        downward(&source, &facts, &mut Room::of_pod())
    };
    let table = [
        ("a key", maps(15), Some(15)),
        ("a key, too often", maps(5000), None),
        ("projections of other paths", projections(3, 5), Some(5)),
        ("projections, too many", projections(5000, 5), None),
        ("a field", fields(63), Some(63)),
        ("a field, too often", fields(5000), None),
    ];
    for (what, files, count) in table {
        match (files, count) {
            (Ok(files), count) => assert_eq!(Some(files.len()), count, "{what}"),
            (Err(error), count) => {
                assert_eq!(count, None, "{what}: {error}");
                let wanted =
                    "the files of this volume take up more than 16 MiB, the most that a volume may have";
                assert_eq!(error.to_string(), wanted, "{what}");
            }
        }
    }
}
