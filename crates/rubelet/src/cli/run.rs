//! `rubelet run`: the arguments, and how they become a run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use rubelet_cri::Endpoint;
use tracing_subscriber::EnvFilter;

use super::fail;
use crate::exit::Failure;
use crate::place::Place;
use crate::run::{Ended, Plan, RunError, run as run_plan};

/// The arguments of `rubelet run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Manifests are watched: what is added, changed or removed there is started, changed or ended here. \
The first Ctrl-C ends the agent; pods go on, and `rubelet run` takes over again. `rubelet stop` ends pods.\n\n\
Ends with 0 when told to, or with --once when all pods succeeded; with 5 if some of them failed; with 1 if the machine \
does not let it; with 2 for a wrong command line; with 3 if the runtime cannot be reached."
)]
pub(super) struct Args {
    /// Manifests, or folders of them
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A URL that serves a manifest; may be given more than once
    #[arg(long, value_name = "URL")]
    manifest_url: Vec<String>,
    /// A file with headers for that URL, one `Name: value` a line
    #[arg(long, value_name = "FILE", requires = "manifest_url")]
    manifest_url_header_file: Option<PathBuf>,
    /// The CRI socket of the runtime to use [default: the embedded one, started inside]
    #[arg(long, short = 'r', value_name = "unix:///PATH", env = "CONTAINER_RUNTIME_ENDPOINT")]
    runtime_endpoint: Option<Endpoint>,
    #[command(flatten)]
    place: Place,
    /// Where the logs of pods are
    #[arg(long, value_name = "DIR", default_value = "/var/log/pods")]
    pod_logs_dir: PathBuf,
    /// Where to answer HTTP, or `off`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10255")]
    listen: Listen,
    /// What the node is called; it is part of every pod's name [default: the host's name]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Where the CNI configuration for the embedded runtime is; without it, pods off the host's network have loopback only
    #[arg(long, value_name = "DIR", conflicts_with = "runtime_endpoint")]
    cni_conf_dir: Option<PathBuf>,
    /// How many images to fetch at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    parallel_pulls: usize,
    /// Run the pods to their end, show their logs, take them down, and end with their result
    #[arg(long)]
    once: bool,
}

/// An address, or none.
#[derive(Clone, Copy, Debug)]
struct Listen(Option<SocketAddr>);

impl FromStr for Listen {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" { Ok(Self(None)) } else { text.parse().map(|address| Self(Some(address))) }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    let filter = EnvFilter::try_from_env("RUBELET_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).init();
    let plan = Plan {
        paths: args.paths.clone(),
        urls: args.manifest_url.clone(),
        url_header_file: args.manifest_url_header_file.clone(),
        runtime_endpoint: args.runtime_endpoint.clone(),
        place: args.place.clone(),
        pod_logs: args.pod_logs_dir.clone(),
        node_name: args.node_name.clone(),
        listen: args.listen.0,
        cni_conf_dir: args.cni_conf_dir.clone(),
        parallel_pulls: args.parallel_pulls,
        once: args.once,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(Failure::System, &error),
    };
    let ended = runtime.block_on(run_plan(plan));
    // What still waits for a disk or a child must not keep us from ending.
    runtime.shutdown_background();
    match ended {
        Ok(Ended::Told | Ended::AllSucceeded) => ExitCode::SUCCESS,
        Ok(Ended::SomeFailed) => Failure::Pods.into(),
        Err(error) => fail(failure(&error), &error),
    }
}

fn failure(error: &RunError) -> Failure {
    match error {
        RunError::NothingToRun | RunError::NoManifest { .. } | RunError::BadUrl(_) => Failure::Usage,
        RunError::Runtime(_) => Failure::Runtime,
        RunError::Place(_) | RunError::Embedded(_) | RunError::Server(_) => Failure::System,
    }
}
