//! `cargo xtask bench relist`: the full relist, compared with its two list calls.

mod agent;
mod bare;
mod node;
pub(super) mod worker;

use std::time::Duration;

use self::worker::{Population, Role, Worker};
use super::RelistArgs;
use super::sample::Samples;
use super::verdict::{Verdict, conclude};

/// The share of all pods that change between two relists, if any do.
const CHANGING: f64 = 0.01;

pub(super) fn run(args: &RelistArgs) -> anyhow::Result<()> {
    println!(
        "A full relist of the PLEG (two lists, decode, assemble, diff, commit, publish) on a synthetic containerd,\n\
         over a unix socket, next to the two list calls alone on the same transport with their answers thrown away.\n\
         Runtime, agent (PLEG and one subscriber, one thread) and bare caller are processes of their own; {} rounds,\n\
         in each a bare call and a relist in turn. Milliseconds, median (p99).\n\
         - our share: the CPU of a relist minus the CPU of the bare calls: decode, assemble, diff, commit, publish\n\
         - 1 % changed: in one of a hundred pods a container was replaced; until the last event was heard\n\
         - first: from the start of the agent until every pod was inspected and told\n\
         - peak RSS: VmHWM of the agent, first relist included\n",
        args.rounds
    );
    println!("{}", Row::HEAD);
    let mut rows = Vec::new();
    for &containers in &args.containers {
        for per_pod in [2, 1] {
            let population = Population { pods: (containers / per_pod).max(1), containers: per_pod };
            let row = measure(population, args.rounds)?;
            println!("{row}");
            rows.push(row);
        }
    }
    let verdicts: Vec<Verdict> = rows.iter().flat_map(Row::verdicts).collect();
    conclude(&verdicts, args.check)
}

fn measure(population: Population, rounds: usize) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("cri.sock");
    let mut node = Worker::start(Role::Node, &socket, population)?;
    let mut bare_worker = Worker::start(Role::Bare, &socket, population)?;
    let start = tokio::time::Instant::now();
    let mut agent = Worker::start(Role::Agent, &socket, population)?;
    let first = start.elapsed();

    let (mut bare, mut whole, mut changed) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..3 {
        bare_worker.work(0)?;
        agent.work(0)?;
    }
    for round in 0..rounds {
        if round % 2 == 0 {
            bare.push(bare_worker.work(0)?);
            whole.push(agent.work(0)?);
        } else {
            whole.push(agent.work(0)?);
            bare.push(bare_worker.work(0)?);
        }
    }
    let changing = ((population.pods as f64 * CHANGING) as usize).max(1);
    for _ in 0..rounds.div_ceil(5) {
        node.work(changing)?;
        // Three events each: it died and was removed (it had not been seen to exit), and its successor started.
        changed.push(agent.work(changing * 3)?);
    }
    Ok(Row { population, bare, whole, changed, first })
}

struct Row {
    population: Population,
    bare: Samples,
    whole: Samples,
    changed: Samples,
    first: Duration,
}

impl Row {
    const HEAD: &'static str = "\
        containers   pods        bare calls      whole relist  ratio      1 % changed   CPU bare  CPU whole  our share      first   peak RSS";

    fn containers(&self) -> usize {
        self.population.pods * self.population.containers
    }

    fn ratio(&self) -> f64 {
        self.whole.median().wall.as_secs_f64() / self.bare.median().wall.as_secs_f64()
    }

    /// The CPU time that the agent uses in a relist beyond what the bare calls need.
    fn share(&self) -> Duration {
        self.whole.median().cpu.saturating_sub(self.bare.median().cpu)
    }

    fn peak_mib(&self) -> f64 {
        self.changed.quantile(1.0).peak_kib as f64 / 1024.0
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let whole = milliseconds(self.whole.median().wall);
        let at_most = |what: &str, is: f64, limit: f64| {
            let (containers, pods) = (self.containers(), self.population.pods);
            Verdict::at_most(&format!("{what} of {containers} containers in {pods} pods"), is, limit)
        };
        match self.containers() {
            1000 => vec![at_most("whole relist in ms", whole, 12.0)],
            10_000 => vec![
                at_most("our share in ms", milliseconds(self.share()), 15.0),
                at_most("whole relist / bare calls", self.ratio(), 1.3),
                at_most("whole relist in ms", whole, 120.0),
                at_most("peak RSS in MiB", self.peak_mib(), 40.0),
            ],
            _ => Vec::new(),
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let walls = |samples: &Samples| {
            let (median, p99) = (samples.median().wall, samples.p99().wall);
            format!("{:7.2} ({:7.2})", milliseconds(median), milliseconds(p99))
        };
        write!(
            f,
            "{:10} {:6} {:>17} {:>17} {:6.2} {:>17} {:10.2} {:10.2} {:10.2} {:10.1} {:6.1} MiB",
            self.containers(),
            self.population.pods,
            walls(&self.bare),
            walls(&self.whole),
            self.ratio(),
            walls(&self.changed),
            milliseconds(self.bare.median().cpu),
            milliseconds(self.whole.median().cpu),
            milliseconds(self.share()),
            milliseconds(self.first),
            self.peak_mib(),
        )
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
