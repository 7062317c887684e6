//! `rubelet run`: the arguments, and how they become a plan.

use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rubelet_agent::settings::PullRate;
use rubelet_cri::Endpoint;
use tracing_subscriber::EnvFilter;

use super::{complaint, set_umask};
use crate::endpoint::{ENVIRONMENT, endpoint_of_environment};
use crate::exit::Failure;
use crate::place::Place;
use crate::run::{Ended, FileConfig, Listen, NodeConfig, Plan, Remarks, RunError, run as run_plan};

/// The arguments of `rubelet run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Manifests are watched: pods are started, changed or stopped as their manifests are added, changed or removed. \
The first Ctrl-C stops the agent; the pods keep running, and the next `rubelet run` takes them over. `rubelet stop` stops pods.\n\n\
Exit codes:\n  \
0  stopped on request; with --once: all pods succeeded\n  \
1  local failure\n  \
2  wrong usage, or nothing to run\n  \
3  the runtime cannot be reached\n  \
5  with --once: not all pods succeeded\n\
See docs/exit-codes.md."
)]
pub(super) struct Args {
    /// Manifests, or folders with manifests
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A URL that serves a manifest; may be given more than once
    #[arg(long, value_name = "URL")]
    manifest_url: Vec<String>,
    /// A file with headers for that URL, one `Name: value` per line; needs a single URL
    #[arg(long, value_name = "FILE")]
    manifest_url_header_file: Option<PathBuf>,
    /// CRI socket of the runtime to use [default: `$CONTAINER_RUNTIME_ENDPOINT`, else the embedded runtime in this process]
    #[arg(long, short = 'r', value_name = "unix:///PATH")]
    runtime_endpoint: Option<Endpoint>,
    #[command(flatten)]
    place: Place,
    /// Folder for pod logs [default: /var/log/pods]
    #[arg(long, value_name = "DIR")]
    pod_logs_dir: Option<PathBuf>,
    /// Address of the HTTP server, or `off` [default: 127.0.0.1:10255]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,
    /// A `KubeletConfiguration` file; flags take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of the node; every pod's name ends with it [default: the host name]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Address of the node, or one of each family; probes of pods on the host's network go there [default: the host's]
    #[arg(long, value_name = "IP[,IP]", value_delimiter = ',')]
    node_ip: Vec<IpAddr>,
    /// Extra node labels for node selectors, beside `kubernetes.io/hostname`, `os` and `arch`
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',', value_parser = label)]
    node_labels: Vec<(String, String)>,
    /// Maximum number of pods [default: 110]
    #[arg(long, value_name = "NUMBER")]
    max_pods: Option<usize>,
    /// Folder with the CNI configuration for the embedded runtime; without it, pods that are not on the host's network have loopback only
    #[arg(long, value_name = "DIR", conflicts_with = "runtime_endpoint")]
    cni_conf_dir: Option<PathBuf>,
    /// Number of images to pull at the same time [default: 1]
    #[arg(long, value_name = "NUMBER")]
    parallel_pulls: Option<NonZeroUsize>,
    /// Record what the runtime does into this folder, for `rubelet replay`; the oldest files are removed when it is full
    #[arg(long, value_name = "DIR")]
    record_dir: Option<PathBuf>,
    /// Maximum size of that folder, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "record_dir", value_parser = clap::value_parser!(u64).range(1..))]
    record_size: u64,
    /// Run pods to completion, print their logs, remove them, and exit with their result
    #[arg(long)]
    once: bool,
    /// With --once: time limit for all pods, as in `10m`. Pods that are not done by then are named, removed and count as failed
    #[arg(long, value_name = "TIME", requires = "once", value_parser = crate::span::parse)]
    timeout: Option<Duration>,
    /// Print one line per change, as in a pipe, instead of a table on the terminal
    #[arg(long)]
    plain: bool,
}

fn label(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE"),
    }
}

/// The problems of manifests are not logged, because they are printed separately, once.
const USUAL_LOG: &str = "warn,rubelet_agent::source=off";

pub(super) fn run(args: &Args) -> ExitCode {
    let remarks = Remarks::open(!args.plain && !args.once);
    let wish = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|wish| !wish.trim().is_empty());
    let filter = EnvFilter::try_new(wish.as_deref().unwrap_or(USUAL_LOG)).unwrap_or_else(|error| {
        remarks.print(&format!("{} is invalid and has no effect: {error}", EnvFilter::DEFAULT_ENV));
        EnvFilter::new(USUAL_LOG)
    });
    let log = tracing_subscriber::fmt().with_ansi(std::io::stderr().is_terminal()).with_env_filter(filter);
    let writer = remarks.clone();
    log.with_writer(move || writer.clone()).init();
    let ended = run_with(args, &remarks);
    if let Err((_, why)) = &ended {
        remarks.print(&complaint(why));
    }
    remarks.end();
    let failure = match ended {
        Ok(ended) => failure_of(ended, args.once),
        Err((failure, _)) => Some(failure),
    };
    failure.map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// The exit code for a run that has ended in this way.
fn failure_of(ended: Ended, once: bool) -> Option<Failure> {
    match ended {
        // How its pods would have ended is unknown.
        Ended::Told if once => Some(Failure::Pods),
        Ended::Told | Ended::AllSucceeded => None,
        Ended::SomeFailed => Some(Failure::Pods),
    }
}

/// Runs the agent, and returns how the run ended, or why it could not start.
fn run_with(args: &Args, remarks: &Remarks) -> Result<Ended, (Failure, String)> {
    let config = match &args.config {
        Some(path) => FileConfig::load(path)
            .map_err(|error| (Failure::Usage, format!("{}: {error}", path.display())))?,
        None => FileConfig::default(),
    };
    if !config.ignored.is_empty() {
        let ignored = config.ignored.join(", ");
        remarks.print(&format!("these configuration fields have no effect: {ignored}"));
    }
    let named = match &args.runtime_endpoint {
        Some(endpoint) => Some(endpoint.clone()),
        None => {
            endpoint_of_environment().map_err(|error| (Failure::Usage, format!("{ENVIRONMENT}: {error}")))?
        }
    };
    if named.is_some() && args.cni_conf_dir.is_some() {
        let why = format!("--cni-conf-dir is for the embedded runtime, but {ENVIRONMENT} names another one");
        return Err((Failure::Usage, why));
    }
    let plan = args.plan(named, config, remarks.clone());
    set_umask();
    rubelet_runtime::memory::share_one_heap();
    rubelet_runtime::memory::map_only_what_is_touched();
    // One thread is enough: nothing here computes for long or blocks (`off_thread`), so a second one would only cost
    // wake-ups. The HTTP server has a thread of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| (Failure::System, error.to_string()))?;
    let ended = runtime.block_on(run_plan(plan));
    // Tasks that still wait for a disk or a child process must not keep this process from ending.
    runtime.shutdown_background();
    ended.map_err(|error| (failure(&error), error.to_string()))
}

impl Args {
    /// Combines the command line, the configuration file and the defaults, in this order of precedence.
    fn plan(&self, named: Option<Endpoint>, file: FileConfig, remarks: Remarks) -> Plan {
        let usual = Listen(Some(SocketAddr::from(([127, 0, 0, 1], 10255))));
        let paths = self.paths.iter().cloned();
        let urls = self.manifest_url.iter().cloned();
        Plan {
            paths: paths.chain(file.static_pod_path).collect(),
            urls: urls.collect(),
            configured_url: file.static_pod_url,
            url_header_file: self.manifest_url_header_file.clone(),
            runtime_endpoint: named.or(file.runtime_endpoint),
            place: self.place.clone(),
            record: self.record_dir.clone().map(|folder| (folder, self.record_size << 20)),
            pod_logs: absolute(
                self.pod_logs_dir.clone().or(file.pod_logs).unwrap_or_else(|| "/var/log/pods".into()),
            ),
            node_name: self.node_name.clone(),
            node_ips: self.node_ip.clone(),
            node_labels: self.node_labels.clone(),
            node: NodeConfig { max_pods: self.max_pods.or(file.node.max_pods), ..file.node },
            upkeep: file.upkeep,
            listen: self.listen.or(file.listen).unwrap_or(usual).0,
            cni_conf_dir: self.cni_conf_dir.clone(),
            parallel_pulls: self.parallel_pulls.map(NonZeroUsize::get).or(file.parallel_pulls).unwrap_or(1),
            pull_rate: PullRate {
                per_second: file.pulls_per_second.unwrap_or(PullRate::default().per_second),
                burst: file.pull_burst.unwrap_or(PullRate::default().burst),
            },
            resync: file.resync,
            longest_backoff: file.longest_backoff,
            oom_score: file.oom_score,
            file_poll: file.file_poll,
            url_poll: file.url_poll,
            resolv_conf: file.resolv_conf,
            cluster_dns: file.cluster_dns,
            cluster_domain: file.cluster_domain,
            once: self.once,
            timeout: self.timeout,
            remarks,
        }
    }
}

/// Makes a path absolute: runtimes get the paths of log files, and do not know the agent's working directory.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn failure(error: &RunError) -> Failure {
    match error {
        RunError::Sources(_)
        | RunError::NoPods
        | RunError::NodeName { .. }
        | RunError::AnotherRuntime { .. } => Failure::Usage,
        RunError::Runtime(_) => Failure::Runtime,
        RunError::NotRoot
        | RunError::Place(_)
        | RunError::Embedded(_)
        | RunError::Server(_)
        | RunError::Record(_)
        | RunError::LogThread(_)
        | RunError::Unshown(_)
        | RunError::LastAgent(_)
        | RunError::Lost(_) => Failure::System,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_be_told_to_end_is_a_success_but_for_those_who_wait_for_results() {
        assert_eq!(failure_of(Ended::Told, false), None);
        assert_eq!(failure_of(Ended::Told, true), Some(Failure::Pods));
        assert_eq!(failure_of(Ended::AllSucceeded, true), None);
        assert_eq!(failure_of(Ended::SomeFailed, true), Some(Failure::Pods));
    }
}
