//! `rubelet doctor`: the arguments and the exit code.

use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rubelet_cri::Endpoint;

use crate::doctor::{EndedRuntime, Facts, Verdict, diagnose, examine, examine_agent, json, text};
use crate::endpoint::RuntimeArgs;
use crate::exit::Failure;
use crate::last_agent::LastAgent;
use crate::local::{AgentClient, AgentError};
use crate::place::Place;
use crate::signals::{standstill, told_to_end};
use crate::watch::{Events, Format};

/// The arguments of `rubelet doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "If an agent is running with the data folder, doctor asks it: the agent has watched the runtime all along, and no \
second connection is opened. With --runtime-endpoint, without an agent, or if the agent does not answer, doctor checks the \
runtime itself.\n\n\
Exit codes, as for a custom plugin of node-problem-detector:\n  \
0  no problem (there may be warnings)\n  \
1  a problem\n  \
2  unknown"
)]
pub(super) struct Args {
    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    place: Place,

    /// How long to observe the runtime
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = crate::span::parse)]
    time: Duration,

    /// Whether to follow the runtime's event stream
    #[arg(long, value_enum, default_value_t = Events::Auto)]
    events: Events,

    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// The exit code is that of a wrong command line, as plugins of node-problem-detector do it.
const CANNOT_TELL: Failure = Failure::Usage;

pub(super) fn run(args: &Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(CANNOT_TELL, &error),
    };
    let examined = runtime.block_on(async {
        tokio::select! {
            () = told_to_end() => Err("interrupted before there was a result".to_owned()),
            // A runtime may block on a client that does not read its events, and a suspended process observes nothing.
            () = standstill::asked_for() => Err("stopped (SIGTSTP) before there was a result, so the check was given \
                                                 up".to_owned()),
            facts = examine_what_is_there(args) => facts,
        }
    });
    runtime.shutdown_background();
    let facts = match examined {
        Ok(facts) => facts,
        Err(error) => return super::fail(CANNOT_TELL, &error),
    };
    let findings = diagnose(&facts);
    let said = match args.output {
        Format::Text => text(&facts, &findings),
        Format::Json => json(&facts, &findings) + "\n",
    };
    let verdict = Verdict::of(&findings);
    // A problem remains one even if the report cannot be printed.
    if let Err(error) = super::show(&said)
        && verdict != Verdict::Ill
    {
        return super::fail(CANNOT_TELL, &super::cannot_print(&error));
    }
    match verdict {
        Verdict::Well => ExitCode::SUCCESS,
        Verdict::Ill => ExitCode::from(1),
        Verdict::CannotTell => CANNOT_TELL.into(),
    }
}

/// Examines the agent if there is one, and the runtime itself if there is none, or none that answers.
async fn examine_what_is_there(args: &Args) -> Result<Facts, String> {
    let (mut silent_agent, mut dead_agent) = (None, None);
    if !args.runtime.is_given() {
        match ask_agent(args).await {
            Ok(Some(facts)) => return Ok(facts),
            Ok(None) => dead_agent = socket_of_dead_agent(&args.place),
            Err(error) => match error.silence() {
                Some(seen) => silent_agent = Some(seen),
                None => return Err(error.to_string()),
            },
        }
    }
    let runtime = if silent_agent.is_some() || dead_agent.is_some() {
        runtime_of_agent(&args.place).unwrap_or_else(|| args.runtime.clone())
    } else {
        args.runtime.clone()
    };
    let facts = match runtime.find_within(args.time).await {
        Err(error) if error.failure() == Failure::Usage => return Err(error.to_string()),
        found => examine(found, args.time, args.events).await,
    };
    let was_named = !facts.endpoint.is_empty() && dead_agent.is_none();
    let may_have_ended = facts.unreachable.is_some() && !args.runtime.is_given() && !was_named;
    let ended_with_agent = if may_have_ended { ended_runtime(&args.place) } else { None };
    Ok(Facts { silent_agent, dead_agent, ended_with_agent, ..facts })
}

/// Returns the agent that last used this place, and its folder.
fn last_agent(place: &Place) -> Option<(PathBuf, LastAgent)> {
    let folder = place.path().ok()?;
    let last = LastAgent::read(&folder).ok()??;
    Some((folder, last))
}

/// Returns what the last agent of this place left behind, if that agent had the embedded runtime.
fn ended_runtime(place: &Place) -> Option<EndedRuntime> {
    let (folder, last) = last_agent(place)?;
    last.runtime_endpoint.is_none().then(|| EndedRuntime {
        is_anything_left: rubelet_runtime::embedded::is_anything_left(&folder),
        folder: folder.display().to_string(),
    })
}

/// Returns the socket of an agent that died: one that ends as requested removes its socket, and one that starts takes
/// the folder before it replaces the socket.
fn socket_of_dead_agent(place: &Place) -> Option<String> {
    let socket = place.agent_socket().ok()?;
    let is_left = socket.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    (is_left && !place.is_taken()).then(|| socket.display().to_string())
}

/// Returns the runtime of an agent that does not answer, as recorded in its folder. An embedded runtime is part of the
/// agent's own process, and so does not answer either.
fn runtime_of_agent(place: &Place) -> Option<RuntimeArgs> {
    let (folder, last) = last_agent(place)?;
    let endpoint = match last.endpoint(&folder).ok()? {
        Some(endpoint) => endpoint,
        None => Endpoint::from_path(&place.runtime_socket().ok()?).ok()?,
    };
    Some(RuntimeArgs::named(endpoint))
}

async fn ask_agent(args: &Args) -> Result<Option<Facts>, AgentError> {
    let Some(agent) = AgentClient::of(&args.place).await? else { return Ok(None) };
    let place = args.place.given().display().to_string();
    examine_agent(&agent, place, args.time).await.map(Some)
}
