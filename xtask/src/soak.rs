//! `cargo xtask soak`: the tests with random histories, with many more histories.

use std::process::Command;

use clap::{Args, Subcommand, ValueEnum};

use crate::run::{cargo, run as foreground};

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Soak {
    /// The PLEG on every runtime profile, with faults in the event stream, and its core with answers in any order
    Pleg(PlegArgs),
    /// The agent on real runtimes: pods come, change and go while agent and runtime are killed; needs root
    Agent(AgentArgs),
}

#[derive(Args)]
pub(crate) struct PlegArgs {
    /// The number of histories that each test plays
    #[arg(long, default_value_t = 100_000)]
    histories: u64,
    /// Play only the history with this seed
    #[arg(long)]
    seed: Option<u64>,
    /// The number of processors to use [default: all]
    #[arg(long)]
    threads: Option<u64>,
}

#[derive(Args)]
pub(crate) struct AgentArgs {
    /// The number of kills on each runtime, and of rewrites of the one manifest
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// The seed of random choices [default: a new one, which is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// The runtime to use
    #[arg(long, value_enum, default_value_t = Ground::All)]
    runtime: Ground,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ground {
    /// The embedded runtime, inside the agent's process
    Embedded,
    /// The embedded runtime as a separate process
    Runtime,
    /// containerd 2.x
    Containerd,
    /// One manifest rewritten again and again, on the embedded runtime
    Rewrite,
    /// All of them, one after another
    All,
}

pub(crate) fn run(soak: &Soak) -> anyhow::Result<()> {
    match soak {
        Soak::Pleg(args) => args.run(),
        Soak::Agent(args) => args.run(),
    }
}

impl PlegArgs {
    fn run(&self) -> anyhow::Result<()> {
        let mut whole = Self::tests(&["--test", "soak", "--"]);
        // One after another, since each of them uses all processors that it may.
        whole.args(["--nocapture", "--test-threads", "1"]);
        whole.env("RUBELET_SOAK_HISTORIES", self.histories.to_string());
        if let Some(seed) = self.seed {
            whole.env("RUBELET_SOAK_SEED", seed.to_string());
        }
        if let Some(threads) = self.threads {
            whole.env("RUBELET_SOAK_THREADS", threads.to_string());
        }
        foreground(&mut whole)?;
        if self.seed.is_some() {
            return Ok(());
        }
        let mut core = Self::tests(&["--lib", "core::properties", "--"]);
        if let Some(threads) = self.threads {
            core.args(["--test-threads", &threads.to_string()]);
        }
        foreground(core.env("PROPTEST_CASES", self.histories.to_string()))
    }

    fn tests(which: &[&str]) -> Command {
        let mut cargo = cargo();
        cargo.args(["test", "--release", "--package", "pleg", "--features", "cri,record"]).args(which);
        cargo
    }
}

impl AgentArgs {
    fn run(&self) -> anyhow::Result<()> {
        let seed = self.seed.unwrap_or_else(|| u64::from(std::process::id()));
        println!("seed {seed}");
        let mut cargo = cargo();
        // With debug assertions: most of the time is spent in the runtimes anyway.
        cargo.args(["test", "--package", "rubelet", "--test", "run", "--"]);
        cargo.args(["--nocapture", "--test-threads", "1", self.runtime.tests()]);
        for (variable, number) in [
            ("RUBELET_UPHEAVAL_KILLS", self.kills),
            ("RUBELET_UPHEAVAL_VERSIONS", self.kills),
            ("RUBELET_UPHEAVAL_SEED", seed),
        ] {
            cargo.env(variable, number.to_string());
        }
        foreground(&mut cargo)
    }
}

impl Ground {
    /// The prefix of its tests' names.
    fn tests(self) -> &'static str {
        match self {
            Self::Embedded => "upheaval::embedded",
            Self::Runtime => "upheaval::runtime",
            Self::Containerd => "upheaval::containerd",
            Self::Rewrite => "upheaval::the_last_version",
            Self::All => "upheaval::",
        }
    }
}
