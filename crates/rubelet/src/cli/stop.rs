//! `rubelet stop`: stops pods.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::join_all;
use rubelet_agent::pod::{EndedWithoutAgent, LoneContainer};
use rubelet_agent::runtime::{CallError, CriRuntime};
use rubelet_cri::RuntimeClient;
use rubelet_model::{ContainerState, RuntimePod, SandboxState};

use crate::clean::{clean, clean_lines};
use crate::http::StopRequest;
use crate::local::{
    AgentClient, AgentError, EndError, Local, LocalArgs, LoneRuntime, Need, Unreachable, again_if_ended,
};
use crate::log::remark;
use crate::pods::{NotChosen, PodName, Pods, Row};

/// How often to check whether pods have ended.
const LOOK: Duration = Duration::from_millis(50);

/// The arguments of `rubelet stop`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "rubelet stop [OPTIONS] <POD|--all>",
    after_help = "A stopped pod stays stopped until its manifest changes or the agent restarts; a pod whose restartPolicy would \
not restart it is finished for good. To stop a pod for good, remove its manifest.\n\n\
Without an agent, pods are stopped in the runtime, all containers of a pod at once, after their preStop hooks, and removed."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    /// The pod: `name` or `namespace/name`
    #[arg(value_name = "POD", required_unless_present = "all", conflicts_with = "all")]
    pod: Option<PodName>,
    /// Only pods in this namespace
    #[arg(long, short)]
    namespace: Option<String>,
    /// Stop all pods
    #[arg(long)]
    all: bool,
    /// Seconds that containers get to exit by themselves [default: the pod's grace period]
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u64>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        match again_if_ended(async || stop(args).await, NotChosen::has_ended).await {
            Ok(0) => {
                remark("no pods are running");
                ExitCode::SUCCESS
            }
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => super::fail(error.failure(), &error),
        }
    })
}

/// Stops pods, and returns how many.
async fn stop(args: &Args) -> Result<usize, NotChosen> {
    let local = args.local.reach(Need::Folder).await?;
    let pods = Pods::of(&local).await?;
    let mut rows = pods.rows();
    if let Local::Runtime(lone) = &local {
        rows.extend(args.local.only_in_folder(lone).await?.into_iter().map(Row::of_folder));
    }
    // In a shared runtime, pods that others have created must not be stopped.
    let is_ours = |row: &&Row| matches!(local, Local::Agent(_)) || args.local.made(&row.uid);
    let wanted: Vec<&Row> = match &args.pod {
        Some(name) => {
            let name = name.clone().in_namespace(args.namespace.as_deref());
            let node = local.node_name();
            let ours: Vec<&Row> = name.find_all(&rows, &node)?.into_iter().filter(is_ours).collect();
            // A pod of somebody else is chosen only if no other can be meant.
            if ours.is_empty() { vec![name.find(&rows, &node)?] } else { ours }
        }
        None => {
            let is_meant = |row: &&Row| args.namespace.as_ref().is_none_or(|own| *own == row.namespace);
            rows.iter().filter(is_meant).filter(is_ours).collect()
        }
    };
    match &local {
        Local::Agent(agent) => stop_by_agent(agent, args, &wanted).await?,
        Local::Runtime(lone) => stop_in_runtime(lone, args, &wanted, &pods).await?,
    }
    if args.all && !pods.are_all() {
        return Err(Unreachable::Agent(AgentError::NotAllKnown).into());
    }
    Ok(wanted.len())
}

async fn stop_by_agent(agent: &AgentClient, args: &Args, wanted: &[&Row]) -> Result<(), Unreachable> {
    for row in wanted {
        agent.stop(&StopRequest { uid: Some(row.uid.clone()), grace: args.grace_period }).await?;
    }
    let mut left = wanted.to_vec();
    loop {
        let pods = agent.pods().await?;
        let mut running = Vec::new();
        for row in left {
            let told = pods.iter().find(|info| info.pod.metadata.uid.as_deref() == Some(row.uid.as_str()));
            let is_over = match told {
                Some(info) => info.stage == "terminated",
                // A restarted agent may not know the pod yet; it then answers with an error.
                None => agent.pod(&row.uid).await?.is_none(),
            };
            if is_over { has_ended(row) } else { running.push(row) }
        }
        if running.is_empty() {
            return Ok(());
        }
        left = running;
        tokio::time::sleep(LOOK).await;
    }
}

/// Stops all pods at the same time, each within its own grace period, and reports each one when it has ended.
async fn stop_in_runtime(
    lone: &LoneRuntime,
    args: &Args,
    wanted: &[&Row],
    pods: &Pods,
) -> Result<(), Unreachable> {
    let may_clean_up = wanted.iter().any(|row| args.local.made(&row.uid)) && args.local.may_clean_up(lone);
    let cleaner = if may_clean_up { args.local.cleaner() } else { None };
    let cleaner = cleaner.as_ref();
    let ends = wanted.iter().map(|row| async move {
        let not_ended = |error| (row.full_name(), error);
        if let Some(pod) = pods.seen(row) {
            let ended = end_in_runtime(&lone.client, args.grace_period, pod).await;
            ended.map_err(|error| not_ended(error.into()))?;
        }
        if !args.local.made(&row.uid) {
            // Nothing but the runtime knows of this pod.
        } else if let Some(cleaner) = cleaner {
            cleaner.remove(&row.uid).await.map_err(|error| not_ended(EndError::Runs(error)))?;
        } else if !may_clean_up {
            remark(format_args!(
                "pod {} is not cleaned up: an agent is using the data folder, and may start the pod again",
                row.uid
            ));
        }
        has_ended(row);
        Ok(())
    });
    // Even if one pod fails to stop, the others are stopped.
    let not_ended: Vec<_> = join_all(ends).await.into_iter().filter_map(Result::err).collect();
    if may_clean_up {
        args.local.remove_dead_links();
    }
    if not_ended.is_empty() { Ok(()) } else { Err(Unreachable::NotEnded(not_ended)) }
}

async fn end_in_runtime(
    client: &RuntimeClient,
    asked: Option<u64>,
    pod: &RuntimePod,
) -> Result<(), CallError> {
    let running = pod.containers.iter().filter(|one| one.state == ContainerState::Running);
    let ips = if asked == Some(0) { Vec::new() } else { addresses(client, pod).await };
    let runtime = CriRuntime::new(client.clone());
    let ended = join_all(running.map(|container| {
        let lone = LoneContainer { id: &container.id, name: &container.name, ips: ips.clone() };
        let runtime = &runtime;
        async move { (lone.name, lone.end(runtime, asked).await) }
    }));
    let mut result = Ok(());
    for (name, ended) in ended.await {
        match ended {
            Ok(EndedWithoutAgent::Well) => {}
            Ok(EndedWithoutAgent::HookFailed(why)) => {
                let said = format!("{}: the preStop hook of container {name} failed: {why}", pod.pod);
                remark(clean_lines(&said));
            }
            Err(error) => result = result.and(Err(error)),
        }
    }
    result?;
    for sandbox in &pod.sandboxes {
        client.stop_pod_sandbox(&sandbox.id).await?;
    }
    for container in &pod.containers {
        client.remove_container(&container.id).await?;
    }
    for sandbox in &pod.sandboxes {
        client.remove_pod_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

/// Returns the addresses at which a pod can be reached from here, for its hooks. A hook that needs one and finds none
/// fails on its own.
async fn addresses(client: &RuntimeClient, pod: &RuntimePod) -> Vec<IpAddr> {
    let ready = pod.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready);
    let Some(sandbox) = ready else { return Vec::new() };
    match client.sandbox_status(&sandbox.id).await {
        Ok(Some(status)) if status.is_on_host_network == Some(true) => vec![Ipv4Addr::LOCALHOST.into()],
        Ok(Some(status)) => status.ips,
        Ok(None) | Err(_) => Vec::new(),
    }
}

fn has_ended(row: &Row) {
    // The pod has stopped, whether or not that can be printed.
    let _ = super::show(&(clean(&format!("{} stopped", row.full_name())) + "\n"));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;
    use rubelet_cri::ListFilter;
    use rubelet_runtime::synthetic::{ContainerSpec, Op, PodSpec, Profile, SyntheticRuntime};

    use super::super::testkit::pod_by_hand;
    use super::*;
    use crate::exit::Failure;
    use crate::last_agent::LastAgent;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn pod(name: &str) -> PodSpec {
        PodSpec::new("shop", name).uid(name).container(ContainerSpec::new("c"))
    }

    #[tokio::test]
    async fn the_folder_of_another_is_left_to_it_though_the_runtime_was_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
        let pod_logs = dir.path().join("logs");
        LastAgent { runtime_endpoint: None, pod_logs, node_name: "n".to_owned(), groups: None }
            .write(dir.path())
            .expect("written");
        let agent = fs::File::create(dir.path().join("agent.lock")).expect("made");
        rustix::fs::flock(&agent, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("free");
        let data = dir.path().to_str().expect("a text");
        let line = ["stop", "--all", "--data-dir", data, "-r", &runtime.endpoint()];
        let args = Line::parse_from(line).args;
        for name in ["held", "free"] {
            let folder = dir.path().join("pods").join(name);
            fs::create_dir_all(&folder).expect("made");
            runtime.world(|world| world.add_pod(pod(name)));
            assert_eq!(stop(&args).await.expect("ended"), 1);
            assert_eq!(folder.exists(), name == "held");
            fs::remove_dir_all(&folder).ok();
            // The agent ends.
            rustix::fs::flock(&agent, rustix::fs::FlockOperation::Unlock).expect("ours");
        }
    }

    #[tokio::test]
    async fn a_pod_of_which_the_runtime_knows_nothing_is_removed_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
        let (logs, folders) = (dir.path().join("logs"), dir.path().join("pods"));
        LastAgent {
            runtime_endpoint: Some(runtime.endpoint()),
            pod_logs: logs.clone(),
            node_name: "n".to_owned(),
            groups: None,
        }
        .write(dir.path())
        .expect("written");
        for (name, namespace) in [("one", "shop"), ("two", "shop"), ("three", "bank")] {
            fs::create_dir_all(folders.join(name)).expect("made");
            fs::create_dir_all(logs.join(format!("{namespace}_{name}-n_{name}"))).expect("made");
        }
        fs::create_dir(folders.join("nameless")).expect("made");
        let left = |folder: &std::path::Path| {
            let entries = fs::read_dir(folder).expect("there").map(|entry| entry.expect("read").file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().expect("a text")).collect();
            names.sort_unstable();
            names
        };
        let data = dir.path().to_str().expect("a text");
        // The pod may be in the agent's own runtime, which this runtime knows nothing about.
        let line = ["stop", "--all", "--data-dir", data, "-r", &runtime.endpoint()];
        assert_eq!(stop(&Line::parse_from(line).args).await.expect("nothing to do"), 0);
        assert_eq!(left(&folders), ["nameless", "one", "three", "two"]);
        let steps: [(&[&str], &[&str], &[&str]); 3] = [
            (&["one"], &["nameless", "three", "two"], &["bank_three-n_three", "shop_two-n_two"]),
            (&["--all", "-n", "shop"], &["nameless", "three"], &["bank_three-n_three"]),
            (&["--all"], &[], &[]),
        ];
        for (what, folders_left, logs_left) in steps {
            // The lock is held until this process ends, so the next command needs a new file.
            let _ = fs::remove_file(dir.path().join("agent.lock"));
            let line = [&["stop", "--data-dir", data], what].concat();
            assert!(stop(&Line::parse_from(line).args).await.expect("ended") > 0, "{what:?}");
            assert_eq!(left(&folders), folders_left, "{what:?}");
            assert_eq!(left(&logs), logs_left, "{what:?}");
        }
    }

    #[tokio::test]
    async fn a_pod_that_was_made_by_hand_is_ended_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
        let (client, _) = pod_by_hand(&runtime).await;
        let data = dir.path().to_str().expect("a text");
        let args = Line::parse_from(["stop", "hand", "--data-dir", data, "-r", &runtime.endpoint()]).args;
        assert_eq!(stop(&args).await.expect("ended"), 1);
        assert_eq!(client.list_pods(&ListFilter::All).await.expect("listed").pods, []);
    }

    #[tokio::test]
    async fn every_pod_that_could_not_be_ended_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
        let _fault = runtime.faults().on(Op::StopPodSandbox).error(tonic::Code::Internal, "not today");
        for name in ["one", "two"] {
            fs::create_dir_all(dir.path().join("pods").join(name)).expect("made");
            runtime.world(|world| world.add_pod(pod(name)));
        }
        let data = dir.path().to_str().expect("a text");
        let args = Line::parse_from(["stop", "--all", "--data-dir", data, "-r", &runtime.endpoint()]).args;
        let error = stop(&args).await.expect_err("not ended");
        assert_eq!(error.failure(), Failure::System, "it can be reached");
        let error = error.to_string();
        assert!(error.contains("cannot stop shop/one") && error.contains("cannot stop shop/two"), "{error}");
    }
}
