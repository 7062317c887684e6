//! `cargo xtask bench`: what things cost, next to what they cannot cost less than, in one run.
//!
//! What is measured runs in processes of its own, which are this program under other names (`Worker`), so that
//! nothing of the bench counts. All of it is built with `--release`: a bench started from anything else builds itself
//! again.

#[cfg(feature = "bench")]
mod agent;
#[cfg(feature = "bench")]
mod events;
#[cfg(feature = "bench")]
mod probes;
#[cfg(feature = "bench")]
mod process;
#[cfg(feature = "bench")]
mod relist;
#[cfg(feature = "bench")]
mod request;
#[cfg(feature = "bench")]
mod runtime;
#[cfg(feature = "bench")]
mod sample;
#[cfg(feature = "bench")]
mod subject;
#[cfg(feature = "bench")]
mod verdict;

use std::process::Command;

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// A full relist of the PLEG over a socket, next to its two list calls alone
    Relist(RelistArgs),
    /// How soon an end is heard of with the runtime's event stream and without, and what waiting costs; on real runtimes
    Events(EventsArgs),
    /// `rubelet run`: how fast pods start, restart and go, what it costs, next to the runtime's bare calls
    Agent(AgentArgs),
    /// What a storm of exec probes does to the latency of pod events; on real runtimes
    Probes(ProbesArgs),
    /// The embedded runtime: how fast a container starts, next to containerd; what idle pods cost
    Runtime(RuntimeArgs),
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    Worker(relist::worker::WorkerArgs),
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

#[derive(Args)]
pub(crate) struct RuntimeArgs {
    /// How many pods to start on each runtime
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// How many pods to leave idle
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// For how long
    #[arg(long, default_value_t = 20)]
    idle_seconds: u64,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct EventsArgs {
    /// How many containers end on each runtime
    #[arg(long, default_value_t = 200)]
    samples: usize,
    /// How many idle pods there are
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// For how many seconds each way of waiting is measured: containerd collects its garbage every two minutes
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct AgentArgs {
    /// On which runtime
    #[arg(long, value_enum, default_value_t = AgentRuntime::All)]
    runtime: AgentRuntime,
    /// How many pods to add, kill and remove one after the other
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// How many manifests to drop at once
    #[arg(long, default_value_t = 50)]
    burst: usize,
    /// How many pods to leave idle and then to remove at once
    #[arg(long, default_value_t = 60)]
    pods: usize,
    /// For how many seconds they are left alone
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many pods run while the agent is restarted
    #[arg(long, default_value_t = 100)]
    restart_pods: usize,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct ProbesArgs {
    /// On which runtimes
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ProbedRuntime::Synthetic, ProbedRuntime::Embedded])]
    runtime: Vec<ProbedRuntime>,
    /// How many pods are probed
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// How many exec probes come to a second, if there is time for all
    #[arg(long, default_value_t = 500)]
    rate: usize,
    /// How many containers end, in calm and in storm each
    #[arg(long, default_value_t = 120)]
    samples: usize,
    /// How many commands begin at the same time, if not as many as `rubelet run` has
    #[arg(long)]
    begin_at_once: Option<usize>,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AgentRuntime {
    Containerd,
    Embedded,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProbedRuntime {
    /// Virtual pods: a command costs nothing, so all of them can be asked
    Synthetic,
    Embedded,
    Containerd,
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Relist(args) => args.run(),
        Bench::Events(args) => args.run(),
        Bench::Probes(args) => args.run(),
        Bench::Runtime(args) => args.run(),
        Bench::Agent(args) => args.run(),
        #[cfg(feature = "bench")]
        Bench::Worker(args) => relist::worker::run(args),
    }
}

impl RelistArgs {
    fn run(&self) -> anyhow::Result<()> {
        #[cfg(feature = "bench")]
        if !cfg!(debug_assertions) {
            return relist::run(self);
        }
        let containers: Vec<String> = self.containers.iter().map(ToString::to_string).collect();
        let mut cargo = again("relist");
        cargo.args(["--containers", &containers.join(","), "--rounds", &self.rounds.to_string()]);
        crate::run::run(cargo.args(self.check.then_some("--check")))
    }
}

impl RuntimeArgs {
    fn run(&self) -> anyhow::Result<()> {
        #[cfg(feature = "bench")]
        if !cfg!(debug_assertions) {
            return runtime::run(self);
        }
        let mut cargo = again("runtime");
        cargo.args(["--rounds", &self.rounds.to_string(), "--pods", &self.pods.to_string()]);
        cargo.args(["--idle-seconds", &self.idle_seconds.to_string()]);
        crate::run::run(cargo.args(self.check.then_some("--check")))
    }
}

impl AgentArgs {
    fn run(&self) -> anyhow::Result<()> {
        #[cfg(feature = "bench")]
        if !cfg!(debug_assertions) {
            return agent::run(self);
        }
        let mut cargo = again("agent");
        let runtime = self.runtime.to_possible_value();
        cargo.arg("--runtime").args(runtime.as_ref().map(PossibleValue::get_name));
        for (flag, number) in [
            ("--rounds", self.rounds),
            ("--burst", self.burst),
            ("--pods", self.pods),
            ("--restart-pods", self.restart_pods),
        ] {
            cargo.args([flag, &number.to_string()]);
        }
        cargo.args(["--seconds", &self.seconds.to_string()]);
        crate::run::run(cargo.args(self.check.then_some("--check")))
    }
}

impl EventsArgs {
    fn run(&self) -> anyhow::Result<()> {
        #[cfg(feature = "bench")]
        if !cfg!(debug_assertions) {
            return events::run(self);
        }
        let mut rubelet = Command::new(env!("CARGO"));
        crate::run::run(rubelet.args(["build", "--quiet", "--release", "--package", "rubelet"]))?;
        let mut cargo = again("events");
        cargo.args(["--samples", &self.samples.to_string(), "--pods", &self.pods.to_string()]);
        cargo.args(["--seconds", &self.seconds.to_string()]);
        crate::run::run(cargo.args(self.check.then_some("--check")))
    }
}

impl ProbesArgs {
    fn run(&self) -> anyhow::Result<()> {
        #[cfg(feature = "bench")]
        if !cfg!(debug_assertions) {
            return probes::run(self);
        }
        let mut rubelet = Command::new(env!("CARGO"));
        crate::run::run(rubelet.args(["build", "--quiet", "--release", "--package", "rubelet"]))?;
        let mut cargo = again("probes");
        for runtime in self.runtime.iter().filter_map(ValueEnum::to_possible_value) {
            cargo.args(["--runtime", runtime.get_name()]);
        }
        for (flag, number) in [("--pods", self.pods), ("--rate", self.rate), ("--samples", self.samples)] {
            cargo.args([flag, &number.to_string()]);
        }
        if let Some(limit) = self.begin_at_once {
            cargo.args(["--begin-at-once", &limit.to_string()]);
        }
        crate::run::run(cargo.args(self.check.then_some("--check")))
    }
}

/// This bench again, as it must be built to count.
fn again(bench: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--release", "--package", "xtask", "--features", "bench", "--"]);
    cargo.args(["bench", bench]);
    cargo
}
