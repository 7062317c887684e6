//! `rubelet ps`: the pods of this machine.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::Pod;

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
                let text = text(args, &pods);
                if text.is_empty() {
                    anstream::eprintln!("no pods");
                }
                super::show(&text);
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error),
        }
    })
}

fn fail(error: &Unreachable) -> ExitCode {
    super::fail(error.failure(), error)
}

fn text(args: &Args, pods: &Pods) -> String {
    let is_shown = |namespace: &str| args.namespace.as_ref().is_none_or(|wanted| wanted == namespace);
    let rows: Vec<Row> = pods.rows().into_iter().filter(|row| is_shown(&row.namespace)).collect();
    match (args.output, pods) {
        (Format::Name, _) => rows.iter().map(|row| format!("{}/{}\n", row.namespace, row.name)).collect(),
        (Format::Json, Pods::Told(told)) => {
            let of_namespace = |pod: &&Pod| is_shown(pod.metadata.namespace.as_deref().unwrap_or_default());
            let items = told.iter().map(|info| &info.pod).filter(of_namespace).cloned().collect();
            json(&k8s_openapi::List::<Pod> { items, ..Default::default() })
        }
        (Format::Json, Pods::Seen(seen)) => {
            json(&seen.iter().filter(|pod| is_shown(&pod.pod.namespace)).collect::<Vec<_>>())
        }
        (Format::Table, _) if rows.is_empty() => String::new(),
        (Format::Table, _) => {
            let cells: Vec<[String; 6]> = rows
                .into_iter()
                .map(|row| {
                    let age = row.since.map(age).unwrap_or_default();
                    [row.namespace, row.name, row.ready, row.status, row.restarts.to_string(), age]
                })
                .collect();
            columns(["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"], &cells)
        }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
