//! `rubelet record`: writes every input of a PLEG into a file.

use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::record::Recorder;
use pleg::{Config, Metrics, Pleg, Subscription};
use tokio::sync::watch;

use crate::clean::clean;
use crate::endpoint::RuntimeArgs;
use crate::exit::Failure;
use crate::log::Log;
use crate::recording;
use crate::signals::{output, standstill, told_to_end};
use crate::watch::Events;

/// The arguments of `rubelet record`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only reads from the runtime. The environment, annotations and mounts of pods are not recorded. Ctrl-Z closes the \
connection before it stops: a runtime may block on a client that does not read its events.\n\n\
Exit codes:\n  \
0  the time is over, or Ctrl-C\n  \
1  the file can no longer be written\n  \
2  wrong usage\n  \
3  the runtime cannot be reached at the start"
)]
pub(super) struct Args {
    #[command(flatten)]
    runtime: RuntimeArgs,

    /// File to create; it must not exist
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Whether to follow the runtime's event stream
    #[arg(long, value_enum, default_value_t = Events::Auto)]
    events: Events,

    /// How long to record, as in 60s or 5m [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::span::parse)]
    time: Option<Duration>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    rubelet_runtime::memory::map_only_what_is_touched();
    output::never_stops_this_thread();
    // Perhaps nobody reads the messages; that must neither prevent the recording nor delay its end.
    let log = Log::default();
    log.start_on_stderr();
    let code = super::on_one_thread(async {
        match record(args, &log).await {
            Ok(()) => ExitCode::SUCCESS,
            Err((failure, error)) => {
                log.print(&super::complaint(&error));
                failure.into()
            }
        }
    });
    log.end();
    code
}

async fn record(args: &Args, log: &Log) -> Result<(), (Failure, String)> {
    let mut told_to_end = pin!(told_to_end());
    let found = tokio::select! {
        () = &mut told_to_end => return Ok(()),
        found = args.runtime.find() => found.map_err(|error| (error.failure(), error.to_string()))?,
    };
    let about = format!("{} at {}", found.runtime, found.client.endpoint());
    let system = |error: pleg::record::RecordError| (Failure::System, error.to_string());
    let recorder = Recorder::to_file(&args.output, &about).map_err(system)?;
    let mut trouble = recorder.trouble();
    let mut config = Config::default();
    config.follow_events = args.events.are_followed_on(&found.runtime);
    let mut pleg = Pleg::new(CriObserver::new(found.client.clone()), config, Metrics::default());
    pleg.record(Some(recorder));
    let mut events = pleg.handle().subscribe();
    let about = clean(&about);
    log.print(&format!("recording {about} into {}{}", args.output.display(), until(args.time)));
    pleg.start();
    let time_is_over = async {
        match args.time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let mut count = 0_u64;
    let stood_still = watch::Sender::default();
    tokio::select! {
        () = told_to_end => {}
        () = time_is_over => {}
        // A recording that cannot be written is not worth continuing; the reason is reported below.
        _ = trouble.wait_for(Option::is_some) => {}
        () = count_events(&mut events, &mut count) => {}
        // A runtime may block on a client that does not read its events.
        never = standstill::whenever_asked(&mut pleg, &found.client, &stood_still) => match never {},
    }
    pleg.stop().await;
    if let Some(recorder) = pleg.record(None) {
        let finished = recording::finish(recorder).await;
        finished.map_err(|error| (Failure::System, format!("the recording is incomplete: {error}")))?;
    }
    let heard = crate::count::count(count, "event");
    log.print(&format!("{heard}; replay with: rubelet replay {}", args.output.display()));
    Ok(())
}

async fn count_events(events: &mut Subscription, count: &mut u64) {
    while let Some(event) = events.next().await {
        *count += event.merged;
    }
}

fn until(time: Option<Duration>) -> String {
    match time {
        Some(time) => format!(" for {}", pleg::GoDuration(time)),
        None => "; stop with Ctrl-C".to_owned(),
    }
}
