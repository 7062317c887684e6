//! `cargo xtask bench probes`: how a storm of exec probes affects the latency of pod events.
//!
//! The agent is the one of `rubelet run`; its runtime is a separate process. Calm and storm take turns on the same
//! pods: their manifests, whose UIDs are fixed, gain probes and lose them again, which restarts no container.

mod agent;
mod ends;
mod synthetic;

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use rubelet_testbed::{BUSYBOX, Containerd, Flavor};

use super::events::embedded::Embedded;
use super::events::pods::Node;
use super::sample::quantile;
use super::verdict::{Verdict, conclude};
use super::{ProbedRuntime, ProbesArgs};
use agent::{Asked, BenchAgent};
use synthetic::Synthetic;

/// The number of turns of calm and storm.
const TURNS: usize = 3;

/// A change below this is none: two calm turns differ by as much.
const NOTHING: Duration = Duration::from_millis(2);

pub(super) fn run(args: &ProbesArgs) -> Result<()> {
    let rubelet = super::subject::build_rubelet()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!(
        "{} pods whose exec probes come to {} a second, next to the same pods without probes, in {TURNS} turns each.\n\
         Containers of other pods are killed meanwhile; until a subscriber of the agent's PLEG hears of it, with exit code.\n\
         Milliseconds, median (p99, most).\n\
         - events: after the runtime published the end, as a second, bare reader of its stream in the same process got it\n\
         - whole: after the container ended by the runtime's clock; this is the runtime's own time, too\n",
        args.pods, args.rate
    );
    let mut verdicts = Vec::new();
    for kind in &args.runtime {
        verdicts.extend(match kind {
            ProbedRuntime::Synthetic => {
                let synthetic = Synthetic::start()?;
                let node = Node::new(Synthetic::NAME, &synthetic.endpoint(), BUSYBOX)?;
                runtime.block_on(measure(&node, args))?
            }
            ProbedRuntime::Embedded => {
                let embedded = Embedded::start(&rubelet)?;
                let node = Node::new("embedded", &embedded.endpoint(), Embedded::IMAGE)?;
                runtime.block_on(measure(&node, args))?
            }
            ProbedRuntime::Containerd => {
                let containerd = Containerd::start(Flavor::V2)?;
                let node = Node::new("containerd 2", &containerd.endpoint(), BUSYBOX)?;
                runtime.block_on(measure(&node, args))?
            }
        });
    }
    conclude(&verdicts, args.check)
}

async fn measure(node: &Node, args: &ProbesArgs) -> Result<Vec<Verdict>> {
    let agent = BenchAgent::start(node, args).await?;
    let (mut calm, mut storm) = (Latencies::default(), Latencies::default());
    let mut asked = Asked::default();
    let samples = args.samples.div_ceil(TURNS);
    for turn in 0..TURNS {
        agent.probe(false).await?;
        calm.add(ends::measure(node, &agent.pleg(), samples, &format!("calm-{turn}")).await?);
        agent.probe(true).await?;
        let before = agent.asked()?;
        storm.add(ends::measure(node, &agent.pleg(), samples, &format!("storm-{turn}")).await?);
        // All probes are due at the same moment of each second: part of a second has all of them or none.
        let seconds = agent.asked()?.since(before).seconds();
        tokio::time::sleep(Duration::from_secs_f64(seconds.ceil() - seconds)).await;
        asked = asked.plus(agent.asked()?.since(before));
    }
    agent.stop().await?;
    let ratio = |share: f64, of: fn(&Latencies) -> &Vec<Duration>| {
        milliseconds(of(&storm), share) / milliseconds(of(&calm), share).max(0.001)
    };
    println!("{:<14} {:>5} {:>27} {:>27}", node.name, "ends", "events", "whole");
    println!("{:<14} {calm}", "  calm");
    println!("{:<14} {storm}", "  storm");
    println!(
        "{:<14} {:>5} {:>18.2} ({:>5.2}) {:>19.2} ({:>5.2})   median (p99)",
        "  ratio",
        "",
        ratio(0.5, |all| &all.events),
        ratio(0.99, |all| &all.events),
        ratio(0.5, |all| &all.whole),
        ratio(0.99, |all| &all.whole),
    );
    println!("  {asked}\n");
    Ok(verdicts(node.name, args, &calm, &storm, &asked))
}

fn verdicts(
    name: &str,
    args: &ProbesArgs,
    calm: &Latencies,
    storm: &Latencies,
    asked: &Asked,
) -> Vec<Verdict> {
    let unchanged = |what: &str, share: f64, of: fn(&Latencies) -> &Vec<Duration>| {
        let limit = milliseconds(of(calm), share) * 1.25 + NOTHING.as_secs_f64() * 1e3;
        let text = format!("{name}: {what} in the storm, in ms (1.25 times calm and 2 ms)");
        Verdict::at_most(&text, milliseconds(of(storm), share), limit)
    };
    let missing = (args.rate as f64 - asked.rate()).max(0.0);
    // A probe that does not run in time is late: either all of them run, or it shows here.
    let shown = if missing > 0.05 * args.rate as f64 { asked.mean_lateness() } else { f64::INFINITY };
    let mut verdicts = vec![
        unchanged("published to event, median", 0.5, |all| &all.events),
        unchanged("published to event, p99", 0.99, |all| &all.events),
        Verdict::at_least(&format!("{name}: seconds late, if not all can be asked in time"), shown, 0.001),
    ];
    if name == Synthetic::NAME {
        let text = format!("{name}: probes asked a second");
        verdicts.push(Verdict::at_least(&text, asked.rate(), 0.95 * args.rate as f64));
    }
    verdicts
}

/// How long after the end of a container it was reported.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    events: Vec<Duration>,
    whole: Vec<Duration>,
}

impl Latencies {
    fn add(&mut self, more: Self) {
        self.events.extend(more.events);
        self.whole.extend(more.whole);
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = |times: &[Duration]| {
            let [median, p99, most] = [0.5, 0.99, 1.0].map(|share| milliseconds(times, share));
            format!("{median:8.2} ({p99:7.2},{most:7.2})")
        };
        write!(f, "{:>5} {:>27} {:>27}", self.events.len(), column(&self.events), column(&self.whole))
    }
}

fn milliseconds(times: &[Duration], share: f64) -> f64 {
    quantile(times.iter().copied(), share).as_secs_f64() * 1e3
}
