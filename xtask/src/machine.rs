//! What the tests could use and this machine lacks, for all runtimes.

use rubelet_testbed::requirement::{self, Demand, Missing};
use rubelet_testbed::{Flavor, go_cache};

pub(crate) fn missing() -> Vec<Missing> {
    let mut all = Vec::new();
    let of_runtimes = Flavor::ALL.into_iter().flat_map(requirement::check);
    for missing in of_runtimes.chain(go_cache::ALL.iter().flat_map(requirement::check_go_tool)) {
        if !all.contains(&missing) {
            all.push(missing);
        }
    }
    all
}

/// Prints what will be skipped, or fails if nothing may be.
pub(crate) fn accept(missing: &[Missing]) -> anyhow::Result<()> {
    for thing in missing {
        eprintln!("SKIPPED what needs it: {thing}");
    }
    anyhow::ensure!(
        Demand::from_env().allows_skipping(missing),
        "tests would be skipped, and here that is a failure (CI or RUBELET_REQUIRE_RUNTIMES is set): {}",
        requirement::list(missing)
    );
    Ok(())
}
