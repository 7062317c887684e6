//! The cost of waiting for something to happen.

use std::fmt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

use super::super::process::{Spent, usage};
use super::super::verdict::Verdict;
use super::pods::Node;

/// The number of pods created at a time.
const AT_A_TIME: usize = 4;
/// The time until lists are as rare as they get.
const SETTLED_AFTER: Duration = Duration::from_secs(30);

pub(super) fn legend(pods: usize, seconds: u64) -> String {
    format!(
        "{pods} idle pods with a container each, on containerd 2, for {seconds} s each: with nobody there, with `rubelet \
         watch`, and\nwith `rubelet watch --events off`, which lists once a second. Wake-ups are voluntary context \
         switches of all threads."
    )
}

pub(super) async fn measure(
    node: &Node,
    containerd: u32,
    rubelet: &Path,
    pods: usize,
    seconds: u64,
) -> Result<Costs> {
    make_pods(node, pods).await?;
    let window = Duration::from_secs(seconds);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = usage(containerd)?;
    tokio::time::sleep(window).await;
    let nobody = usage(containerd)?.since(&before);
    let mut costs = Costs { window, nobody, events: Cost::default(), relist: Cost::default() };
    for (events, cost) in [("auto", &mut costs.events), ("off", &mut costs.relist)] {
        let watch = Watch::start(rubelet, &node.endpoint(), events)?;
        tokio::time::sleep(SETTLED_AFTER).await;
        let before = (usage(watch.pid())?, usage(containerd)?);
        tokio::time::sleep(window).await;
        *cost = Cost {
            watch: usage(watch.pid())?.since(&before.0),
            containerd: usage(containerd)?.since(&before.1),
        };
    }
    Ok(costs)
}

/// Creates pods, which are removed together with their containerd.
async fn make_pods(node: &Node, pods: usize) -> Result<()> {
    let mut under_way = JoinSet::new();
    for number in 0..pods {
        if under_way.len() == AT_A_TIME
            && let Some(made) = under_way.join_next().await
        {
            made??;
        }
        let node = node.clone();
        under_way.spawn(async move {
            let client = node.client();
            let pod = node.run_pod(&client, &format!("idle-{number}")).await?;
            pod.start_sleeper(&client, "main").await?;
            anyhow::Ok(())
        });
    }
    while let Some(made) = under_way.join_next().await {
        made??;
    }
    Ok(())
}

struct Watch(Child);

impl Watch {
    fn start(rubelet: &Path, endpoint: &str, events: &str) -> Result<Self> {
        let child = Command::new(rubelet)
            .args(["watch", "-o", "json", "--events", events, "-r", endpoint])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    watch: Spent,
    containerd: Spent,
}

#[derive(Debug)]
pub(super) struct Costs {
    window: Duration,
    nobody: Spent,
    events: Cost,
    relist: Cost,
}

impl Costs {
    /// The share of one core, in percent.
    fn percent(&self, spent: Spent) -> f64 {
        spent.percent(self.window)
    }

    fn per_second(&self, spent: Spent) -> f64 {
        spent.wakeups as f64 / self.window.as_secs_f64()
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let watch = self.events.watch;
        // What containerd does without any client is not caused by us.
        let caused = |cost: Cost| cost.containerd.cpu.saturating_sub(self.nobody.cpu).as_secs_f64();
        let ratio = caused(self.events) / caused(self.relist);
        vec![
            Verdict::at_most("idle: CPU of `rubelet watch`, in % of a core", self.percent(watch), 0.1),
            Verdict::at_most("idle: wake-ups of `rubelet watch` a second", self.per_second(watch), 2.0),
            Verdict::at_most(
                "idle: what containerd's CPU does for us, with events / with a relist",
                ratio,
                0.1,
            ),
        ]
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "             CPU of watch  wake-ups a second  CPU of containerd")?;
        writeln!(
            f,
            "nobody                  –                  –           {:6.3} %",
            self.percent(self.nobody)
        )?;
        for (name, cost) in [("events", self.events), ("relist", self.relist)] {
            writeln!(
                f,
                "{name:<12} {:10.4} % {:18.2} {:16.3} %",
                self.percent(cost.watch),
                self.per_second(cost.watch),
                self.percent(cost.containerd),
            )?;
        }
        let whole = self.events.containerd.cpu.as_secs_f64() / self.relist.containerd.cpu.as_secs_f64();
        write!(f, "all of containerd's CPU, with events / with a relist: {whole:.2}")
    }
}
