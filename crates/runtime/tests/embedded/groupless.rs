//! Without control groups, as in a user namespace.

use std::process::Command;

use rubelet_testbed::Embedded;

use crate::processes::shared;
use crate::shims::{kill_shims, pid, runs};
use crate::with;

const UNSHARE: [&str; 4] = ["--user", "--map-root-user", "--mount", "--"];

/// A runtime that is root of a user namespace with one user; `None`, said aloud, where the machine allows none.
fn groupless() -> Option<Embedded> {
    if !Command::new("unshare").args(UNSHARE).arg("true").output().is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: this machine allows no user namespaces");
        return None;
    }
    Embedded::start("none", |place| {
        let mut command = Command::new("unshare");
        command
            .args(UNSHARE)
            .arg(env!("CARGO_BIN_EXE_rubelet-runtime"))
            .arg(place.socket())
            .arg(place.data());
        command
    })
}

#[test]
fn what_a_killed_shim_leaves_is_found_without_a_group() {
    with(groupless(), async |runtime, cri| {
        let (_, id, _) = cri.pod_with("sleep 3600 & wait").await;
        cri.start(&id).await.expect("starts");
        let process = pid(&cri, &id).await;
        kill_shims(runtime);
        let status = cri.exited(&id).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (255, "Unknown"));
        assert!(!runs(&process), "what the shim cannot watch does not run");
        cri.clear().await.expect("is removed");
    });
}

#[test]
fn no_process_namespace_is_shared_without_groups() {
    with(groupless(), async |runtime, cri| {
        let (sandbox, config) = shared(cri.pod_config(), cri.container_config("true"));
        let pod = cri.run_pod(&sandbox).await.expect("a pod");
        assert!(runtime.shims().is_empty(), "nothing holds a namespace that nobody may share");
        let refused =
            cri.create(&pod, &sandbox, &config).await.expect_err("nobody could find what it leaves");
        assert_eq!(refused.code(), tonic::Code::Unimplemented);
        assert!(refused.message().contains("without control groups"), "{refused}");
        cri.clear().await.expect("is removed");
    });
}
