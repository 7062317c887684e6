//! `rubelet watch`: the arguments, and how they become a watch.

use std::pin::pin;
use std::process::ExitCode;

use crate::endpoint::RuntimeArgs;
use crate::exit::Failure;
use crate::signals::{output, told_to_end};
use crate::watch::{Events, Filter, Format, KindFilter, Watch};

/// The arguments of `rubelet watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:\n  \
0  Ctrl-C, SIGTERM, or nobody reads the output any more\n  \
2  wrong usage\n  \
3  the runtime cannot be reached at the start")]
pub(super) struct Args {
    #[command(flatten)]
    runtime: RuntimeArgs,

    /// Show only pods in these namespaces
    #[arg(long, short, value_delimiter = ',')]
    namespace: Vec<String>,

    /// Show all namespaces (the default)
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Show only these pods, by name
    #[arg(long, value_delimiter = ',')]
    pod: Vec<String>,

    /// Show only these kinds of events
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', ignore_case = true)]
    kinds: Vec<KindFilter>,

    /// Whether to follow the runtime's event stream; with it, changes are seen at once, not once a second
    #[arg(long, value_enum, default_value_t = Events::Auto)]
    events: Events,

    /// Output format; JSON is one object per line
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let filter =
        Filter { namespaces: args.namespace.clone(), pods: args.pod.clone(), kinds: args.kinds.clone() };
    rubelet_runtime::memory::map_only_what_is_touched();
    output::never_stops_this_thread();
    super::on_one_thread(async {
        let mut told_to_end = pin!(told_to_end());
        let found = tokio::select! {
            () = &mut told_to_end => return ExitCode::SUCCESS,
            found = args.runtime.find() => found,
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return super::fail(error.failure(), &error),
        };
        match Watch::new(found, args.events, filter, args.output).run(told_to_end).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => super::fail(Failure::System, &super::cannot_print(&error)),
        }
    })
}
