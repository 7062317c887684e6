//! `rubelet describe`: everything known about a pod.

use std::process::ExitCode;

use jiff::tz::TimeZone;

use super::one_pod::OnePod;
use super::output::{self, Structured};
use crate::describe;
use crate::local::{LocalArgs, Need, again_if_ended};
use crate::pods::{NotChosen, Pods};
use crate::summary::now;

/// The arguments of `rubelet describe`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    pod: OnePod,
    /// Print the `v1.Pod` with its status instead of a description; without an agent, what the runtime lists
    #[arg(long, short, value_enum)]
    output: Option<Structured>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        match again_if_ended(async || text(args).await, NotChosen::has_ended).await {
            Ok(text) => super::end_with(&text),
            Err(error) => super::fail(error.failure(), &error),
        }
    })
}

async fn text(args: &Args) -> Result<String, NotChosen> {
    let local = args.local.reach(Need::Look).await?;
    let pods = Pods::of(&local).await?;
    let rows = pods.rows();
    let name = args.pod.name();
    let row = name.find(&rows, &local.node_name())?;
    let text = match &pods {
        Pods::Told { .. } => pods.info(row).map(|info| match args.output {
            Some(format) => output::text(format, &info.pod),
            None => describe::told(info, &now().to_zoned(TimeZone::system())),
        }),
        Pods::Seen(seen) => {
            let pod = seen.iter().find(|pod| pod.pod.uid.as_str() == row.uid);
            pod.map(|pod| match args.output {
                Some(format) => output::text(format, pod),
                None => describe::seen(pod),
            })
        }
    };
    Ok(text.unwrap_or_default())
}
