//! What only the embedded runtime promises: shims that die, networks of its own, and what it leaves behind.

#[path = "../contract/cri.rs"]
#[expect(dead_code, reason = "shared with the contract, which asks more")]
mod cri;
mod devices;
mod exec;
mod groupless;
mod keys;
mod limits;
#[path = "../contract/mounted.rs"]
#[expect(dead_code, reason = "shared with the contract, which asks more")]
mod mounted;
mod network;
mod processes;
mod propagation;
mod requests;
mod seccomp;
mod shims;
#[path = "../../src/embedded/soup.rs"]
mod soup;
#[path = "../contract/subject.rs"]
mod subject;

use std::path::PathBuf;

use cri::Cri;
use rubelet_testbed::Embedded;
use subject::embedded;

/// Runs a test against a runtime of its own, which ends with the test.
fn with_runtime(name: &str, cni: Option<PathBuf>, test: impl AsyncFnOnce(&mut Embedded, Cri)) {
    with(embedded(name, cni), test);
}

/// Like [`with_runtime`], for a runtime that was started in a way of its own.
fn with(runtime: Option<Embedded>, test: impl AsyncFnOnce(&mut Embedded, Cri)) {
    let Some(mut runtime) = runtime else { return };
    let cri = Cri::new(&runtime.socket(), "host", &runtime.cgroup(), runtime.dir());
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    tokio.block_on(test(&mut runtime, cri));
}
