//! `cargo xtask bench`: what things cost, beside the least that they could cost, measured in the same run.
//!
//! What is measured runs in separate processes, which are this program under other names (`Worker`), so that the bench
//! itself does not count. Everything is built with `--release`: a bench that is started from any other build rebuilds
//! and restarts itself.

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

use clap::{Args, Subcommand, ValueEnum};

use crate::run::{cargo, run as run_command};

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// A full relist of the PLEG over a socket, compared with its two list calls alone
    Relist(RelistArgs),
    /// How soon the end of a container is noticed, with and without the event stream, and what waiting costs; on real
    /// runtimes
    Events(EventsArgs),
    /// `rubelet run`: how fast pods start, restart and stop, and what it costs, compared with bare calls to the runtime
    Agent(AgentArgs),
    /// How a storm of exec probes affects the latency of pod events; on real runtimes
    Probes(ProbesArgs),
    /// The embedded runtime: how fast a container starts, compared with containerd, and what idle pods cost
    Runtime(RuntimeArgs),
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    Worker(relist::worker::WorkerArgs),
}

#[derive(Args)]
pub(crate) struct RelistArgs {
    /// The number of containers on the runtime; several numbers for several runs
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    containers: Vec<usize>,
    /// The number of relists to measure in each run
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct RuntimeArgs {
    /// The number of pods to start on each runtime
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// The number of pods to leave idle
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// How long to leave them idle, in seconds
    #[arg(long, default_value_t = 20)]
    idle_seconds: u64,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct EventsArgs {
    /// The number of container ends to measure on each runtime
    #[arg(long, default_value_t = 200)]
    samples: usize,
    /// The number of idle pods
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// How long to measure each way of waiting, in seconds; containerd collects garbage every two minutes
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct AgentArgs {
    /// The runtime to measure on
    #[arg(long, value_enum, default_value_t = AgentRuntime::All)]
    runtime: AgentRuntime,
    /// The number of pods to add, kill and remove one after another
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// The number of manifests to add at once
    #[arg(long, default_value_t = 50)]
    burst: usize,
    /// The number of pods to leave idle, and then to remove at once
    #[arg(long, default_value_t = 60)]
    pods: usize,
    /// How long to leave them idle, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The number of pods that run while the agent is restarted
    #[arg(long, default_value_t = 100)]
    restart_pods: usize,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
pub(crate) struct ProbesArgs {
    /// The runtimes to measure on
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ProbedRuntime::Synthetic, ProbedRuntime::Embedded])]
    runtime: Vec<ProbedRuntime>,
    /// The number of probed pods
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// The number of exec probes due per second, if there is time for all of them
    #[arg(long, default_value_t = 500)]
    rate: usize,
    /// The number of container ends to measure, in calm and in storm each
    #[arg(long, default_value_t = 360)]
    samples: usize,
    /// The number of commands that start at the same time, if different from `rubelet run`
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
    /// Virtual pods: a command costs nothing, so all of them can be probed in time
    Synthetic,
    Embedded,
    Containerd,
}

#[cfg_attr(not(feature = "bench"), expect(unused_variables, reason = "another build reads it"))]
pub(crate) fn run(bench: &Bench) -> anyhow::Result<()> {
    #[cfg(feature = "bench")]
    if !cfg!(debug_assertions) {
        return measure(bench);
    }
    again()
}

#[cfg(feature = "bench")]
fn measure(bench: &Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Relist(args) => relist::run(args),
        Bench::Events(args) => events::run(args),
        Bench::Probes(args) => probes::run(args),
        Bench::Runtime(args) => runtime::run(args),
        Bench::Agent(args) => agent::run(args),
        Bench::Worker(args) => relist::worker::run(args),
    }
}

/// Runs the same command line in a release build.
fn again() -> anyhow::Result<()> {
    let mut itself = cargo();
    itself.args(["run", "--quiet", "--release", "--package", "xtask", "--features", "bench", "--"]);
    run_command(itself.args(std::env::args_os().skip(1)))
}
