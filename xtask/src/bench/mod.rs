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

use clap::{Args, Subcommand, ValueEnum};

use crate::run::{cargo, run as run_command};

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

/// The same command line, built as it must be to count.
fn again() -> anyhow::Result<()> {
    let mut itself = cargo();
    itself.args(["run", "--quiet", "--release", "--package", "xtask", "--features", "bench", "--"]);
    run_command(itself.args(std::env::args_os().skip(1)))
}
