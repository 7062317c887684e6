//! `cargo xtask test`: prepares the machine, runs every test, and leaves nothing behind.

use std::ffi::OsString;

use rubelet_testbed::requirement::Demand;

use crate::run::{cargo, run as foreground};
use crate::{machine, prepare, sweep};

/// The number of random cases for each property; the default of proptest is a few hundred.
const RANDOM_CASES: &str = "PROPTEST_CASES";
/// The seed of random cases. It is always the same, so that a failure is due to a change; `cargo xtask soak` tries new
/// seeds.
const RANDOM_SEED: &str = "PROPTEST_RNG_SEED";
/// The number of runtime histories that are played to a PLEG; its own default is a few hundred.
const PLEG_HISTORIES: &str = "RUBELET_SOAK_HISTORIES";

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Arguments for `cargo test`, such as a name to filter by, or `-- --nocapture`
    #[arg(last = true)]
    cargo_test_args: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    prepare::run()?;
    let tested = cargo_test(args);
    // A test that was killed, or that keeps its runtime in a static, could not clean up after itself.
    let swept = sweep::run();
    // Printed again, because the first time was far up, before the output of all tests.
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
