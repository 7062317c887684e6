//! `cargo xtask bench`: what things cost, next to what they cannot cost less than, in one run.
//!
//! What is measured runs in processes of its own, which are this program under other names (`Worker`), so that
//! nothing of the bench counts. All of it is built with `--release`: a bench started from anything else builds itself
//! again.

#[cfg(feature = "bench")]
mod agent;
#[cfg(feature = "bench")]
mod bare;
#[cfg(feature = "bench")]
mod node;
#[cfg(feature = "bench")]
mod relist;
#[cfg(feature = "bench")]
mod sample;
#[cfg(feature = "bench")]
mod worker;

use std::process::Command;

use clap::{Args, Subcommand};

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// A full relist of the PLEG over a socket, next to its two list calls alone
    Relist(RelistArgs),
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
}

#[derive(Args)]
pub(crate) struct RelistArgs {
    /// How many containers the runtime has; several runs for several numbers
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    containers: Vec<usize>,
    /// How many relists to measure in each run
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Relist(args) => args.run(),
        #[cfg(feature = "bench")]
        Bench::Worker(args) => worker::run(args),
    }
}

impl RelistArgs {
    fn run(&self) -> anyhow::Result<()> {
        #[cfg(feature = "bench")]
        if !cfg!(debug_assertions) {
            return relist::run(self);
        }
        let containers: Vec<String> = self.containers.iter().map(ToString::to_string).collect();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--release", "--package", "xtask", "--features", "bench", "--"]);
        cargo.args(["bench", "relist", "--containers", &containers.join(",")]);
        cargo.args(["--rounds", &self.rounds.to_string()]);
        if self.check {
            cargo.arg("--check");
        }
        crate::run::run(&mut cargo)
    }
}
