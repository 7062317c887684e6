//! The embedded runtime of this crate's own little binary, under test.

use std::path::PathBuf;
use std::process::Command;

use rubelet_testbed::Embedded;

/// Starts one; `None`, said aloud, where this user cannot run containers.
pub(crate) fn embedded(name: &str, cni: Option<PathBuf>) -> Option<Embedded> {
    Embedded::start(name, move |place| {
        // With a umask that nothing may depend on.
        let mut command = Command::new("sh");
        command.args(["-c", "umask 077; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_rubelet-runtime")]);
        command.arg(place.socket()).arg(place.data()).args(&cni);
        command
    })
}
