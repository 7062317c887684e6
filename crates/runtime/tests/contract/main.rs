//! One contract, several runtimes: what a CRI runtime must do, asked of the embedded one and of containerd.
//!
//! That containerd passes shows that the questions are fair. Where runtimes differ, [`differences`] says how and why; a
//! difference that has gone away fails the test, so the table stays true.

mod busybox;
mod cases;
mod cri;
mod differences;
mod mounted;
mod subject;

use std::time::Duration;

use cri::Cri;
use differences::{Runtime, Shows};
use rubelet_testbed::{Flavor, Group, require};
use subject::embedded;

/// Longest that one case may take: far beyond what any needs, so that a hang is told apart from a slow machine.
const LIMIT: Duration = Duration::from_secs(40);

/// Asks everything of one runtime; what it got wrong.
fn examine(runtime: Runtime, mut cri: Cri) {
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    let only = std::env::var("RUBELET_CONTRACT").unwrap_or_default();
    let mut complaints = Vec::new();
    for (name, case) in cases::all() {
        if !name.contains(&only) {
            continue;
        }
        cri.begin(name);
        let asked =
            tokio.block_on(async { tokio::spawn(tokio::time::timeout(LIMIT, case(cri.clone()))).await });
        let outcome = match asked {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err("no answer in time".to_owned()),
            Err(panic) => Err(cases::message(panic)),
        };
        if let Err(left) = tokio.block_on(cri.clear()) {
            complaints.push(format!("{name}: cannot be cleaned up: {left}"));
        }
        match (outcome, differences::find(runtime, name)) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some(difference)) if difference.shows == Shows::Sometimes => {}
            (Ok(()), Some(difference)) => {
                complaints.push(format!("{name}: passes now; no longer true: {}", difference.how));
            }
            (Err(message), None) => complaints.push(format!("{name}: {message}")),
        }
    }
    assert!(complaints.is_empty(), "{runtime:?}:\n  {}", complaints.join("\n  "));
}

#[test]
fn the_embedded_runtime() {
    let Some(embedded) = embedded("contract", None) else { return };
    examine(Runtime::Embedded, Cri::new(&embedded.socket(), "host", &embedded.cgroup(), embedded.dir()));
}

/// The same with an image of layers, where the machine has a busybox to make one of.
#[test]
fn the_embedded_runtime_with_an_image_of_layers() {
    let Some(embedded) = embedded("layers", None) else { return };
    let Some(image) = busybox::import(&embedded.data().join("images")) else { return };
    examine(Runtime::Embedded, Cri::new(&embedded.socket(), &image, &embedded.cgroup(), embedded.dir()));
}

#[test]
fn containerd_2() {
    containerd(Flavor::V2, Runtime::Containerd2);
}

#[test]
fn containerd_1_6() {
    containerd(Flavor::V1_6, Runtime::Containerd16);
}

fn containerd(flavor: Flavor, runtime: Runtime) {
    let Some(containerd) = require(flavor) else { return };
    let cgroup = format!("/rubelet-contract-{}", containerd.pid().unwrap_or_default());
    let group = Group::new(&cgroup);
    let logs = tempfile::tempdir().expect("a folder");
    examine(runtime, Cri::new(&containerd.socket(), rubelet_testbed::BUSYBOX, &cgroup, logs.path()));
    drop(group);
}
