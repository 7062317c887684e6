//! `cargo xtask test`: makes the machine ready, runs every test, leaves nothing behind.

use std::ffi::OsString;

use rubelet_testbed::requirement::Demand;

use crate::run::{cargo, run as foreground};
use crate::{machine, prepare, sweep};

/// How many random cases a property is tried with. Its own default is a few hundred.
const RANDOM_CASES: &str = "PROPTEST_CASES";
/// What random cases are made from. The same each time, so that what is red was made red by a change; `cargo xtask soak` tries new
/// ones.
const RANDOM_SEED: &str = "PROPTEST_RNG_SEED";
/// How many histories of runtimes are played to a PLEG. Its own default is a few hundred.
const PLEG_HISTORIES: &str = "RUBELET_SOAK_HISTORIES";

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`, e.g. a name to filter by, or `-- --nocapture`
    #[arg(last = true)]
    cargo_test_args: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    prepare::run()?;
    let tested = cargo_test(args);
    // A test that was killed, or that keeps its runtime in a static, could not clean up itself.
    let swept = sweep::run();
    // Said once more: the first time was far up, before all the tests' output.
    machine::accept(&machine::missing())?;
    tested.and(swept)
}

fn cargo_test(args: &Args) -> anyhow::Result<()> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--all-features"]);
    for (variable, default) in [(RANDOM_CASES, "2000"), (PLEG_HISTORIES, "2000"), (RANDOM_SEED, "1")] {
        if std::env::var_os(variable).is_none() {
            command.env(variable, default);
        }
    }
    if Demand::from_env() != Demand::Lenient {
        command.arg("--locked");
    }
    foreground(command.args(&args.cargo_test_args))
}
