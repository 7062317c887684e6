//! `rubelet exec`: runs a command in a container.

use std::collections::BTreeSet;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use rubelet_agent::board::ContainerNames;
use rubelet_cri::{Endpoint, ListFilter, Metrics, Options, RuntimeClient};
use rubelet_model::{ContainerId, ContainerState, ListedContainer, PodUid};
use rubelet_runtime::embedded::MAX_EXEC_OUTPUT;

use super::one_pod::OnePod;
use crate::exit::Failure;
use crate::local::{Local, LocalArgs, Need, Unreachable, again_if_ended};
use crate::pods::{NotOne, Pods};

/// The arguments of `rubelet exec`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "There is no terminal and no stdin; the output is printed once the command has ended.\n\n\
The exit code is that of the command, or 1 if it could not be run or if its output reached 16 MiB, where runtimes cut it off."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    pod: OnePod,
    /// The container [default: the one in the annotation kubectl.kubernetes.io/default-container, else the only one that is
    /// running, else the first]
    #[arg(long, short)]
    container: Option<String>,
    #[arg(long, short = 'i', hide = true)]
    stdin: bool,
    #[arg(long, short = 't', hide = true)]
    tty: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum ExecError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(transparent)]
    NotOne(#[from] NotOne),
    #[error("exec has no stdin and no terminal: leave out -i and -t")]
    NoTerminal,
    #[error("no container of this pod is running")]
    NothingRuns,
    #[error("the pod has no container {name}{}", those(.there))]
    NoContainer { name: String, there: Vec<String> },
    #[error("container {0} is not running")]
    NotRunning(String),
    #[error("choose a container with -c: {}", .0.join(", "))]
    WhichContainer(Vec<String>),
    #[error("{}", .0.explanation())]
    Call(rubelet_cri::Error),
    #[error("{}", super::cannot_print(.0))]
    Unprintable(io::Error),
    #[error(
        "the output was cut: runtimes pass on at most 16 MiB (the command exited with {0}); reduce the output, or \
         write it to a file in the container"
    )]
    Cut(i32),
}

impl ExecError {
    /// Whether the agent or runtime ended before anything was done.
    fn has_ended(&self) -> bool {
        matches!(self, Self::Unreachable(error) if error.has_ended())
    }

    fn failure(&self) -> Failure {
        match self {
            Self::Unreachable(error) => error.failure(),
            Self::NotOne(_)
            | Self::NoTerminal
            | Self::NothingRuns
            | Self::NoContainer { .. }
            | Self::NotRunning(_)
            | Self::WhichContainer(_) => Failure::Usage,
            Self::Call(error) if error.is_unavailable() || error.is_timeout() => Failure::Runtime,
            // The runtime can be reached; it is this command that it could not run.
            Self::Call(_) | Self::Unprintable(_) | Self::Cut(_) => Failure::System,
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

/// Lists what exists besides what was named.
fn those(there: &[String]) -> String {
    if there.is_empty() { String::new() } else { format!("; it has {}", there.join(", ")) }
}

async fn exec(args: &Args) -> Result<i32, ExecError> {
    if args.stdin || args.tty {
        return Err(ExecError::NoTerminal);
    }
    let found = again_if_ended(async || find(args).await, ExecError::has_ended).await?;
    let answer = found.client.exec_sync(&found.container, &args.command, Duration::ZERO).await;
    let answer = answer.map_err(ExecError::Call)?;
    let shown = super::pass_on(&answer.stdout, &mut io::stdout());
    shown.and(super::pass_on(&answer.stderr, &mut io::stderr())).map_err(ExecError::Unprintable)?;
    // No runtime reports that it has cut the output, and a part must not pass for the whole. Runtimes other than the
    // embedded one pass on a few bytes more than the limit.
    if answer.stdout.len() + answer.stderr.len() >= MAX_EXEC_OUTPUT {
        return Err(ExecError::Cut(answer.exit_code));
    }
    Ok(answer.exit_code)
}

/// The container, and the runtime that it runs in.
struct Found {
    container: ContainerId,
    client: RuntimeClient,
    /// Kept alive because the runtime may end with it.
    _local: Local,
}

async fn find(args: &Args) -> Result<Found, ExecError> {
    let local = args.local.reach(Need::Exec).await?;
    let pods = Pods::of(&local).await?;
    let rows = pods.rows();
    let row = args.pod.name().find(&rows, &local.node_name())?;
    let names = match pods.info(row) {
        Some(info) => ContainerNames::of(&info.pod),
        None => args.local.containers(&row.uid),
    };
    let client = match &local {
        Local::Runtime(lone) => lone.client.clone(),
        Local::Agent(agent) => {
            let endpoint: Endpoint = agent.about.runtime_endpoint.parse().map_err(Unreachable::Endpoint)?;
            RuntimeClient::new(endpoint, Options::default(), Metrics::default())
        }
    };
    let listed = match pods.seen(row) {
        Some(_) => Vec::new(),
        None => {
            // The runtime may be part of the agent.
            let uid = PodUid::from(row.uid.as_str());
            client.list_pods(&ListFilter::Pod(&uid)).await.map_err(Unreachable::RuntimeOfOther)?.pods
        }
    };
    let all: Vec<_> = pods.seen(row).into_iter().chain(&listed).flat_map(|pod| &pod.containers).collect();
    let container = choose(&all, args.container.as_deref(), &names)?.id.clone();
    Ok(Found { container, client, _local: local })
}

/// Chooses the container: the one that is named, or the default that the pod names; else the only one that is running,
/// or, if several are, the first one of the pod, if their order is known.
fn choose<'a>(
    all: &[&'a ListedContainer],
    wanted: Option<&str>,
    known: &ContainerNames,
) -> Result<&'a ListedContainer, ExecError> {
    let names = |containers: &[&ListedContainer]| -> Vec<String> {
        let names: BTreeSet<String> = containers.iter().map(|one| one.name.to_string()).collect();
        names.into_iter().collect()
    };
    let meant = wanted.or(known.default.as_deref());
    let is_meant = |one: &&&ListedContainer| meant.is_none_or(|meant| *meant == *one.name);
    let chosen: Vec<&ListedContainer> = all.iter().filter(is_meant).copied().collect();
    let running: Vec<&ListedContainer> =
        chosen.iter().filter(|one| one.state == ContainerState::Running).copied().collect();
    match (meant, &running[..]) {
        (_, [one]) => Ok(one),
        // A container that has not been created yet is in no list of the runtime.
        (Some(name), []) if chosen.is_empty() && !known.all.iter().any(|one| one == name) => {
            let there = if known.all.is_empty() { names(all) } else { known.all.clone() };
            Err(ExecError::NoContainer { name: name.to_owned(), there })
        }
        (Some(name), []) => Err(ExecError::NotRunning(name.to_owned())),
        (None, []) => Err(ExecError::NothingRuns),
        (_, many) => {
            let first = known.all.first().filter(|_| meant.is_none());
            let is_first = |one: &&&ListedContainer| first.is_some_and(|first| **first == *one.name);
            let chosen = many.iter().find(is_first).copied();
            chosen.ok_or_else(|| ExecError::WhichContainer(names(many)))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use rubelet_model::UnixNanos;
    use rubelet_runtime::synthetic::{Profile, SyntheticRuntime};

    use super::super::testkit::pod_by_hand;
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[tokio::test]
    async fn a_container_that_was_made_by_hand_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
        let (_, container) = pod_by_hand(&runtime).await;
        let data = dir.path().to_str().expect("a text");
        let line = ["exec", "hand", "--data-dir", data, "-r", &runtime.endpoint(), "--", "true"];
        let found = find(&Line::parse_from(line).args).await.map_err(|error| error.to_string());
        assert_eq!(found.map(|found| found.container), Ok(container));
    }

    #[test]
    fn a_container_is_chosen_or_those_that_there_are_named() {
        let container = |name: &str, attempt, state| ListedContainer {
            id: format!("{name}-{attempt}").as_str().into(),
            name: name.into(),
            sandbox: "s".into(),
            attempt,
            state,
            created_at: UnixNanos::default(),
        };
        let all = [
            container("web", 1, ContainerState::Running),
            container("web", 0, ContainerState::Exited),
            container("log", 0, ContainerState::Running),
            container("setup", 0, ContainerState::Exited),
        ];
        let choice_among = |all: &[ListedContainer], wanted, known: &ContainerNames| {
            let all: Vec<&ListedContainer> = all.iter().collect();
            choose(&all, wanted, known).map(|one| one.id.to_string()).map_err(|error| error.to_string())
        };
        let choice_of = |all: &[ListedContainer], wanted, first: &str| {
            let known = ContainerNames { all: vec![first.to_owned()], default: None };
            choice_among(all, wanted, &known)
        };
        let choice = |all: &[ListedContainer], wanted| choice_among(all, wanted, &ContainerNames::default());
        let failure = |text: &str| Err(text.to_owned());
        assert_eq!(choice(&all, Some("web")), Ok("web-1".to_owned()));
        assert_eq!(choice(&all[..2], None), Ok("web-1".to_owned()));
        assert_eq!(choice(&all, None), failure("choose a container with -c: log, web"));
        assert_eq!(choice_of(&all, None, "log"), Ok("log-0".to_owned()), "the first of the pod");
        assert_eq!(choice_of(&all, None, "setup"), failure("choose a container with -c: log, web"));
        assert_eq!(choice_of(&all, Some("web"), "log"), Ok("web-1".to_owned()));
        assert_eq!(
            choice_of(&[], Some("web"), "web"),
            failure("container web is not running"),
            "it was not made yet"
        );
        assert_eq!(choice_of(&[], Some("wbe"), "web"), failure("the pod has no container wbe; it has web"));
        assert_eq!(choice(&[], Some("web")), failure("the pod has no container web"));
        assert_eq!(
            choice(&all, Some("wbe")),
            failure("the pod has no container wbe; it has log, setup, web")
        );
        assert_eq!(choice(&all, Some("setup")), failure("container setup is not running"));
        assert_eq!(choice(&all[3..], None), failure("no container of this pod is running"));
        let meant = |name: &str, wanted| {
            let known = ContainerNames { all: vec![name.to_owned()], default: Some(name.to_owned()) };
            choice_among(&all[1..], wanted, &known)
        };
        assert_eq!(meant("log", None), Ok("log-0".to_owned()));
        assert_eq!(
            meant("web", None),
            failure("container web is not running"),
            "though another is the only one"
        );
        assert_eq!(meant("new", None), failure("container new is not running"), "it was not made yet");
        assert_eq!(meant("web", Some("log")), Ok("log-0".to_owned()));
    }
}
