//! Pods from lists: every entry is in the right pod, and none is lost.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rubelet_model::{ContainerState, SandboxState, UnixNanos};

use super::*;

fn sandbox<'a>(id: &'a str, uid: &'a str) -> SandboxEntry<'a> {
    SandboxEntry {
        id,
        pod_uid: uid,
        pod_namespace: "ns",
        pod_name: "pod",
        selectable: !uid.is_empty(),
        attempt: 0,
        state: SandboxState::Ready,
        created_at: UnixNanos(1),
        damaged: false,
    }
}

fn container<'a>(id: &'a str, sandbox: &'a str, uid: &'a str) -> ContainerEntry<'a> {
    ContainerEntry {
        id,
        sandbox,
        name: "web",
        pod_uid: uid,
        pod_namespace: "label-ns",
        pod_name: "label-pod",
        attempt: 0,
        state: ContainerState::Running,
        created_at: UnixNanos(1),
        damaged: false,
    }
}

fn pods(sandboxes: &[SandboxEntry<'_>], containers: &[ContainerEntry<'_>]) -> Vec<RuntimePod> {
    let (mut all_sandboxes, mut all_containers) = (SandboxList::default(), ContainerList::default());
    sandboxes.iter().for_each(|entry| all_sandboxes.push(*entry));
    containers.iter().for_each(|entry| all_containers.push(*entry));
    let mut pods = assemble(&all_sandboxes, &all_containers).pods;
    pods.sort_by(|a, b| a.pod.uid.cmp(&b.pod.uid));
    pods
}

/// `key namespace/name [sandboxes] [containers] selectable?`
fn shown(pods: &[RuntimePod]) -> Vec<String> {
    let show = |pod: &RuntimePod| {
        let sandboxes: Vec<&str> = pod.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
        let containers: Vec<&str> = pod.containers.iter().map(|container| container.id.as_str()).collect();
        let PodRef { uid, namespace, name } = &pod.pod;
        format!("{uid} {namespace}/{name} {sandboxes:?} {containers:?} {}", pod.selectable)
    };
    pods.iter().map(show).collect()
}

#[test]
fn containers_go_with_their_sandbox() {
    let pods = pods(
        &[sandbox("s1", "u1"), sandbox("s2", "u2")],
        &[container("c2", "s2", "u2"), container("c1", "s1", "u1"), container("c3", "s1", "u1")],
    );
    assert_eq!(shown(&pods), [r#"u1 ns/pod ["s1"] ["c1", "c3"] true"#, r#"u2 ns/pod ["s2"] ["c2"] true"#]);
}

#[test]
fn the_sandbox_counts_more_than_the_label_but_then_a_filter_does_not_find_all() {
    let pods = pods(&[sandbox("s1", "u1")], &[container("c1", "s1", "other"), container("c2", "s1", "")]);
    assert_eq!(shown(&pods), [r#"u1 ns/pod ["s1"] ["c1", "c2"] false"#]);
}

#[test]
fn without_its_sandbox_a_container_goes_by_label_then_by_sandbox_id_then_alone() {
    let pods = pods(
        &[sandbox("s1", "u1")],
        &[
            container("c1", "gone", "u1"),
            container("c2", "gone", "u2"),
            container("c3", "gone", ""),
            container("c4", "gone", ""),
            container("c5", "", ""),
        ],
    );
    assert_eq!(
        shown(&pods),
        [
            r#"c5 label-ns/label-pod [] ["c5"] false"#,
            r#"gone label-ns/label-pod [] ["c3", "c4"] false"#,
            r#"u1 ns/pod ["s1"] ["c1"] true"#,
            r#"u2 label-ns/label-pod [] ["c2"] true"#,
        ]
    );
}

#[test]
fn a_damaged_container_whose_pod_cannot_be_told_counts_as_unreadable() {
    let unreadable = |entry: ContainerEntry<'_>| {
        let (mut sandboxes, mut containers) = (SandboxList::default(), ContainerList::default());
        sandboxes.push(sandbox("s1", "u1"));
        containers.push(entry);
        assemble(&sandboxes, &containers).unreadable
    };
    let damaged = |sandbox, uid| ContainerEntry { damaged: true, ..container("c", sandbox, uid) };
    assert_eq!(unreadable(damaged("gone", "")), 1, "its label may have named the pod");
    assert_eq!(unreadable(damaged("gone", "u1")), 0);
    assert_eq!(unreadable(damaged("s1", "")), 0);
    assert_eq!(unreadable(container("c", "gone", "")), 0, "not damaged: it has no label");
}

#[test]
fn a_pod_made_by_hand_goes_by_the_id_of_its_sandbox() {
    let pods = pods(&[sandbox("s1", "")], &[container("c1", "s1", "")]);
    assert_eq!(shown(&pods), [r#"s1 ns/pod ["s1"] ["c1"] false"#]);
}

#[test]
fn sandboxes_of_one_pod_come_newest_first() {
    let newer = SandboxEntry { attempt: 1, ..sandbox("s2", "u") };
    let pods = pods(&[sandbox("s1", "u"), newer], &[]);
    assert_eq!(shown(&pods), [r#"u ns/pod ["s2", "s1"] [] true"#]);
}

#[test]
fn what_is_listed_twice_is_there_once_as_it_was_shown_last() {
    let ended = ContainerEntry { state: ContainerState::Exited, ..container("c1", "s1", "u") };
    let pods = pods(
        &[sandbox("s1", "u"), sandbox("s1", "u")],
        &[container("c1", "s1", "u"), container("c2", "s1", "u"), ended],
    );
    assert_eq!(shown(&pods), [r#"u ns/pod ["s1"] ["c1", "c2"] true"#]);
    assert_eq!(pods[0].containers[0].state, ContainerState::Exited);
}

#[test]
fn lists_of_different_connections_are_told_apart() {
    let at = |sandbox_epoch, container_epoch| {
        let (mut sandboxes, mut containers) = (SandboxList::default(), ContainerList::default());
        (sandboxes.epoch, sandboxes.unreadable) = (sandbox_epoch, 1);
        (containers.epoch, containers.unreadable) = (container_epoch, 2);
        let listing = assemble(&sandboxes, &containers);
        assert_eq!(listing.unreadable, 3);
        listing.epoch
    };
    assert_eq!((at(4, 4), at(4, 5)), (Some(4), None));
}

fn word() -> impl Strategy<Value = &'static str> {
    select(&["", "a", "b", "c"][..])
}

proptest! {
    #[test]
    fn nothing_is_lost_whatever_the_order(
        sandboxes in vec((word(), word(), word(), any::<bool>()), 0..6),
        containers in vec((word(), word(), word(), word()), 0..8),
    ) {
        // Ids are unique, so that each thing is listed once.
        let sandbox_ids: Vec<String> = (0..sandboxes.len()).map(|n| ["a", "b", "c", "d", "e", "f"][n].to_owned()).collect();
        let container_ids: Vec<String> = (0..containers.len()).map(|n| format!("c{n}")).collect();
        let mut sandboxes: Vec<SandboxEntry<'_>> = sandboxes
            .iter()
            .zip(&sandbox_ids)
            .map(|((uid, namespace, name, selectable), id)| SandboxEntry {
                pod_namespace: namespace,
                pod_name: name,
                selectable: *selectable && !uid.is_empty(),
                ..sandbox(id, uid)
            })
            .collect();
        let mut containers: Vec<ContainerEntry<'_>> = containers
            .iter()
            .zip(&container_ids)
            .map(|((sandbox, uid, namespace, name), id)| ContainerEntry {
                pod_namespace: namespace,
                pod_name: name,
                ..container(id, sandbox, uid)
            })
            .collect();
        let forwards = pods(&sandboxes, &containers);
        sandboxes.reverse();
        containers.reverse();
        prop_assert_eq!(&forwards, &pods(&sandboxes, &containers));

        let mut seen: Vec<&str> = forwards.iter().flat_map(|pod| pod.sandboxes.iter().map(|found| found.id.as_str())).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, sandbox_ids);
        let mut seen: Vec<&str> = forwards.iter().flat_map(|pod| pod.containers.iter().map(|found| found.id.as_str())).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, container_ids);
        for pod in &forwards {
            prop_assert!(!pod.is_empty() && !pod.pod.uid.as_str().is_empty());
        }
        let mut keys: Vec<&PodUid> = forwards.iter().map(|pod| &pod.pod.uid).collect();
        keys.dedup();
        prop_assert_eq!(keys.len(), forwards.len());
    }
}
