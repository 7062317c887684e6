//! `rubelet stop`: ends pods.

use std::process::ExitCode;
use std::time::Duration;

use rubelet_model::ContainerState;

use crate::http::StopRequest;
use crate::local::{AgentClient, Local, LocalArgs, LoneRuntime, Unreachable};
use crate::pods::{NotChosen, PodName, Pods, Row};

/// How often to look whether pods have ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long a container gets if nobody says.
const GRACE: u64 = 30;

/// The arguments of `rubelet stop`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With an agent, a pod stays ended until its manifest changes or the agent is started again; to end it \
for good, remove its manifest. Without one, pods are ended in the runtime and removed."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    /// The pod: `name` or `namespace/name`
    #[arg(value_name = "POD", required_unless_present = "all", conflicts_with = "all")]
    pod: Option<PodName>,
    /// All pods
    #[arg(long)]
    all: bool,
    /// How many seconds containers get to end by themselves [default: what their pod says]
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u64>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        match stop(args).await {
            Ok(0) => {
                anstream::eprintln!("no pod runs");
                ExitCode::SUCCESS
            }
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => super::fail(error.failure(), &error),
        }
    })
}

/// Ends pods; gives how many.
async fn stop(args: &Args) -> Result<usize, NotChosen> {
    let local = args.local.reach().await?;
    let rows = Pods::of(&local).await?.rows();
    let wanted: Vec<&Row> = match &args.pod {
        Some(name) => vec![name.find(&rows, &super::node_name())?],
        None => match &local {
            // What others made in a shared runtime is not ours to end.
            Local::Runtime(_) => rows.iter().filter(|row| args.local.made(&row.uid)).collect(),
            Local::Agent(_) => rows.iter().collect(),
        },
    };
    match &local {
        Local::Agent(agent) => stop_by_agent(agent, args, &wanted).await?,
        Local::Runtime(LoneRuntime { client, .. }) => {
            let grace = Duration::from_secs(args.grace_period.unwrap_or(GRACE));
            stop_in_runtime(client, grace, &wanted).await.map_err(Unreachable::Runtime)?;
            for row in &wanted {
                args.local.forget(&row.uid);
            }
        }
    }
    for row in &wanted {
        super::show(&format!("{}/{} has ended\n", row.namespace, row.name));
    }
    Ok(wanted.len())
}

async fn stop_by_agent(agent: &AgentClient, args: &Args, wanted: &[&Row]) -> Result<(), Unreachable> {
    for row in wanted {
        agent.stop(&StopRequest { uid: Some(row.uid.clone()), grace: args.grace_period }).await?;
    }
    loop {
        let pods = agent.pods().await?;
        let still_runs = |row: &&Row| {
            pods.iter().any(|info| {
                info.pod.metadata.uid.as_deref() == Some(row.uid.as_str()) && info.stage != "terminated"
            })
        };
        if !wanted.iter().any(still_runs) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn stop_in_runtime(
    client: &rubelet_cri::RuntimeClient,
    grace: Duration,
    wanted: &[&Row],
) -> Result<(), rubelet_cri::Error> {
    for row in wanted {
        let uid = rubelet_model::PodUid::from(row.uid.as_str());
        let listed = client.list_pods(&rubelet_cri::ListFilter::Pod(&uid)).await?;
        for pod in listed.pods {
            for container in pod.containers.iter().filter(|one| one.state == ContainerState::Running) {
                client.stop_container(&container.id, grace).await?;
            }
            for sandbox in &pod.sandboxes {
                client.stop_pod_sandbox(&sandbox.id).await?;
            }
            for container in &pod.containers {
                client.remove_container(&container.id).await?;
            }
            for sandbox in &pod.sandboxes {
                client.remove_pod_sandbox(&sandbox.id).await?;
            }
        }
    }
    Ok(())
}
