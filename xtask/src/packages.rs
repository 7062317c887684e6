//! Installation of Debian packages.

use std::collections::BTreeSet;
use std::process::Command;

use crate::run::run;

/// Waits for another apt on the machine, such as unattended upgrades or a second run.
const WAIT_FOR_LOCK: &str = "DPkg::Lock::Timeout=300";

pub(crate) fn install(packages: &BTreeSet<&'static str>) -> anyhow::Result<()> {
    // Even if the package lists cannot be refreshed they may be good enough: the install decides.
    if let Err(error) = run(apt_get().arg("update")) {
        eprintln!("warning: {error:#}; going on with the package lists that are here");
    }
    run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["--quiet", "--option", WAIT_FOR_LOCK]);
    command
}
