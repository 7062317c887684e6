//! `rubelet ps`: the pods of this machine.

use std::process::ExitCode;

use crate::columns::columns;
use crate::local::{LocalArgs, Unreachable};
use crate::pods::{Pods, Row};
use crate::summary::age;

/// The arguments of `rubelet ps`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Asks the agent; without one, the runtime, which knows what runs but not what should."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    /// Only pods of this namespace
    #[arg(long, short)]
    namespace: Option<String>,
    /// A table for people, names alone, or a `v1.PodList`
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table
    Table,
    /// One `namespace/name` a line
    Name,
    /// JSON
    Json,
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        let shown = async {
            let local = args.local.reach().await?;
            Pods::of(&local).await
        };
        match shown.await {
            Ok(pods) => {
                print(args, &pods);
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error),
        }
    })
}

fn fail(error: &Unreachable) -> ExitCode {
    super::fail(error.failure(), error)
}

fn print(args: &Args, pods: &Pods) {
    let is_shown = |row: &Row| args.namespace.as_ref().is_none_or(|namespace| *namespace == row.namespace);
    let rows: Vec<Row> = pods.rows().into_iter().filter(is_shown).collect();
    match (args.output, pods) {
        (Format::Name, _) => rows.iter().for_each(|row| anstream::println!("{}/{}", row.namespace, row.name)),
        (Format::Json, Pods::Told(told)) => {
            let items = told.iter().map(|info| info.pod.clone()).collect();
            let list = k8s_openapi::List::<k8s_openapi::api::core::v1::Pod> { items, ..Default::default() };
            anstream::println!("{}", serde_json::to_string_pretty(&list).unwrap_or_default());
        }
        (Format::Json, Pods::Seen(seen)) => {
            anstream::println!("{}", serde_json::to_string_pretty(seen).unwrap_or_default());
        }
        (Format::Table, _) if rows.is_empty() => anstream::eprintln!("no pods"),
        (Format::Table, _) => {
            let cells: Vec<[String; 6]> = rows
                .into_iter()
                .map(|row| {
                    let age = row.since.map(age).unwrap_or_default();
                    [row.namespace, row.name, row.ready, row.status, row.restarts.to_string(), age]
                })
                .collect();
            let header = ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"];
            anstream::print!("{}", columns(header, &cells));
        }
    }
}
