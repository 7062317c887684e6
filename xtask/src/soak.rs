//! `cargo xtask soak`: the tests with random histories, with many more of them, built with `--release`.

use std::process::Command;

use clap::{Args, Subcommand};

use crate::run::run as foreground;

/// What to soak.
#[derive(Subcommand)]
pub(crate) enum Soak {
    /// The PLEG on every runtime profile, with faults of the event stream
    Pleg(PlegArgs),
}

#[derive(Args)]
pub(crate) struct PlegArgs {
    /// How many histories each test plays
    #[arg(long, default_value_t = 100_000)]
    histories: u64,
    /// Only the history with this seed
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(soak: &Soak) -> anyhow::Result<()> {
    let Soak::Pleg(args) = soak;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--release", "--package", "pleg", "--features", "cri", "--test", "soak", "--"]);
    // One after the other: each of them uses all processors.
    cargo.args(["--nocapture", "--test-threads", "1"]);
    cargo.env("RUBELET_SOAK_HISTORIES", args.histories.to_string());
    if let Some(seed) = args.seed {
        cargo.env("RUBELET_SOAK_SEED", seed.to_string());
    }
    foreground(&mut cargo)
}
