//! A process that does one piece of work for every line on its standard input, and answers with a line.
//!
//! A worker has one thread. It ends when its standard input does.

use std::future::Future;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use tokio::io::AsyncBufReadExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::super::process::own_peak_kib;
use super::super::sample::{Sample, cpu_time};
use super::{agent, bare, node};

#[derive(Args)]
pub(crate) struct WorkerArgs {
    role: Role,
    #[arg(long)]
    socket: PathBuf,
    #[arg(long)]
    pods: usize,
    /// The number of containers in each pod
    #[arg(long)]
    containers: usize,
}

/// The role of a worker.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::bench) enum Role {
    /// The synthetic runtime
    Node,
    /// A PLEG on that runtime
    Agent,
    /// The bare list calls to that runtime
    Bare,
}

/// The pods of a node.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Population {
    pub(in crate::bench) pods: usize,
    /// The number of containers in each pod.
    pub(in crate::bench) containers: usize,
}

pub(in crate::bench) fn run(args: &WorkerArgs) -> anyhow::Result<()> {
    let population = Population { pods: args.pods, containers: args.containers };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match args.role {
            Role::Node => node::work(&args.socket, population).await,
            Role::Agent => agent::work(&args.socket, population).await,
            Role::Bare => bare::work(&args.socket).await,
        }
    })
}

/// Work that a worker does when asked.
pub(in crate::bench) trait Work {
    /// Does it once; `number` is the number on the line of the request.
    fn once(&mut self, number: u64) -> impl Future<Output = anyhow::Result<()>>;

    /// Prepares for the next time, while nothing is measured.
    async fn rest(&mut self) {}
}

/// Reports that the worker is ready, and then works until its input ends.
pub(in crate::bench) async fn serve(mut work: impl Work) -> anyhow::Result<()> {
    let stdin = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let mut orders = tokio::io::BufReader::new(stdin).lines();
    work.rest().await;
    answer(Sample::default())?;
    while let Some(order) = orders.next_line().await? {
        let number = order.trim().parse()?;
        let (start, cpu_before) = (Instant::now(), cpu_time());
        work.once(number).await?;
        let wall = start.elapsed();
        // What it defers is part of the work too.
        tokio::task::yield_now().await;
        let cpu = cpu_time() - cpu_before;
        work.rest().await;
        answer(Sample { wall, cpu, peak_kib: own_peak_kib()? })?;
    }
    Ok(())
}

fn answer(sample: Sample) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", sample.to_line())?;
    stdout.flush()
}

/// A worker, seen from outside. Dropping it ends the worker.
#[derive(Debug)]
pub(in crate::bench) struct Worker {
    role: Role,
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a worker, and returns when it is ready.
    pub(in crate::bench) fn start(role: Role, socket: &Path, population: Population) -> anyhow::Result<Self> {
        let name = role.to_possible_value().context("every role has a name")?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "worker", name.get_name()])
            .arg("--socket")
            .arg(socket)
            .args(["--pods", &population.pods.to_string()])
            .args(["--containers", &population.containers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("no standard input")?;
        let answers = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut worker = Self { role, child, orders, answers };
        worker.answer()?;
        Ok(worker)
    }

    /// Makes it work once.
    pub(in crate::bench) fn work(&mut self, number: usize) -> anyhow::Result<Sample> {
        writeln!(self.orders, "{number}")?;
        self.answer()
    }

    fn answer(&mut self) -> anyhow::Result<Sample> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the {:?} process ended", self.role);
        }
        Sample::from_line(&line)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
