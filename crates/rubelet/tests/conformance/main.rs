//! Manifests modelled on the tasks in the Kubernetes documentation, run on the embedded runtime and on containerd. The
//! status of each is compared field by field with the expected one: nothing may be missing, and nothing extra.
//!
//! `pods/NAME.yaml` is the manifest, `pods/NAME.status.yaml` the status that its pod reaches, with placeholders for
//! what differs from run to run (see [`normal`]), and `pods/NAME.kubelet.json` what a kubelet reports for it, which the
//! expected status is compared with (see [`recorded`]). To add a case, add the first two files, and record the third
//! with `cargo xtask conformance record NAME`.
//!
//! A container writes what it saw of its environment, volumes and privileges into its termination message, so that this
//! is compared as well.

mod normal;
mod recorded;

#[path = "../run/node.rs"]
#[expect(dead_code, reason = "shared with the tests of `rubelet run`, which use the rest")]
mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};

use rubelet_testbed::{BUSYBOX, Cni, Flavor, require, wait};
use serde_json::Value;

use crate::node::{NODE, Node, PATIENCE};
use crate::normal::{Ground, HOST_IMAGE};

/// A manifest and the status that it should lead to.
struct Case {
    name: String,
    manifest: String,
    /// `None` until somebody has written down the expected status.
    expected: Option<Value>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/pods")
}

/// Returns all cases, with `image` in place of the image that the manifests name.
fn cases(image: &str) -> Vec<Case> {
    let entries = fs::read_dir(folder()).expect("manifests").flatten();
    let names =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".yaml").map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".status")).collect();
    names.sort();
    let case = |name: String| {
        let manifest = fs::read_to_string(folder().join(format!("{name}.yaml"))).expect("a manifest");
        let with_image = format!("image: {image}\n      imagePullPolicy: IfNotPresent\n");
        let manifest = manifest.replace("image: busybox\n", &with_image);
        let status = folder().join(format!("{name}.status.yaml"));
        let expected = fs::read_to_string(&status).ok().map(|text| {
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", status.display()))
        });
        Case { name, manifest, expected }
    };
    names.into_iter().map(case).collect()
}

/// Whether this machine has the address.
fn is_ours(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The status of each case's pod.
type Readings<'a> = BTreeMap<&'a str, Value>;

fn read<'a>(node: &Node, ground: &Ground<'_>, cases: &'a [Case]) -> Option<Readings<'a>> {
    let pods = node.ps()?;
    let status = |case: &Case| {
        let full = format!("{}-{NODE}", case.name);
        let pod = pods.iter().find(|pod| pod["metadata"]["name"] == full);
        pod.map_or(Value::Null, |pod| ground.status(pod))
    };
    Some(cases.iter().map(|case| (&*case.name, status(case))).collect())
}

/// Returns the cases that are not as expected.
fn unlike<'a>(cases: &'a [Case], readings: &Readings<'_>) -> BTreeSet<&'a str> {
    let unlike = cases.iter().filter(|case| case.expected.as_ref() != readings.get(&*case.name));
    unlike.map(|case| &*case.name).collect()
}

/// Runs all cases together on one node, until every status is as expected at the same time: a state that a pod only
/// passes through is not the one that it reaches, and a pod that retries again and again may be read in the middle of
/// an attempt.
fn conforms(node: &Node, image: &str, subnet: &str) {
    let network = subnet.strip_suffix("0/24").expect("a subnet of the testbed");
    let ground = Ground { node: NODE, image, network, is_host: is_ours };
    let cases = cases(image);
    for case in &cases {
        node.write(&format!("{}.yaml", case.name), &case.manifest);
    }
    let mut last = Readings::new();
    // All cases start at once, and some have to fail a few times first.
    wait::until(3 * PATIENCE, || {
        last = read(node, &ground, &cases)?;
        unlike(&cases, &last).is_empty().then_some(())
    });
    let unlike = unlike(&cases, &last);
    for case in cases.iter().filter(|case| unlike.contains(&*case.name)) {
        let name = &case.name;
        let described = node.ask(&["describe", &format!("{name}-{NODE}")]);
        let last = last.get(&**name).unwrap_or(&Value::Null);
        let difference = match &case.expected {
            Some(expected) => normal::difference(expected, last),
            None => format!("there is no {name}.status.yaml; its pod came to\n{last:#}"),
        };
        eprintln!("=== {name}\n{difference}\n{}", String::from_utf8_lossy(&described.stdout));
    }
    assert!(unlike.is_empty(), "not as expected: {unlike:?}\n{}", node.said());
}

#[test]
fn pods_on_the_embedded_runtime_are_as_under_a_kubelet() {
    let Some(mut node) = Node::new() else { return };
    let cni = Cni::claim().expect("a network");
    node.start_agent_with(&["--cni-conf-dir", &cni.conf_dir().to_string_lossy()]);
    conforms(&node, HOST_IMAGE, &cni.subnet());
    drop(node);
}

#[test]
fn pods_on_containerd_are_as_under_a_kubelet() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let Some(node) = Node::start_on(containerd.endpoint()) else { return };
    conforms(&node, BUSYBOX, &containerd.subnet());
    node.end_pods();
}
