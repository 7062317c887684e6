use proptest::prelude::*;
use rubelet_model::UnixNanos;

use super::*;

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Some pods are named like a sandbox, some have no name.
const UIDS: [&str; 6] = ["", "u", "v", "w", "a", "b"];

/// What a runtime fixes when it creates things: the pod of each sandbox, and the sandbox and label of each container.
#[derive(Clone, Debug)]
struct Made {
    sandboxes: [&'static str; 5],
    containers: [(&'static str, &'static str); 5],
}

/// What a list shows: which things, and their states.
type Shown = (Vec<(usize, SandboxState)>, Vec<(usize, ContainerState)>);

fn made() -> impl Strategy<Value = Made> {
    let uid = || prop::sample::select(&UIDS[..]);
    let sandbox = || prop_oneof![9 => prop::sample::select(&IDS[..]), 1 => Just("")];
    (prop::array::uniform5(uid()), prop::array::uniform5((sandbox(), uid())))
        .prop_map(|(sandboxes, containers)| Made { sandboxes, containers })
}

fn shown() -> impl Strategy<Value = Shown> {
    use ContainerState::{Exited, Running};
    let sandbox = prop_oneof![
        8 => Just(SandboxState::Ready), 1 => Just(SandboxState::NotReady), 1 => Just(SandboxState::Unknown)
    ];
    let container = prop_oneof![8 => Just(Running), 1 => Just(Exited), 1 => Just(ContainerState::Unknown)];
    (
        prop::collection::vec((0..IDS.len(), sandbox), 0..8),
        prop::collection::vec((0..IDS.len(), container), 0..8),
    )
}

/// An unknown state stands for an entry that could not be read completely.
fn lists(made: &Made, shown: &Shown) -> (SandboxList, ContainerList) {
    let (mut sandboxes, mut containers) = <(SandboxList, ContainerList)>::default();
    for &(n, state) in &shown.0 {
        sandboxes.push(SandboxEntry {
            id: IDS[n],
            pod_uid: made.sandboxes[n],
            pod_namespace: "ns",
            pod_name: made.sandboxes[n],
            selectable: true,
            attempt: 0,
            state,
            created_at: UnixNanos(7),
            damaged: state == SandboxState::Unknown,
        });
    }
    for &(n, state) in &shown.1 {
        let (sandbox, pod_uid) = made.containers[n];
        containers.push(ContainerEntry {
            id: IDS[n],
            sandbox,
            name: "main",
            pod_uid,
            pod_namespace: "ns",
            pod_name: pod_uid,
            attempt: 0,
            state,
            created_at: UnixNanos(7),
            damaged: state == ContainerState::Unknown,
        });
    }
    (sandboxes, containers)
}

fn by_uid(pods: impl IntoIterator<Item = RuntimePod>) -> Vec<RuntimePod> {
    let mut pods: Vec<RuntimePod> = pods.into_iter().collect();
    pods.sort_by(|a, b| a.pod.uid.cmp(&b.pod.uid));
    pods
}

proptest! {
    /// Whatever was listed before, the result has the pods that the lists alone would give, and counts as many
    /// unreadable entries. Things may come and go, be listed twice, lack their sandbox, or name another pod than their
    /// sandbox does.
    #[test]
    fn what_is_shared_is_what_would_be_made(made in made(), history in prop::collection::vec(shown(), 1..8)) {
        let mut known = Known::default();
        for shown in &history {
            // Twice, so that there is something to share.
            for _ in 0..2 {
                let (sandboxes, containers) = lists(&made, shown);
                let shared = known.assemble(&sandboxes, &containers);
                let alone = rubelet_cri::assemble(&sandboxes, &containers);
                prop_assert_eq!(shared.unreadable, alone.unreadable);
                prop_assert_eq!(by_uid(shared.pods.iter().map(|pod| RuntimePod::clone(pod))), by_uid(alone.pods));
            }
        }
    }
}

#[test]
fn an_unchanged_pod_is_the_same_value_and_a_changed_one_is_not() {
    let made = Made {
        sandboxes: ["u", "v", "w", "", ""],
        containers: [("a", "u"), ("b", "v"), ("", ""), ("", ""), ("", "")],
    };
    let mut known = Known::default();
    let mut pod = |uid: &str, states: [ContainerState; 2]| {
        let shown =
            (vec![(0, SandboxState::Ready), (1, SandboxState::Ready)], vec![(0, states[0]), (1, states[1])]);
        let (sandboxes, containers) = lists(&made, &shown);
        let pods = known.assemble(&sandboxes, &containers).pods;
        pods.into_iter().find(|pod| pod.pod.uid.as_str() == uid).unwrap()
    };
    use ContainerState::{Exited, Running};
    let first = pod("u", [Running, Running]);
    let other_changed = pod("u", [Running, Exited]);
    assert!(Arc::ptr_eq(&first, &other_changed));
    let changed = pod("u", [Exited, Exited]);
    assert_eq!(changed.containers[0].state, Exited);
    assert!(Arc::ptr_eq(&changed, &pod("u", [Exited, Running])));
}

/// Otherwise the container would seem to have been removed from its pod.
#[test]
fn a_damaged_container_that_names_neither_pod_nor_listed_sandbox_is_counted_as_unreadable() {
    let made = Made { sandboxes: ["u", "v", "", "", ""], containers: [("b", ""); 5] };
    let shown = (vec![(0, SandboxState::Ready)], vec![(0, ContainerState::Unknown)]);
    let (sandboxes, containers) = lists(&made, &shown);
    let mut known = Known::default();
    for sharing in ["nothing", "what was listed before"] {
        assert_eq!(known.assemble(&sandboxes, &containers).unreadable, 1, "sharing {sharing}");
    }
}
