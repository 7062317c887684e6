//! `rubelet ps`: lists the pods of this machine.

use std::process::ExitCode;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::output::{self, Structured};
use crate::clean::clean;
use crate::columns::columns;
use crate::local::{LocalArgs, Need, Unreachable, again_if_ended};
use crate::log::remark;
use crate::pods::{Pods, Row};
use crate::summary::{now, span};

/// The arguments of `rubelet ps`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Asks the agent; without one, the runtime, which knows what is running but not what should be."
)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    /// Show only pods in this namespace
    #[arg(long, short)]
    namespace: Option<String>,
    /// Show all namespaces (the default)
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Output format; without an agent, JSON and YAML are what the runtime lists
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table
    Table,
    /// A table with addresses, nodes and problems
    Wide,
    /// One `namespace/name` per line
    Name,
    /// A `v1.PodList` in JSON
    Json,
    /// A `v1.PodList` in YAML
    Yaml,
}

impl Format {
    fn structured(self) -> Option<Structured> {
        match self {
            Self::Json => Some(Structured::Json),
            Self::Yaml => Some(Structured::Yaml),
            Self::Table | Self::Wide | Self::Name => None,
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        let asking = async || Pods::of(&args.local.reach(Need::Look).await?).await;
        match again_if_ended(asking, Unreachable::has_ended).await {
            Ok(pods) => {
                let text = text(args, &pods);
                if text.is_empty() && pods.are_all() {
                    remark("no pods");
                }
                super::end_with(&text)
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
    if let Some(format) = args.output.structured() {
        return match pods {
            Pods::Told { pods: told, .. } => {
                let of_namespace =
                    |pod: &&Pod| is_shown(pod.metadata.namespace.as_deref().unwrap_or_default());
                let items = told.iter().map(|info| &info.pod).filter(of_namespace).cloned().collect();
                output::text(format, &k8s_openapi::List::<Pod> { items, ..Default::default() })
            }
            Pods::Seen(seen) => {
                let shown = seen.iter().filter(|pod| is_shown(&pod.pod.namespace));
                output::text(format, &shown.collect::<Vec<_>>())
            }
        };
    }
    match args.output {
        Format::Name => {
            rows.iter().map(|row| clean(&format!("{}/{}", row.namespace, row.name)) + "\n").collect()
        }
        _ if rows.is_empty() => String::new(),
        Format::Wide => {
            let header = ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "DETAIL"];
            let rows: Vec<[String; 9]> = rows.iter().map(|row| wide(row, now())).collect();
            columns(header, &rows)
        }
        _ => {
            let rows: Vec<[String; 6]> = rows.iter().map(|row| narrow(row, now())).collect();
            columns(["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"], &rows)
        }
    }
}

fn narrow(row: &Row, now: Timestamp) -> [String; 6] {
    let Row { namespace, name, ready, status, restarts, since, restarted, .. } = row;
    let restarts = match restarted {
        Some(at) if *restarts > 0 => format!("{restarts} ({} ago)", span(*at, now)),
        _ => restarts.to_string(),
    };
    let age = since.map(|since| span(since, now)).unwrap_or_default();
    [namespace.clone(), name.clone(), ready.clone(), status.clone(), restarts, age]
}

fn wide(row: &Row, now: Timestamp) -> [String; 9] {
    let [namespace, name, ready, status, restarts, age] = narrow(row, now);
    // The last column is free text, and empty instead of `<none>` where there is nothing to say.
    let detail = row.detail.clone().unwrap_or_default();
    let or_none = |text: &str| if text.is_empty() { "<none>".to_owned() } else { text.to_owned() };
    [namespace, name, ready, status, restarts, age, or_none(&row.ip), or_none(&row.node), detail]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_when_it_last_restarted() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut row = Row {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: "1".to_owned(),
            yields: false,
            ready: "1/1".to_owned(),
            status: "Running".to_owned(),
            restarts: 3,
            since: Some(at(100)),
            restarted: Some(at(3_000)),
            ip: "10.0.0.7".to_owned(),
            node: String::new(),
            detail: Some("FailedMount: no".to_owned()),
        };
        assert_eq!(
            wide(&row, at(3_700)),
            [
                "default",
                "web",
                "1/1",
                "Running",
                "3 (11m ago)",
                "60m",
                "10.0.0.7",
                "<none>",
                "FailedMount: no"
            ]
        );
        row.restarts = 0;
        assert_eq!(narrow(&row, at(3_700))[4], "0", "that was before it was counted");
    }
}
