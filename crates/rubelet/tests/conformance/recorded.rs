//! The expected statuses, compared field by field with what a kubelet reported for the same manifests.
//!
//! `cargo xtask conformance record` made the recordings; comparing them needs no kubelet. Each intended difference is
//! listed here with its reason. Any other difference fails the test, and so does a listed one that no longer exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;

use rubelet_testbed::{BUSYBOX, go_cache, recording};
use serde_json::Value;

use crate::normal::{Ground, lines};
use crate::{NODE, cases, folder};

/// Manifests that a kubelet without an API server does not accept, and why.
const NOT_RECORDED: &[(&str, &str)] = &[
    ("config-and-secret-files", OBJECTS),
    ("config-missing", OBJECTS),
    ("env-from-everything", OBJECTS),
    ("projected-volume", OBJECTS),
];

const OBJECTS: &str =
    "config maps and secrets come from an API server; expected is what the specification says";

/// An intended difference.
struct Difference {
    /// The pods that it applies to; all if empty.
    pods: &'static [&'static str],
    /// The path of the field, without indices: `.containerStatuses[].ready`. It includes everything below.
    field: &'static str,
    why: &'static str,
}

const WANTED: &[Difference] = &[
    Difference { pods: &[], field: ".hostIP", why: NO_ADDRESSES },
    Difference { pods: &[], field: ".hostIPs", why: NO_ADDRESSES },
    Difference { pods: &["host-network"], field: ".podIP", why: NO_ADDRESSES },
    Difference { pods: &["host-network"], field: ".podIPs", why: NO_ADDRESSES },
    Difference {
        pods: &["stop-signal"],
        field: ".containerStatuses[].stopSignal",
        why: "told by a kubelet only with a feature that is off in its version",
    },
];

const NO_ADDRESSES: &str = "a kubelet without an API server does not tell the addresses of its node";

impl Difference {
    fn is_of(&self, pod: &str, path: &str) -> bool {
        let rest = path.strip_prefix(self.field);
        (self.pods.is_empty() || self.pods.contains(&pod))
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// Returns the recorded pods by the names of their manifests.
fn recordings() -> BTreeMap<String, Value> {
    let entries = fs::read_dir(folder()).expect("recordings").flatten();
    let recording = |entry: fs::DirEntry| {
        let name = entry.file_name().to_str()?.strip_suffix(".kubelet.json")?.to_owned();
        let text = fs::read_to_string(entry.path()).expect("a recording");
        Some((name, serde_json::from_str(&text).expect("JSON")))
    };
    entries.filter_map(recording).collect()
}

/// Returns the paths, without indices, of all differences, and what they are.
fn differences(expected: &Value, kubelet: &Value) -> BTreeMap<String, String> {
    let (expected, kubelet) = (lines(expected), lines(kubelet));
    let find = |lines: &[(String, &Value)], path: &str| {
        lines
            .iter()
            .find(|(other, _)| other == path)
            .map_or("nothing".to_owned(), |(_, value)| value.to_string())
    };
    let paths: BTreeSet<&String> = expected.iter().chain(&kubelet).map(|(path, _)| path).collect();
    let each = paths.into_iter().filter_map(|path| {
        let (ours, theirs) = (find(&expected, path), find(&kubelet, path));
        (ours != theirs).then(|| (path.clone(), format!("{ours} here, {theirs} of a kubelet")))
    });
    each.collect()
}

fn without_numbers(path: &str) -> String {
    path.split('[')
        .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()))
        .collect::<Vec<_>>()
        .join("[")
}

#[test]
fn expected_statuses_are_what_a_kubelet_reports() {
    let ground = Ground {
        node: NODE,
        image: BUSYBOX,
        // The networks of all test runtimes begin like this.
        network: "10.213.",
        is_host: |address: IpAddr| address.to_string() == recording::HOST_ADDRESS,
    };
    let mut recordings = recordings();
    let mut unused: Vec<&Difference> = WANTED.iter().collect();
    let mut wrong = Vec::new();
    for case in cases(BUSYBOX) {
        let Some(recording) = recordings.remove(&case.name) else {
            if !NOT_RECORDED.iter().any(|(name, _)| *name == case.name) {
                wrong.push(format!("{}: not recorded", case.name));
            }
            continue;
        };
        let expected = case.expected.expect("an expected status");
        for (path, difference) in differences(&expected, &ground.status(&recording)) {
            let is_wanted = |wanted: &&Difference| wanted.is_of(&case.name, &without_numbers(&path));
            unused.retain(|wanted| !is_wanted(wanted));
            if !WANTED.iter().any(|wanted| is_wanted(&wanted)) {
                wrong.push(format!("{}{path}: {difference}", case.name));
            }
        }
    }
    wrong.extend(recordings.keys().map(|name| format!("{name}: a recording without a manifest")));
    wrong.extend(
        unused.iter().map(|none| format!("{:?}{}: no difference: {}", none.pods, none.field, none.why)),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recordings_are_of_these_manifests_and_of_this_kubelet() {
    for (name, recording) in recordings() {
        let manifest = fs::read_to_string(folder().join(format!("{name}.yaml"))).expect("a manifest");
        let again = format!("record it again: cargo xtask conformance record {name}");
        assert_eq!(recording["manifest"], recording::fingerprint(&manifest), "{name} has changed; {again}");
        assert_eq!(recording["kubelet"], go_cache::KUBELET.version, "{name}: {again}");
    }
}

#[test]
fn the_documentation_names_every_manifest_and_every_difference() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");
    let document = fs::read_to_string(document).expect("docs/conformance.md");
    let links = cases(BUSYBOX)
        .into_iter()
        .map(|case| format!("[{0}](../crates/rubelet/tests/conformance/pods/{0}.yaml)", case.name));
    let unrecorded = NOT_RECORDED.iter().map(|(name, _)| format!("`{name}`"));
    let fields = WANTED.iter().map(|wanted| format!("`{}`", wanted.field.trim_start_matches('.')));
    for name in links.chain(unrecorded).chain(fields) {
        assert!(document.contains(&name), "{name} is not in docs/conformance.md");
    }
}
