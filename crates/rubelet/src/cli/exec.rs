//! `rubelet exec`: a command in a container.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use rubelet_cri::{Endpoint, ListFilter, Metrics, Options, RuntimeClient};
use rubelet_model::{ContainerState, PodUid};

use crate::exit::Failure;
use crate::local::{Local, LocalArgs, Unreachable};
use crate::pods::{NotOne, PodName, Pods};

/// The arguments of `rubelet exec`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a terminal and without input; the output comes when the command has ended. Ends with the \
command's own code."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    /// The pod: `name` or `namespace/name`
    #[arg(value_name = "POD")]
    pod: PodName,
    /// The container [default: the only one that runs]
    #[arg(long, short)]
    container: Option<String>,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum ExecError {
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    #[error("{0}")]
    NotOne(#[from] NotOne),
    #[error("no container of this pod runs")]
    NothingRuns,
    #[error("say which container with -c: {}", .0.join(", "))]
    WhichContainer(Vec<String>),
    #[error("{}", .0.explanation())]
    Call(rubelet_cri::Error),
}

impl ExecError {
    fn failure(&self) -> Failure {
        match self {
            Self::Unreachable(error) => error.failure(),
            Self::NotOne(_) | Self::NothingRuns | Self::WhichContainer(_) => Failure::Usage,
            Self::Call(_) => Failure::Runtime,
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        match exec(args).await {
            Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(255)),
            Err(error) => super::fail(error.failure(), &error),
        }
    })
}

async fn exec(args: &Args) -> Result<i32, ExecError> {
    let local = args.local.reach().await?;
    let rows = Pods::of(&local).await?.rows();
    let uid = PodUid::from(args.pod.find(&rows, &local.node_name())?.uid.as_str());
    let client = match &local {
        Local::Runtime(lone) => lone.client.clone(),
        Local::Agent(agent) => {
            let endpoint: Endpoint = agent.about.runtime_endpoint.parse().map_err(Unreachable::Endpoint)?;
            RuntimeClient::new(endpoint, Options::default(), Metrics::default())
        }
    };
    let listed = client.list_pods(&ListFilter::Pod(&uid)).await.map_err(ExecError::Call)?;
    let running: Vec<_> = listed
        .pods
        .iter()
        .flat_map(|pod| &pod.containers)
        .filter(|container| container.state == ContainerState::Running)
        .filter(|container| args.container.as_ref().is_none_or(|name| **name == *container.name))
        .collect();
    let container = match running[..] {
        [] => return Err(ExecError::NothingRuns),
        [one] => one,
        _ => {
            return Err(ExecError::WhichContainer(running.iter().map(|one| one.name.to_string()).collect()));
        }
    };
    let answer =
        client.exec_sync(&container.id, &args.command, Duration::ZERO).await.map_err(ExecError::Call)?;
    // Whoever does not read the output still gets the code.
    let _ = std::io::stdout().write_all(&answer.stdout);
    let _ = std::io::stderr().write_all(&answer.stderr);
    Ok(answer.exit_code)
}
