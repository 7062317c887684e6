//! `cargo xtask bench agent`: how fast `rubelet run` is and what it costs, compared with bare calls to the runtime in
//! the same run.
//!
//! Each runtime is started twice, once for the agent and once for bare calls that nobody watches, and the two take
//! turns.

mod bare;
mod marks;
mod ours;
mod table;

use std::time::Duration;

use anyhow::Context;
use rubelet_testbed::{Containerd, Embedded, Flavor};

use self::bare::Bare;
use self::ours::Ours;
use self::table::Row;
use super::process::{anonymous_kib, cpu, rss_kib, usage};
use super::sample::{cpu_time, quantile};
use super::subject::{self, Subject};
use super::verdict::{Verdict, conclude};
use super::{AgentArgs, AgentRuntime};

const LEGEND: &str = "\
`rubelet run` on a folder of manifests, beside the same pods made by bare CRI calls on a second runtime of the same kind that
nobody watches. Pods are on the host's network, with one container of a busybox image that touches a file on a hostPath
first of all: its time is the container's first instruction. CPU and memory are those of /proc.";

/// The time until lists are as rare as they get.
const SETTLED_AFTER: Duration = Duration::from_secs(30);
/// The number of pods before the first that counts.
const WARM_UP: usize = 2;

pub(super) fn run(args: &AgentArgs) -> anyhow::Result<()> {
    let rubelet = subject::build_rubelet()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("{LEGEND}");
    let mut verdicts = Vec::new();
    if args.runtime != AgentRuntime::Embedded {
        let [theirs, watched] = [Containerd::start(Flavor::V2)?, Containerd::start(Flavor::V2)?];
        let place = tempfile::tempdir()?;
        let bare = Bare::new(Subject::new("containerd 2", &theirs.socket(), place.path())?)?;
        let pids = theirs.pid().zip(watched.pid()).context("containerd has ended")?;
        let setup = Setup { args, targets: Targets::CONTAINERD, containerds: Some(pids), bare };
        let ours = Ours::start(&rubelet, Some(watched.endpoint()));
        println!("\ncontainerd 2\n{}", Row::HEAD);
        verdicts.extend(runtime.block_on(async { setup.measure(ours.await?).await })?);
    }
    if args.runtime != AgentRuntime::Containerd {
        let embedded = subject::embedded(&rubelet)?;
        let setup = Setup { args, targets: Targets::EMBEDDED, containerds: None, bare: bare_of(&embedded)? };
        let ours = Ours::start(&rubelet, None);
        println!("\nembedded: the agent's process has the runtime inside\n{}", Row::HEAD);
        verdicts.extend(runtime.block_on(async { setup.measure(ours.await?).await })?);
    }
    conclude(&verdicts, args.check)
}

fn bare_of(embedded: &Embedded) -> anyhow::Result<Bare> {
    Bare::new(Subject::new("embedded", &embedded.socket(), embedded.dir())?)
}

/// Upper limits, in the units of the table.
#[derive(Clone, Copy, Debug)]
struct Targets {
    name: &'static str,
    added: f64,
    replaced: Option<(f64, f64)>,
    burst: Option<f64>,
    burst_cpu: Option<f64>,
    idle_cpu: Option<f64>,
    rss: Option<f64>,
    removed: Option<f64>,
}

impl Targets {
    const CONTAINERD: Self = Self {
        name: "containerd 2",
        added: 0.20,
        replaced: Some((0.10, 0.13)),
        burst: Some(8.0),
        burst_cpu: Some(0.2),
        idle_cpu: Some(0.1),
        rss: Some(15.0),
        removed: Some(2.0),
    };
    /// The cost of the agent cannot be separated from that of its runtime.
    const EMBEDDED: Self = Self {
        name: "embedded",
        added: 0.06,
        replaced: None,
        burst: None,
        burst_cpu: None,
        idle_cpu: Some(0.1),
        rss: None,
        removed: None,
    };
    /// The CPU time that containerd itself uses for an idle agent.
    const CONTAINERD_IDLE: f64 = 0.3;
    const READY: f64 = 1.0;
}

/// A runtime to measure on.
struct Setup<'a> {
    args: &'a AgentArgs,
    targets: Targets,
    /// The process ids of the unwatched one, and of the agent's.
    containerds: Option<(u32, u32)>,
    bare: Bare,
}

impl Setup<'_> {
    async fn measure(mut self, mut ours: Ours) -> anyhow::Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        let mut tell = |rows: Vec<Row>, name: &str| {
            for row in rows {
                println!("{row}");
                verdicts.extend(row.verdict(name));
            }
        };
        let name = self.targets.name;
        // Nothing is removed before the burst: ext4 does not reuse an inode that was freed in the last minutes, but
        // searches past each of them whenever a file is created, which would count as CPU time of the creator.
        tell(self.burst(&ours).await?, name);
        tell(self.idle(&ours).await?, name);
        tell(self.restart(&mut ours).await?, name);
        tell(self.removal(&ours).await?, name);
        tell(self.single(&ours).await?, name);
        Ok(verdicts)
    }

    /// Adds, kills and removes pods one after another.
    async fn single(&mut self, ours: &Ours) -> anyhow::Result<Vec<Row>> {
        let mut added = Pairs::default();
        let mut replaced = Pairs::default();
        for round in 0..WARM_UP + self.args.rounds {
            let of_bare = (self.bare.add(round).await?, self.bare.replace(round).await?);
            self.bare.remove_all().await?;
            let of_ours = (ours.add(round).await?, ours.replace(round).await?);
            ours.remove(round..round + 1)?;
            ours.settled(0).await?;
            if round >= WARM_UP {
                added.push(of_bare.0, of_ours.0);
                replaced.push(of_bare.1, of_ours.1);
            }
        }
        let limits = self.targets.replaced;
        Ok(vec![
            added.row("manifest dropped → first instruction, median", 0.5, Some(self.targets.added)),
            replaced.row(
                "killed → replacement's first instruction, median",
                0.5,
                limits.map(|limits| limits.0),
            ),
            replaced.row(
                "killed → replacement's first instruction, most",
                1.0,
                limits.map(|limits| limits.1),
            ),
        ])
    }

    /// Adds many pods at once. They stay.
    async fn burst(&mut self, ours: &Ours) -> anyhow::Result<Vec<Row>> {
        let pods = numbers(0, self.args.burst);
        let before = cpu_time();
        let bare = self.bare.add_all(pods.clone()).await?;
        let bare_cpu = cpu_time() - before;
        let pid = ours.pid()?;
        let before = cpu(pid)?;
        let took = ours.add_all(pods).await?;
        ours.settled(self.args.burst).await?;
        let spent = cpu(pid)? - before;
        let row = |what, bare: Duration, ours: Duration, target| Row {
            what,
            unit: "s",
            bare: Some(bare.as_secs_f64()),
            ours: ours.as_secs_f64(),
            target,
        };
        Ok(vec![
            row("manifests dropped at once → all running", bare, took, self.targets.burst),
            row("CPU of the agent for those (bare: of the caller)", bare_cpu, spent, self.targets.burst_cpu),
        ])
    }

    async fn idle(&mut self, ours: &Ours) -> anyhow::Result<Vec<Row>> {
        let more = numbers(self.args.burst, self.args.pods);
        self.bare.add_all(more.clone()).await?;
        ours.add_all(more).await?;
        ours.settled(self.args.burst.max(self.args.pods)).await?;
        tokio::time::sleep(SETTLED_AFTER).await;
        let (window, agent) = (Duration::from_secs(self.args.seconds), ours.pid()?);
        let daemons =
            || self.containerds.map(|(bare, ours)| anyhow::Ok((usage(bare)?, usage(ours)?))).transpose();
        let before = (usage(agent)?, daemons()?);
        tokio::time::sleep(window).await;
        let (after, daemons) = (usage(agent)?, daemons()?);
        let spent = after.since(&before.0);
        let mut rows = vec![
            Row {
                what: "idle: CPU of the agent, of a core",
                unit: "%",
                bare: None,
                ours: spent.percent(window),
                target: self.targets.idle_cpu,
            },
            Row {
                what: "idle: wake-ups of the agent, a second",
                unit: "",
                bare: None,
                ours: spent.wakeups as f64 / window.as_secs_f64(),
                target: None,
            },
        ];
        if let Some(((bare, ours), (bare_before, ours_before))) = daemons.zip(before.1) {
            let [bare, ours] = [(bare, bare_before), (ours, ours_before)]
                .map(|(after, before)| after.since(&before).percent(window));
            rows.push(Row {
                what: "idle: CPU of containerd (bare: nobody there)",
                unit: "%",
                bare: Some(bare),
                ours,
                target: None,
            });
            rows.push(Row {
                what: "idle: CPU of containerd for the agent",
                unit: "%",
                bare: None,
                ours: (ours - bare).max(0.0),
                target: Some(Targets::CONTAINERD_IDLE),
            });
        }
        rows.push(Row {
            what: "idle: RSS of the agent",
            unit: "MiB",
            bare: None,
            ours: rss_kib(agent)? as f64 / 1024.0,
            target: self.targets.rss,
        });
        rows.push(Row {
            what: "idle: of that its own, not pages of files",
            unit: "MiB",
            bare: None,
            ours: anonymous_kib(agent)? as f64 / 1024.0,
            target: None,
        });
        Ok(rows)
    }

    /// Restarts the agent while many pods run.
    async fn restart(&self, ours: &mut Ours) -> anyhow::Result<Vec<Row>> {
        let (few, many) = (self.args.burst.max(self.args.pods), self.args.restart_pods);
        let more = numbers(few, many);
        ours.add_all(more.clone()).await?;
        ours.settled(few.max(many)).await?;
        let before = ours.marks.processes();
        ours.stop_agent()?;
        let ready = ours.start_agent().await?;
        let pods = ours.settled(few.max(many)).await?;
        let restarts = |pod: &serde_json::Value| {
            pod["status"]["containerStatuses"][0]["restartCount"].as_i64() != Some(0)
        };
        let disturbed =
            pods.iter().filter(|pod| restarts(pod)).count() + usize::from(ours.marks.processes() != before);
        ours.remove(more)?;
        ours.settled(few).await?;
        Ok(vec![
            Row {
                what: "agent started with many pods → ready (bare: lists)",
                unit: "s",
                bare: Some(self.bare.lists().await?.as_secs_f64()),
                ours: ready.as_secs_f64(),
                target: Some(Targets::READY),
            },
            Row {
                what: "containers restarted by that",
                unit: "",
                bare: None,
                ours: disturbed as f64,
                target: Some(0.0),
            },
        ])
    }

    async fn removal(&mut self, ours: &Ours) -> anyhow::Result<Vec<Row>> {
        let bare = self.bare.remove_all().await?;
        let begin = marks::Moment::now();
        ours.remove(numbers(0, self.args.burst.max(self.args.pods)))?;
        let took = ours.marks.gone(begin).await?;
        ours.settled(0).await?;
        Ok(vec![Row {
            what: "all manifests removed, grace 0 → processes gone",
            unit: "s",
            bare: Some(bare.as_secs_f64()),
            ours: took.as_secs_f64(),
            target: self.targets.removed,
        }])
    }
}

/// A new range of numbers, since earlier pods have used theirs.
fn numbers(from: usize, to: usize) -> std::ops::Range<usize> {
    const FIRST: usize = 1_000;
    FIRST + from..FIRST + to.max(from)
}

/// Pairs of measurements of the same work: bare, and with the agent.
#[derive(Debug, Default)]
struct Pairs(Vec<(Duration, Duration)>);

impl Pairs {
    fn push(&mut self, bare: Duration, ours: Duration) {
        self.0.push((bare, ours));
    }

    fn row(&self, what: &'static str, share: f64, target: Option<f64>) -> Row {
        let bare = quantile(self.0.iter().map(|pair| pair.0), share).as_secs_f64();
        let ours = quantile(self.0.iter().map(|pair| pair.1), share).as_secs_f64();
        Row { what, unit: "s", bare: Some(bare), ours, target }
    }
}
