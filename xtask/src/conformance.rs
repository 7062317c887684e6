//! `cargo xtask conformance record`: runs the manifests of the conformance tests under a real kubelet, and stores what
//! it reports beside them.
//!
//! The kubelet is built with Go, runs on a private containerd 2.x without an API server, and gets the manifests as
//! static pods. A recording is made once nothing has changed for a while, so it does not depend on what anybody
//! expects.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use rubelet_testbed::{BUSYBOX, Containerd, Flavor, Kubelet, go_cache, program, recording, wait};
use serde_json::{Value, json};

use crate::go_tools;

/// The name of the node, the same as in the tests.
const NODE: &str = "n";
/// Longer than any pod waits for anything.
const REST: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(300);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Manifests that need a feature which is off by default in this version of the kubelet.
const GATES: &[(&str, &str)] = &[("stop-signal", "ContainerStopSignals")];

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Conformance {
    /// Run the manifests under a kubelet, and store what it reports; needs root and Go
    Record(RecordArgs),
}

#[derive(clap::Args)]
pub(crate) struct RecordArgs {
    /// Record only these manifests, by name [default: all]
    names: Vec<String>,
}

pub(crate) fn run(conformance: &Conformance) -> anyhow::Result<()> {
    match conformance {
        Conformance::Record(args) => record(&args.names),
    }
}

fn record(names: &[String]) -> anyhow::Result<()> {
    let manifests = manifests(names)?;
    let go = program::find("go")
        .context("the kubelet is built with Go, and there is none: install it, and have `go` in PATH")?;
    for tool in [&go_cache::CONTAINERD, &go_cache::KUBELET].into_iter().filter(|tool| !tool.is_built()) {
        go_tools::build(&go, tool)?;
    }
    let (mut plain, mut gated) = (manifests, Vec::new());
    for (name, gate) in GATES {
        gated.extend(
            plain.remove_entry(*name).map(|manifest| (json!({ *gate: true }), BTreeMap::from([manifest]))),
        );
    }
    if !plain.is_empty() {
        record_with(&json!({}), &plain)?;
    }
    for (gates, manifests) in &gated {
        record_with(gates, manifests)?;
    }
    Ok(())
}

/// Records all of these under one kubelet.
fn record_with(gates: &Value, manifests: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let containerd = Containerd::start(Flavor::V2)?;
    let kubelet = Kubelet::start(&containerd, NODE, gates)?;
    for (name, manifest) in manifests {
        // The same replacement as in the tests.
        let with_image = format!("image: {BUSYBOX}\n      imagePullPolicy: IfNotPresent\n");
        let manifest = manifest.replace("image: busybox\n", &with_image);
        fs::write(kubelet.manifests().join(format!("{name}.yaml")), manifest)?;
    }
    let pods = at_rest(&kubelet, manifests)?;
    for (name, manifest) in manifests {
        let text = recording::write(go_cache::KUBELET.version, manifest, &pods[name]);
        ensure!(!text.contains("/tmp/"), "the status of {name} names folders of this machine:\n{text}");
        fs::write(folder().join(format!("{name}.kubelet.json")), text)?;
    }
    println!("{} recorded", manifests.len());
    Ok(())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/rubelet/tests/conformance/pods")
}

/// Returns the manifests by name, without those that cannot be recorded.
fn manifests(names: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut manifests = BTreeMap::new();
    for entry in fs::read_dir(folder())?.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".yaml").filter(|name| !name.ends_with(".status")) else {
            continue;
        };
        let manifest = fs::read_to_string(entry.path())?;
        if needs_objects(&manifest) {
            println!("not recorded: {name}: a kubelet without an API server has no config maps and secrets");
        } else if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            manifests.insert(name.to_owned(), manifest);
        }
    }
    if let Some(unknown) = names.iter().find(|name| !manifests.contains_key(*name)) {
        bail!("there is no {unknown}.yaml in {} that can be recorded", folder().display());
    }
    Ok(manifests)
}

fn needs_objects(manifest: &str) -> bool {
    ["configMap", "ConfigMap", "secret", "Secret"].iter().any(|word| manifest.contains(word))
}

/// Returns the pods, by the name of their manifest, once none of them has changed for a while.
fn at_rest(
    kubelet: &Kubelet,
    manifests: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut last = BTreeMap::new();
    let mut quiet = Duration::ZERO;
    let rested = wait::until(LIMIT, || {
        // The condition is that nothing happens, so all that can be waited for is time.
        let _ = wait::until(BETWEEN_LOOKS, || None::<()>);
        let now = by_manifest(kubelet.pods()?);
        let is_same = now == last && manifests.keys().all(|name| now.contains_key(name));
        quiet = if is_same { quiet + BETWEEN_LOOKS } else { Duration::ZERO };
        last = now;
        (quiet >= REST).then_some(())
    });
    let missing: Vec<_> = manifests.keys().filter(|name| !last.contains_key(*name)).collect();
    let log = || {
        let log = kubelet.log();
        log.lines().filter(|line| line.starts_with(['E', 'W'])).collect::<Vec<_>>().join("\n")
    };
    ensure!(missing.is_empty(), "the kubelet did not take {missing:?}:\n{}", log());
    ensure!(rested.is_some(), "pods still change after {} s:\n{}", LIMIT.as_secs(), log());
    Ok(last)
}

fn by_manifest(pods: Vec<Value>) -> BTreeMap<String, Value> {
    let named = pods.into_iter().filter_map(|pod| {
        let name = pod["metadata"]["name"].as_str()?.strip_suffix(&format!("-{NODE}"))?.to_owned();
        Some((name, pod))
    });
    named.collect()
}
