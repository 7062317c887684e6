use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;
use crate::source::SourceKind;

fn file() -> SourceId {
    SourceId::new(SourceKind::File, "/manifests")
}

fn api() -> SourceId {
    SourceId::new(SourceKind::Api, "https://api")
}

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).expect("a time")
}

fn pod(uid: &str, namespace: &str, name: &str, image: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.namespace = Some(namespace.to_owned());
    pod.metadata.name = Some(name.to_owned());
    let container = Container { name: "c".to_owned(), image: Some(image.to_owned()), ..Container::default() };
    pod.spec = Some(PodSpec { containers: vec![container], ..PodSpec::default() });
    pod
}

fn with_phase(mut pod: Pod, phase: &str) -> Pod {
    pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
    pod
}

fn with(mut pod: Pod, change: impl FnOnce(&mut Pod)) -> Pod {
    change(&mut pod);
    pod
}

/// Returns the differences, as `(operation, UIDs)`.
fn apply(merge: &mut Merge, source: &SourceId, pods: &[Pod]) -> Vec<(Operation, Vec<String>)> {
    let set: Vec<Arc<Pod>> = pods.iter().cloned().map(Arc::new).collect();
    let merged = merge.apply(source, &set);
    assert!(merged.deltas.iter().all(|delta| delta.source == *source));
    assert!(
        merged.deltas.iter().map(|delta| delta.operation).is_sorted(),
        "the order is part of the contract"
    );
    let uids =
        |delta: &Delta| delta.pods.iter().map(|pod| pod.metadata.uid.clone().expect("a UID")).collect();
    merged.deltas.iter().map(|delta| (delta.operation, uids(delta))).collect()
}

fn told(operation: Operation, uids: &[&str]) -> (Operation, Vec<String>) {
    (operation, uids.iter().map(|&uid| uid.to_owned()).collect())
}

#[test]
fn added_updated_removed() {
    let mut merge = Merge::default();
    let old = pod("1", "ns", "web", "a");
    assert_eq!(apply(&mut merge, &file(), std::slice::from_ref(&old)), [told(Operation::Add, &["1"])]);
    assert_eq!(apply(&mut merge, &file(), std::slice::from_ref(&old)), []);
    let new = pod("1", "ns", "web", "b");
    assert_eq!(apply(&mut merge, &file(), &[new]), [told(Operation::Update, &["1"])]);
    assert_eq!(apply(&mut merge, &file(), &[]), [told(Operation::Remove, &["1"])]);
    assert_eq!(apply(&mut merge, &file(), &[]), []);
}

#[test]
fn the_first_empty_set_is_told_once() {
    let mut merge = Merge::default();
    assert_eq!(apply(&mut merge, &file(), &[]), [told(Operation::Add, &[])]);
    assert_eq!(apply(&mut merge, &file(), &[]), []);
    assert_eq!(apply(&mut merge, &api(), &[]), [told(Operation::Add, &[])], "each source for itself");
}

#[test]
fn a_replaced_pod_is_removed_before_the_other_is_added() {
    let mut merge = Merge::default();
    apply(&mut merge, &file(), &[pod("old", "ns", "web", "a")]);
    let replaced = apply(&mut merge, &file(), &[pod("new", "ns", "web", "b")]);
    assert_eq!(replaced, [told(Operation::Remove, &["old"]), told(Operation::Add, &["new"])]);
}

#[test]
fn all_operations_of_one_set_in_their_order() {
    let mut merge = Merge::default();
    let base = |uid: &str| pod(uid, "ns", uid, "a");
    apply(&mut merge, &api(), &["remove", "update", "delete", "reconcile", "same"].map(base));
    let told_now = apply(
        &mut merge,
        &api(),
        &[
            with_phase(base("reconcile"), "Running"),
            with(base("delete"), |pod| pod.metadata.deletion_timestamp = Some(Time(at(9)))),
            pod("update", "ns", "update", "b"),
            base("same"),
            base("add"),
        ],
    );
    assert_eq!(
        told_now,
        [
            told(Operation::Remove, &["remove"]),
            told(Operation::Add, &["add"]),
            told(Operation::Update, &["update"]),
            told(Operation::Delete, &["delete"]),
            told(Operation::Reconcile, &["reconcile"]),
        ]
    );
}

#[test]
fn names_are_unique_within_a_namespace_and_the_first_wins() {
    let mut merge = Merge::default();
    let set: Vec<Arc<Pod>> = [
        pod("1", "ns", "web", "a"),
        pod("2", "other", "web", "a"),
        pod("3", "ns", "web", "a"),
        pod("1", "ns", "another", "a"),
        pod("4", "ns", "another", "a"),
    ]
    .into_iter()
    .map(Arc::new)
    .collect();
    let merged = merge.apply(&file(), &set);
    let added: Vec<_> = merged.deltas[0].pods.iter().map(|pod| pod_ref(pod).to_string()).collect();
    assert_eq!(added, ["ns/web", "other/web", "ns/another"], "one that is refused takes no name");
    let refused: Vec<_> =
        merged.refused.iter().map(|refused| (refused.pod.to_string(), refused.taken)).collect();
    assert_eq!(
        refused,
        [("ns/web".to_owned(), Taken::Name), ("ns/another".to_owned(), Taken::Uid)],
        "by name, and by UID"
    );
}

#[test]
fn who_comes_later_does_not_take_the_place_of_a_known_pod() {
    let web = pod("1", "ns", "web", "a");
    // by its UID, by its name
    for newcomer in [pod("1", "ns", "shop", "a"), pod("2", "ns", "web", "a")] {
        let mut merge = Merge::default();
        apply(&mut merge, &file(), std::slice::from_ref(&web));
        let both = [newcomer.clone(), web.clone()];
        assert_eq!(apply(&mut merge, &file(), &both), [], "{newcomer:?}");
        let set = both.map(Arc::new);
        let refused = merge.apply(&file(), &set).refused;
        let refused: Vec<_> = refused.iter().map(|refused| &refused.pod).collect();
        assert_eq!(refused, [&pod_ref(&newcomer)]);
    }
}

#[test]
fn a_pod_of_another_name_is_another_pod_whatever_its_uid() {
    let mut merge = Merge::default();
    apply(&mut merge, &file(), &[pod("1", "ns", "web", "a"), pod("2", "ns", "db", "a")]);
    let renamed = [pod("1", "ns", "shop", "a"), pod("2", "other", "db", "a")];
    assert_eq!(
        apply(&mut merge, &file(), &renamed),
        [told(Operation::Remove, &["1", "2"]), told(Operation::Add, &["1", "2"])]
    );
    assert_eq!(apply(&mut merge, &file(), &renamed), []);
}

#[test]
fn what_makes_an_update_and_what_does_not() {
    let base = || with_phase(pod("1", "ns", "web", "a"), "Pending");
    let annotate = |key: &'static str, value: &'static str| {
        move |pod: &mut Pod| {
            pod.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        }
    };
    let cases: Vec<(&str, Pod, Option<Operation>)> = vec![
        ("nothing", base(), None),
        ("status", with_phase(base(), "Running"), Some(Operation::Reconcile)),
        ("spec and status", with_phase(pod("1", "ns", "web", "b"), "Running"), Some(Operation::Update)),
        (
            "label",
            with(base(), |pod| pod.metadata.labels = Some([("a".into(), "b".into())].into())),
            Some(Operation::Update),
        ),
        ("annotation", with(base(), annotate("a", "b")), Some(Operation::Update)),
        ("hash", with(base(), annotate(annotation::HASH, "x")), Some(Operation::Update)),
        ("local: source", with(base(), annotate(annotation::SOURCE, "x")), None),
        ("local: seen", with(base(), annotate(annotation::SEEN, "x")), None),
        ("local: mirror", with(base(), annotate(annotation::MIRROR, "x")), None),
        ("empty labels", with(base(), |pod| pod.metadata.labels = Some(BTreeMap::new())), None),
        ("resource version", with(base(), |pod| pod.metadata.resource_version = Some("7".into())), None),
        (
            "grace",
            with(base(), |pod| pod.metadata.deletion_grace_period_seconds = Some(1)),
            Some(Operation::Update),
        ),
        (
            "deletion",
            with(base(), |pod| pod.metadata.deletion_timestamp = Some(Time(at(5)))),
            Some(Operation::Delete),
        ),
    ];
    for (name, changed, expected) in cases {
        let mut merge = Merge::default();
        apply(&mut merge, &api(), &[base()]);
        let told_now = apply(&mut merge, &api(), &[changed]);
        assert_eq!(told_now.first().map(|(operation, _)| *operation), expected, "{name}");
        assert!(told_now.len() <= 1, "{name}");
    }
}

#[test]
fn a_pod_stays_seen_since_its_first_version() {
    let mut merge = Merge::default();
    let seen = |second: u8| [(annotation::SEEN.to_owned(), format!("2023-11-14T22:13:2{second}.000000000Z"))];
    let set =
        [Arc::new(with(pod("1", "ns", "web", "a"), |pod| pod.metadata.annotations = Some(seen(0).into())))];
    let added = merge.apply(&file(), &set);
    let first = &added.deltas[0].pods[0];
    assert!(Arc::ptr_eq(first, &set[0]), "a pod is kept once, however many know it");

    let changed = with(pod("1", "ns", "web", "b"), |pod| {
        pod.metadata.resource_version = Some("9".to_owned());
        pod.metadata.generation = Some(2);
        let mut annotations = BTreeMap::from(seen(9));
        annotations.insert("mine".to_owned(), "x".to_owned());
        pod.metadata.annotations = Some(annotations);
    });
    let updated = merge.apply(&file(), &[Arc::new(changed)]);
    let second = &updated.deltas[0].pods[0];
    assert_eq!(annotation::value(second, annotation::SEEN), annotation::value(first, annotation::SEEN));
    assert_eq!(annotation::value(second, "mine"), Some("x"));
    assert_eq!((second.metadata.generation, second.metadata.resource_version.as_deref()), (Some(2), None));
}

#[test]
fn ready_when_every_source_was_delivered() {
    let mut ready = SourcesReady::new([file(), api()]);
    assert!(!ready.all());
    ready.delivered(&file());
    ready.delivered(&file());
    assert_eq!(ready.missing().collect::<Vec<_>>(), [&api()]);
    ready.delivered(&api());
    assert!(ready.all());
    assert!(SourcesReady::new([]).all());
}

/// Generates sets of a few pods whose names and UIDs sometimes collide.
fn sets() -> impl Strategy<Value = Vec<(bool, Vec<Pod>)>> {
    let pod = (0..4_u8, 0..3_u8, 0..2_u8, 0..3_u8, any::<bool>()).prop_map(
        |(uid, name, namespace, image, deleting)| {
            let mut pod = with_phase(
                pod(
                    &uid.to_string(),
                    &format!("ns{namespace}"),
                    &format!("pod{name}"),
                    &format!("image{image}"),
                ),
                if image == 0 { "Pending" } else { "Running" },
            );
            pod.metadata.deletion_timestamp = deleting.then(|| Time(at(1)));
            pod
        },
    );
    prop::collection::vec((any::<bool>(), prop::collection::vec(pod, 0..6)), 0..12)
}

/// Applies the differences as a reader would.
fn replay(known: &mut BTreeMap<(SourceId, PodUid), Arc<Pod>>, deltas: &[Delta]) {
    for delta in deltas {
        for pod in &delta.pods {
            let key = (delta.source.clone(), pod_ref(pod).uid);
            match delta.operation {
                Operation::Remove => assert!(known.remove(&key).is_some(), "removed what was never there"),
                Operation::Add => assert!(known.insert(key, Arc::clone(pod)).is_none(), "added twice"),
                Operation::Update | Operation::Delete | Operation::Reconcile => {
                    assert!(known.insert(key, Arc::clone(pod)).is_some(), "changed what was never there");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn replaying_the_differences_gives_the_sets(sets in sets()) {
        let mut merge = Merge::default();
        let mut known = BTreeMap::new();
        for (from_api, set) in sets {
            let source = if from_api { api() } else { file() };
            let set: Vec<Arc<Pod>> = set.into_iter().map(Arc::new).collect();
            let before = merge.sources.get(&source).cloned().unwrap_or_default();
            let (wanted, _) = without_duplicates(&set, &before);
            replay(&mut known, &merge.apply(&source, &set).deltas);

            let believed: Vec<&Arc<Pod>> = known.iter().filter(|((of, _), _)| *of == source).map(|(_, pod)| pod).collect();
            prop_assert_eq!(believed.len(), wanted.len());
            for (uid, pod) in wanted {
                let known = &known[&(source.clone(), uid)];
                prop_assert_eq!(&known.spec, &pod.spec);
                prop_assert_eq!(&known.status, &pod.status);
                prop_assert_eq!(&known.metadata.deletion_timestamp, &pod.metadata.deletion_timestamp);
            }
        }
        prop_assert_eq!(merge.sources.values().map(BTreeMap::len).sum::<usize>(), known.len());
    }

    #[test]
    fn the_same_set_again_says_nothing(sets in sets()) {
        let mut merge = Merge::default();
        for (from_api, set) in sets {
            let source = if from_api { api() } else { file() };
            let set: Vec<Arc<Pod>> = set.into_iter().map(Arc::new).collect();
            merge.apply(&source, &set);
            prop_assert_eq!(merge.apply(&source, &set).deltas, vec![]);
        }
    }

    #[test]
    fn the_order_within_a_set_does_not_matter(sets in sets()) {
        let (mut merge, mut backwards) = (Merge::default(), Merge::default());
        let told = |merged: Vec<Delta>| -> Vec<(Operation, BTreeMap<PodUid, Arc<Pod>>)> {
            let by_uid = |delta: Delta| delta.pods.into_iter().map(|pod| (pod_ref(&pod).uid, pod)).collect();
            merged.into_iter().map(|delta| (delta.operation, by_uid(delta))).collect()
        };
        for (from_api, set) in sets {
            let source = if from_api { api() } else { file() };
            // Among pods that claim the same, the first one wins: without duplicates, the order cannot matter.
            let set: Vec<Arc<Pod>> = set.into_iter().map(Arc::new).collect();
            let set: Vec<Arc<Pod>> = without_duplicates(&set, &BTreeMap::new()).0.into_iter().map(|(_, pod)| pod).collect();
            let reversed: Vec<Arc<Pod>> = set.iter().rev().cloned().collect();
            let one = told(merge.apply(&source, &set).deltas);
            prop_assert_eq!(one, told(backwards.apply(&source, &reversed).deltas));
        }
    }

    #[test]
    fn sources_do_not_disturb_each_other(sets in sets()) {
        let of = |source: &SourceId, wanted: bool| {
            let mut merge = Merge::default();
            let mut told = Vec::new();
            for (_, set) in sets.iter().filter(|(from_api, _)| *from_api == wanted) {
                let set: Vec<Arc<Pod>> = set.iter().cloned().map(Arc::new).collect();
                told.extend(merge.apply(source, &set).deltas);
            }
            told
        };
        let mut together = Merge::default();
        let mut told = BTreeMap::<SourceId, Vec<Delta>>::new();
        for (from_api, set) in &sets {
            let source = if *from_api { api() } else { file() };
            let set: Vec<Arc<Pod>> = set.iter().cloned().map(Arc::new).collect();
            told.entry(source.clone()).or_default().extend(together.apply(&source, &set).deltas);
        }
        prop_assert_eq!(told.remove(&api()).unwrap_or_default(), of(&api(), true));
        prop_assert_eq!(told.remove(&file()).unwrap_or_default(), of(&file(), false));
    }
}
