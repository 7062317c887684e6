//! Lists from the wire: the same as by way of whole messages, wherever the bytes are cut and whatever is wrong with
//! them.

use std::collections::HashMap;

use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use prost::Message as _;
use rubelet_model::{ContainerState, SandboxState, UnixNanos};

use super::*;
use crate::lean::{container_state, sandbox_state};
use crate::{ContainerEntry, ContainerList, SandboxEntry, SandboxList, labels, v1};

/// The gRPC frame of a message.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

/// Reads an answer that arrives in pieces of the given sizes, and the rest in one piece.
fn read<L: Lean>(answer: &[u8], pieces: &[usize]) -> Result<(L, usize), BadAnswer> {
    let mut intake = Intake::new(L::default(), usize::MAX);
    let mut rest = answer;
    for size in pieces {
        let (piece, later) = rest.split_at((*size).min(rest.len()));
        intake.take(piece)?;
        rest = later;
    }
    intake.take(rest)?;
    intake.finish()
}

fn containers(answer: &[u8]) -> ContainerList {
    read(&framed(answer), &[]).unwrap().0
}

fn sandboxes(answer: &[u8]) -> SandboxList {
    read(&framed(answer), &[]).unwrap().0
}

/// An answer that consists of entries which are already encoded.
fn answer_of(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut answer = Vec::new();
    for entry in entries {
        prost::encoding::bytes::encode(1, entry, &mut answer);
    }
    answer
}

fn label<'a>(labels: &'a HashMap<String, String>, key: &str) -> &'a str {
    labels.get(key).map_or("", String::as_str)
}

fn or<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}

/// The expected list, by way of whole messages.
fn straightforward_containers(messages: &[v1::Container]) -> ContainerList {
    let mut list = ContainerList::default();
    for message in messages {
        if message.id.is_empty() {
            list.unreadable += 1;
            continue;
        }
        let metadata = message.metadata.clone().unwrap_or_default();
        list.push(ContainerEntry {
            id: &message.id,
            sandbox: &message.pod_sandbox_id,
            name: or(&metadata.name, label(&message.labels, labels::CONTAINER_NAME)),
            pod_uid: label(&message.labels, labels::POD_UID),
            pod_namespace: label(&message.labels, labels::POD_NAMESPACE),
            pod_name: label(&message.labels, labels::POD_NAME),
            attempt: metadata.attempt,
            state: container_state(message.state),
            created_at: UnixNanos(message.created_at),
            damaged: false,
        });
    }
    list
}

fn straightforward_sandboxes(messages: &[v1::PodSandbox]) -> SandboxList {
    let mut list = SandboxList::default();
    for message in messages {
        if message.id.is_empty() {
            list.unreadable += 1;
            continue;
        }
        let metadata = message.metadata.clone().unwrap_or_default();
        let uid_label = label(&message.labels, labels::POD_UID);
        let pod_uid = or(&metadata.uid, uid_label);
        list.push(SandboxEntry {
            id: &message.id,
            pod_uid,
            pod_namespace: or(&metadata.namespace, label(&message.labels, labels::POD_NAMESPACE)),
            pod_name: or(&metadata.name, label(&message.labels, labels::POD_NAME)),
            selectable: !pod_uid.is_empty() && uid_label == pod_uid,
            attempt: metadata.attempt,
            state: sandbox_state(message.state),
            created_at: UnixNanos(message.created_at),
            damaged: false,
        });
    }
    list
}

fn same_containers(a: &ContainerList, b: &ContainerList) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.iter().collect::<Vec<_>>(), b.iter().collect::<Vec<_>>());
    prop_assert_eq!(a.unreadable, b.unreadable);
    Ok(())
}

fn same_sandboxes(a: &SandboxList, b: &SandboxList) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.iter().collect::<Vec<_>>(), b.iter().collect::<Vec<_>>());
    prop_assert_eq!(a.unreadable, b.unreadable);
    Ok(())
}

fn texts() -> impl Strategy<Value = HashMap<String, String>> {
    const KEYS: &[&str] = &[
        labels::POD_UID,
        labels::POD_NAME,
        labels::POD_NAMESPACE,
        labels::CONTAINER_NAME,
        "app",
        "",
        "io.k",
    ];
    hash_map(select(KEYS).prop_map(str::to_owned), ".{0,12}", 0..6)
}

prop_compose! {
    fn container()(
        id in ".{0,8}",
        sandbox in ".{0,8}",
        metadata in prop::option::of((".{0,8}", any::<u32>())),
        image in prop::option::of(".{0,8}"),
        state in prop_oneof![-1..6, any::<i32>()],
        created_at in any::<i64>(),
        labels in texts(),
        annotations in texts(),
    ) -> v1::Container {
        v1::Container {
            id,
            pod_sandbox_id: sandbox,
            metadata: metadata.map(|(name, attempt)| v1::ContainerMetadata { name, attempt }),
            image: image.map(|image| v1::ImageSpec { image, ..Default::default() }),
            image_ref: "sha256:0".to_owned(),
            state,
            created_at,
            labels,
            annotations,
            image_id: String::new(),
        }
    }
}

prop_compose! {
    fn sandbox()(
        id in ".{0,8}",
        metadata in prop::option::of((".{0,8}", "[a-c]{0,1}", ".{0,8}", any::<u32>())),
        state in prop_oneof![-1..3, any::<i32>()],
        created_at in any::<i64>(),
        mut labels in texts(),
        uid in prop::option::of("[a-c]{0,1}"),
        annotations in texts(),
    ) -> v1::PodSandbox {
        if let Some(uid) = uid {
            labels.insert(labels::POD_UID.to_owned(), uid);
        }
        v1::PodSandbox {
            id,
            metadata: metadata
                .map(|(name, uid, namespace, attempt)| v1::PodSandboxMetadata { name, uid, namespace, attempt }),
            state,
            created_at,
            labels,
            annotations,
            runtime_handler: "runc".to_owned(),
        }
    }
}

proptest! {
    #[test]
    fn containers_are_read_as_through_whole_messages(
        messages in vec(vec(container(), 0..6), 0..4),
        pieces in vec(0usize..40, 0..60),
    ) {
        let answer: Vec<u8> = messages
            .iter()
            .flat_map(|containers| framed(&v1::ListContainersResponse { containers: containers.clone() }.encode_to_vec()))
            .collect();
        let (list, count) = read::<ContainerList>(&answer, &pieces).unwrap();
        prop_assert_eq!(count, messages.len());
        same_containers(&list, &straightforward_containers(&messages.concat()))?;
    }

    #[test]
    fn sandboxes_are_read_as_through_whole_messages(
        messages in vec(vec(sandbox(), 0..6), 0..4),
        pieces in vec(0usize..40, 0..60),
    ) {
        let answer: Vec<u8> = messages
            .iter()
            .flat_map(|items| framed(&v1::ListPodSandboxResponse { items: items.clone() }.encode_to_vec()))
            .collect();
        let (list, count) = read::<SandboxList>(&answer, &pieces).unwrap();
        prop_assert_eq!(count, messages.len());
        same_sandboxes(&list, &straightforward_sandboxes(&messages.concat()))?;
    }

    #[test]
    fn nothing_upsets_it_and_cuts_make_no_difference(
        answer in vec(prop_oneof![any::<u8>(), 0u8..20], 0..300),
        pieces in vec(0usize..20, 0..40),
    ) {
        // Raw bytes, and bytes in a valid frame.
        for answer in [answer.clone(), framed(&answer)] {
            let whole = read::<ContainerList>(&answer, &[]);
            match (whole, read::<ContainerList>(&answer, &pieces)) {
                (Ok((whole, _)), Ok((cut, _))) => same_containers(&whole, &cut)?,
                (whole, cut) => prop_assert_eq!(whole.err(), cut.err()),
            }
            let _ = read::<SandboxList>(&answer, &pieces);
        }
    }

    #[test]
    fn a_broken_entry_costs_no_other(
        good in vec(container(), 1..6),
        victim in any::<Index>(),
        garbage in vec(any::<u8>(), 0..60),
        at in any::<Index>(),
    ) {
        let mut entries: Vec<Vec<u8>> = good.iter().map(prost::Message::encode_to_vec).collect();
        let victim = victim.index(entries.len());
        let at = at.index(entries[victim].len() + 1);
        entries[victim].truncate(at);
        entries[victim].extend(&garbage);
        let list = containers(&answer_of(&entries));
        let seen: Vec<ContainerEntry<'_>> = list.iter().collect();
        let others: Vec<v1::Container> =
            good.iter().enumerate().filter(|(index, _)| *index != victim).map(|(_, entry)| entry.clone()).collect();
        let others = straightforward_containers(&others);
        for entry in others.iter() {
            prop_assert!(seen.contains(&entry), "lost {:?}", entry);
        }
        // The victim is there, in whatever state, or it is counted.
        prop_assert!(list.len() + list.unreadable >= good.len());
    }

    #[test]
    fn where_an_answer_breaks_off_the_rest_is_counted_as_unreadable(
        good in vec(sandbox().prop_filter("an id", |sandbox| !sandbox.id.is_empty()), 1..6),
        cut in any::<Index>(),
    ) {
        let answer = v1::ListPodSandboxResponse { items: good.clone() }.encode_to_vec();
        let cut = cut.index(answer.len());
        let list = sandboxes(&answer[..cut]);
        let complete = good
            .iter()
            .scan(0, |end, entry| {
                *end += prost::encoding::message::encoded_len(1, entry);
                Some(*end)
            })
            .take_while(|end| *end <= cut)
            .count();
        let wanted = straightforward_sandboxes(&good[..complete]);
        prop_assert_eq!(list.iter().take(complete).collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>());
        let ends_within = cut != v1::ListPodSandboxResponse { items: good[..complete].to_vec() }.encoded_len();
        prop_assert_eq!(list.unreadable > 0, ends_within);
        for entry in list.iter().skip(complete) {
            prop_assert_eq!(entry.state, SandboxState::Unknown);
        }
    }
}

#[test]
fn damage_makes_an_entry_unknown_and_hides_it_only_if_it_hides_whose_it_is() {
    let whole = v1::Container {
        id: "c".to_owned(),
        pod_sandbox_id: "s".to_owned(),
        metadata: Some(v1::ContainerMetadata { name: "web".to_owned(), attempt: 1 }),
        state: v1::ContainerState::ContainerRunning.into(),
        ..Default::default()
    };
    let encoded = whole.encode_to_vec();
    let with = |more: &[u8]| [&encoded, more].concat();
    let not_utf8 = [0xff, 0xfe];
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let cases: [(&str, Vec<u8>, Option<ContainerState>, usize); 12] = [
        ("nothing wrong", encoded.clone(), Some(ContainerState::Running), 0),
        ("an unknown field", with(&field(15, b"new")), Some(ContainerState::Running), 0),
        ("an unknown state", with(&[6 << 3, 9]), Some(ContainerState::Unknown), 0),
        ("a state of a wrong type", with(&field(6, b"running")), Some(ContainerState::Unknown), 0),
        ("broken metadata", with(&field(3, &[0x0a, 99])), Some(ContainerState::Unknown), 0),
        ("a broken label", with(&field(8, &[0x0a, 99])), Some(ContainerState::Unknown), 0),
        ("a name that is not UTF-8", with(&field(3, &field(1, &not_utf8))), Some(ContainerState::Unknown), 0),
        ("garbage at its end", with(&[0xff; 12]), Some(ContainerState::Unknown), 0),
        ("an id that is not UTF-8", with(&field(1, &not_utf8)), Some(ContainerState::Unknown), 1),
        ("a sandbox id that is not UTF-8", with(&field(2, &not_utf8)), Some(ContainerState::Unknown), 1),
        ("no id", encoded[3..].to_vec(), None, 1),
        (
            "damage before its sandbox is named",
            field(1, b"c").into_iter().chain([0xff]).collect(),
            Some(ContainerState::Unknown),
            1,
        ),
    ];
    for (what, entry, state, unreadable) in cases {
        let list = containers(&answer_of(&[entry]));
        assert_eq!(list.iter().next().map(|entry| entry.state), state, "{what}");
        let is_damaged = list.iter().any(|entry| entry.damaged);
        let keeps_its_state = state == Some(ContainerState::Running) || what == "an unknown state";
        assert_eq!(is_damaged, !keeps_its_state && state.is_some(), "{what}");
        assert_eq!(list.unreadable, unreadable, "{what}");
    }
}

#[test]
fn a_sandbox_whose_metadata_is_lost_is_known_by_its_labels() {
    let labels = HashMap::from([
        (labels::POD_UID.to_owned(), "u".to_owned()),
        (labels::POD_NAME.to_owned(), "n".to_owned()),
        (labels::POD_NAMESPACE.to_owned(), "ns".to_owned()),
    ]);
    let entry = v1::PodSandbox { id: "s".to_owned(), labels, ..Default::default() }.encode_to_vec();
    // Metadata that claim to be longer than they are.
    let broken = [&entry[..], &[2 << 3 | 2, 2, 0x0a, 99]].concat();
    let list = sandboxes(&answer_of(&[broken]));
    let read = list.iter().next().unwrap();
    assert_eq!((read.pod_uid, read.pod_name, read.pod_namespace), ("u", "n", "ns"));
    assert_eq!((read.state, list.unreadable), (SandboxState::Unknown, 0));
}

#[test]
fn a_broken_uid_is_no_uid() {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let entry = [field(1, b"s"), field(2, &field(2, &[b'u', 0xff]))].concat();
    let list = sandboxes(&answer_of(&[entry]));
    assert_eq!(list.iter().next().unwrap().pod_uid, "", "it would name another pod");
    assert_eq!(list.unreadable, 1);
}

#[test]
fn without_metadata_or_labels_an_entry_keeps_its_state() {
    let bare = v1::PodSandbox { id: "s".to_owned(), state: 1, ..Default::default() };
    let list = sandboxes(&answer_of(&[bare.encode_to_vec()]));
    let read = list.iter().next().unwrap();
    assert_eq!(
        (read.id, read.pod_uid, read.state, read.selectable),
        ("s", "", SandboxState::NotReady, false)
    );
    assert_eq!(list.unreadable, 0);
}

#[test]
fn metadata_that_come_in_two_parts_are_one() {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let entry = [field(1, b"s"), field(2, &field(1, b"name")), field(2, &field(2, b"uid"))].concat();
    assert_eq!(v1::PodSandbox::decode(&entry[..]).unwrap().metadata.unwrap().name, "name");
    let list = sandboxes(&answer_of(&[entry]));
    let read = list.iter().next().unwrap();
    assert_eq!((read.pod_name, read.pod_uid), ("name", "uid"));
}

#[test]
fn frames_that_we_did_not_ask_for_are_refused() {
    let compressed = [1, 0, 0, 0, 0];
    assert_eq!(read::<SandboxList>(&compressed, &[]).err(), Some(BadAnswer::Flags(1)));
    let mut intake = Intake::new(SandboxList::default(), 10);
    assert_eq!(intake.take(&[0, 0, 0, 0, 11]), Err(BadAnswer::TooLarge { length: 11, limit: 10 }));
    for cut in [1, 4, 5, 6] {
        let answer = &framed(&[0x0a, 0])[..cut];
        assert_eq!(read::<SandboxList>(answer, &[]).err(), Some(BadAnswer::Truncated), "after {cut} bytes");
    }
    assert_eq!(read::<SandboxList>(&[], &[]).unwrap().1, 0, "an answer may hold no message at all");
}
