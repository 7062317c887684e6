//! `cargo xtask prepare`: everything the tests need on a fresh Debian machine.

use std::collections::BTreeSet;

use rubelet_testbed::requirement::Missing;
use rubelet_testbed::{go_cache, program};

use crate::{go_tools, machine, packages};

pub(crate) fn run() -> anyhow::Result<()> {
    let missing = machine::missing();
    if missing.contains(&Missing::Root) {
        eprintln!("not root: nothing is installed, and no runtime can be started");
    } else {
        install_packages(&missing)?;
        build_go_tools()?;
    }
    machine::accept(&machine::missing())
}

fn install_packages(missing: &[Missing]) -> anyhow::Result<()> {
    let wanted: BTreeSet<_> = missing.iter().filter_map(Missing::package).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    if program::find("apt-get").is_none() {
        eprintln!("no apt-get: install by hand what provides {}", Vec::from_iter(wanted).join(", "));
        return Ok(());
    }
    packages::install(&wanted)
}

fn build_go_tools() -> anyhow::Result<()> {
    let Some(go) = program::find("go") else {
        return Ok(());
    };
    for tool in go_cache::ALL.iter().filter(|tool| !tool.is_built()) {
        go_tools::build(&go, tool)?;
    }
    Ok(())
}
