//! `rubelet events`: the events of pods.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::Event;

use super::output::{self, Structured};
use crate::columns::columns;
use crate::describe::event_age;
use crate::local::{AgentClient, PodInfo, Unreachable, again_if_ended};
use crate::log::remark;
use crate::place::Place;
use crate::pods::{NotChosen, PodName, Pods};
use crate::summary::now;

/// The arguments of `rubelet events`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The agent remembers the latest events of each pod for as long as it runs.")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Show only events of this pod: `name` or `namespace/name`
    #[arg(value_name = "POD")]
    pod: Option<PodName>,
    /// Show only events in this namespace
    #[arg(long, short)]
    namespace: Option<String>,
    /// Show all namespaces (the default)
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Show only events of these types
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TYPE")]
    types: Vec<Type>,
    /// Print a `v1.EventList` instead of a table
    #[arg(long, short, value_enum)]
    output: Option<Structured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Type {
    /// Nothing is wrong
    #[value(name = "Normal", alias = "normal")]
    Normal,
    /// Something needs attention
    #[value(name = "Warning", alias = "warning")]
    Warning,
}

impl Type {
    fn is_of(self, event: &Event) -> bool {
        let word = match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        };
        event.type_.as_deref() == Some(word)
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        match again_if_ended(async || events(args).await, NotChosen::has_ended).await {
            Ok(Some(events)) => {
                let text = match args.output {
                    Some(format) => output::text(
                        format,
                        &k8s_openapi::List::<Event> { items: events, ..Default::default() },
                    ),
                    None if events.is_empty() => String::new(),
                    None => table(&events),
                };
                if text.is_empty() {
                    remark("no events");
                }
                super::end_with(&text)
            }
            Ok(None) => super::fail(
                crate::exit::Failure::Runtime,
                &"no agent is running, and only an agent remembers events; start one with `rubelet run PATH`, or \
                  follow a runtime with `rubelet watch`",
            ),
            Err(error) => super::fail(error.failure(), &error),
        }
    })
}

/// Returns the selected events, oldest first; `None` if there is no agent to ask.
async fn events(args: &Args) -> Result<Option<Vec<Event>>, NotChosen> {
    let Some(agent) = AgentClient::of(&args.place).await.map_err(Unreachable::Agent)? else {
        return Ok(None);
    };
    let pods = Pods::told_by(&agent).await.map_err(Unreachable::Agent)?;
    let Pods::Told { pods: told, .. } = &pods else { return Ok(None) };
    let chosen: Vec<&PodInfo> = match &args.pod {
        Some(name) => {
            let name = name.clone().in_namespace(args.namespace.as_deref());
            let rows = pods.rows();
            pods.info(name.find(&rows, &agent.about.node_name)?).into_iter().collect()
        }
        None => {
            let is_wanted =
                |info: &&PodInfo| args.namespace.is_none() || info.pod.metadata.namespace == args.namespace;
            told.iter().filter(is_wanted).collect()
        }
    };
    let is_wanted = |event: &&Event| args.types.is_empty() || args.types.iter().any(|one| one.is_of(event));
    let mut events: Vec<Event> =
        chosen.into_iter().flat_map(|info| &info.events).filter(is_wanted).cloned().collect();
    events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    Ok(Some(events))
}

fn table(events: &[Event]) -> String {
    let now = now();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let rows: Vec<[String; 6]> = events
        .iter()
        .map(|event| {
            let object = &event.involved_object;
            [
                text(&object.namespace),
                event_age(event, now),
                text(&event.type_),
                text(&event.reason),
                format!("pod/{}", text(&object.name)),
                text(&event.message).trim_end().replace('\n', " "),
            ]
        })
        .collect();
    columns(["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], &rows)
}
