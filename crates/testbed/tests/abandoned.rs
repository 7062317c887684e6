//! A test process that is killed leaves a runtime that nobody drops; the next one finds it.

mod traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rubelet_testbed::{BUSYBOX, Flavor, require, requirement, sweep_abandoned, wait};
use traces::Traces;

/// Set only for the copy of this program that is to die. It names a file for what it has to tell.
const REPORT: &str = "RUBELET_TESTBED_ABANDON";
const LIMIT: Duration = Duration::from_secs(20);

/// Does nothing when run as a test of its own.
#[test]
fn dies_with_a_running_container() {
    let Some(report) = std::env::var_os(REPORT) else { return };
    let Some(containerd) = require(Flavor::V1_6) else { return };
    let mut run = containerd.ctr();
    let id = format!("orphan-{}", std::process::id());
    run.args(["run", "--detach", "--null-io", "--runc-root"]).arg(containerd.dir().join("runc"));
    run.args([BUSYBOX, &id, "sleep", "3600"]);
    assert!(run.status().expect("ctr is there").success());
    let pid = containerd.pid().expect("runs");
    let bridge = containerd.bridge();
    fs::write(report, format!("{}\n{bridge}\n{pid}\n", containerd.dir().display())).expect("writes");
    std::process::abort();
}

#[test]
fn a_runtime_whose_owner_was_killed_is_taken_down() {
    if !requirement::is_met("containerd 1.6", &requirement::check(Flavor::V1_6)) {
        return;
    }
    let report = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("abandoned-{}", std::process::id()));
    let this_program = std::env::current_exe().expect("a path");
    let ended = Command::new(this_program)
        .args(["--exact", "dies_with_a_running_container"])
        .env(REPORT, &report)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("starts");
    assert!(!ended.success());
    let told = fs::read_to_string(&report).expect("it told before it died");
    fs::remove_file(&report).expect("removes");
    let [folder, bridge, daemon] = told.lines().collect::<Vec<_>>()[..] else { panic!("told {told:?}") };

    let daemon = Path::new("/proc").join(daemon).join("cmdline");
    let is_gone = || fs::read(&daemon).unwrap_or_default().is_empty().then_some(());
    wait::until(LIMIT, is_gone).expect("the daemon dies with its owner");

    let traces = Traces::of(Path::new(folder), bridge);
    assert_eq!(traces.tasks(), 1);
    // Another test's runtime may be the one that sweeps; then ours is gone by the time it is done.
    sweep_abandoned().expect("sweeps");
    wait::until(LIMIT, || traces.left().is_empty().then_some(()))
        .unwrap_or_else(|| panic!("{:?}", traces.left()));
}
