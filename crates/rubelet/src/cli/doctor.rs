//! `rubelet doctor`: the arguments, and how it ends.

use std::process::ExitCode;
use std::time::Duration;

use crate::doctor::{Severity, diagnose, examine, examine_agent, json, text};
use crate::endpoint::RuntimeArgs;
use crate::exit::Failure;
use crate::local::AgentClient;
use crate::place::Place;
use crate::watch::{Events, Format, told_to_end};

/// The arguments of `rubelet doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "If an agent runs with the data folder, it is asked: it has watched the runtime all the time, and nothing new is \
opened beside it. With --runtime-endpoint, or without an agent, the runtime itself is looked at.\n\nEnds with 0 if there is no problem (there may be warnings), with 1 if there is one, and with 2 \
if it cannot tell: as a custom plugin of node-problem-detector does."
)]
pub(super) struct Args {
    #[command(flatten)]
    runtime: RuntimeArgs,

    #[command(flatten)]
    place: Place,

    /// How long to look at a runtime
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = crate::span::parse)]
    time: Duration,

    /// Whether to follow the runtime's events
    #[arg(long, value_enum, default_value_t = Events::Auto)]
    events: Events,

    /// Words for people, or JSON
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(Failure::Usage, &error),
    };
    let examined = runtime.block_on(async {
        let examine = async {
            if !args.runtime.is_given()
                && let Some(agent) = AgentClient::of(&args.place).await.map_err(|error| error.to_string())?
            {
                let place = args.place.given().display().to_string();
                let examined = examine_agent(&agent, place, args.time).await;
                return examined.map_err(|error| error.to_string());
            }
            let found = match args.runtime.find().await {
                Err(error) if error.failure() == Failure::Usage => return Err(error.to_string()),
                found => found,
            };
            Ok(examine(found, args.time, args.events).await)
        };
        tokio::select! {
            () = told_to_end() => Err("interrupted before it could tell".to_owned()),
            facts = examine => facts,
        }
    });
    runtime.shutdown_background();
    let facts = match examined {
        Ok(facts) => facts,
        Err(error) => return super::fail(Failure::Usage, &error),
    };
    let findings = diagnose(&facts);
    let said = match args.output {
        Format::Text => text(&facts, &findings),
        Format::Json => json(&facts, &findings) + "\n",
    };
    super::show(&said);
    let has_problem = findings.iter().any(|finding| finding.severity == Severity::Problem);
    if has_problem { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
