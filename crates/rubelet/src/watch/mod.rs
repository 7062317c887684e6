//! Follows a runtime and prints what happens to its pods. It only reads.
//!
//! Two threads print: one the output, and one the remarks. When the output is stalled, events stay where they are until
//! the printer has room, and the PLEG keeps running: the events that accumulate for one pod are merged into one, and
//! none is lost. Remarks are printed all the same. Most importantly, the runtime's event stream is still read: a reader
//! that does not read can block a runtime.

mod events;
mod filter;
mod following;
mod json;
mod lines;
mod screen;

use std::io;
use std::pin::Pin;
use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{CallReport, Config, HungLook, Metrics, PeriodReason, Pleg, PodEvent, StuckPod};
use rubelet_model::{PodStatus, UnixNanos};
use tokio::sync::watch;

pub(crate) use events::Events;
pub(crate) use filter::{Filter, KindFilter};

use self::following::Following;
use self::screen::Screen;
use crate::endpoint::{Found, Runtime};
use crate::log::Log;
use crate::printer::{Printer, Stopped};
use crate::signals::standstill;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Text,
    /// JSON, for programs
    Json,
}

/// Something to print.
#[derive(Debug)]
enum Item<'a> {
    /// The runtime that is watched.
    Watching {
        runtime: &'a Runtime,
        endpoint: String,
        was_searched: bool,
    },
    /// A pod that existed at the start.
    Pod(&'a PodStatus),
    Event(&'a PodEvent),
    Note {
        note: &'a Note,
        at: UnixNanos,
    },
}

/// What an operator should know besides events.
#[derive(Debug)]
enum Note {
    /// Another program may need the events of this runtime.
    EventsLeftAlone {
        runtime: Runtime,
    },
    /// This process was stopped for this long, and runs again.
    StoodStill(Duration),
    RuntimeLost {
        reason: String,
    },
    RuntimeBack {
        after: Duration,
    },
    /// The connection was re-established, without a call that noticed its loss.
    Reconnected,
    PodStuck(StuckPod),
    PodUnstuck {
        pod: rubelet_model::PodRef,
        after: Duration,
    },
    /// The list of all pods is not answered: nothing can be seen until it is.
    ListHangs(CallReport),
    ListAnswers {
        after: Duration,
    },
    /// A list of a single pod is not answered; all pods are listed instead.
    LookHangs(HungLook),
    /// All pods are listed as often as if nothing else revealed changes, for this reason.
    ListsOften {
        period: Duration,
        reason: PeriodReason,
    },
}

/// A watch on one runtime.
pub(crate) struct Watch {
    found: Found,
    events: Events,
    filter: Filter,
    format: Format,
}

impl Watch {
    pub(crate) fn new(found: Found, events: Events, filter: Filter, format: Format) -> Self {
        Self { found, events, filter, format }
    }

    /// Watches until it is asked to end, or until nobody reads the output.
    ///
    /// # Errors
    ///
    /// If the output cannot be printed for another reason.
    pub(crate) async fn run(self, told_to_end: Pin<&mut impl Future<Output = ()>>) -> io::Result<()> {
        let Found { client, runtime, was_searched } = self.found;
        let mut config = Config::default();
        config.follow_events = self.events.are_followed_on(&runtime);
        let are_left_alone = self.events == Events::Auto && !config.follow_events;
        let mut pleg = Pleg::new(CriObserver::new(client.clone()), config, Metrics::default());
        let handle = pleg.handle();
        let events = handle.subscribe();
        pleg.start();
        let (continued, stood_still) = watch::channel(None);
        let remarks = Log::default();
        remarks.start_on_stderr();
        let screen = Screen {
            printer: Printer::start(),
            remarks: remarks.clone(),
            format: self.format,
            filter: self.filter,
        };
        let following = async {
            let endpoint = client.endpoint().to_string();
            screen.show(&Item::Watching { runtime: &runtime, endpoint, was_searched }).await?;
            if are_left_alone {
                screen.note(&Note::EventsLeftAlone { runtime: runtime.clone() }).await?;
            }
            Following::new(&handle, events, stood_still).run(&screen).await
        };
        tokio::select! {
            () = told_to_end => {}
            never = standstill::whenever_asked(&mut pleg, &client, &continued) => match never {},
            ended = following => {
                let Err(Stopped) = ended;
            }
        }
        pleg.stop().await;
        let Screen { mut printer, .. } = screen;
        printer.flush_what_it_can().await;
        remarks.end();
        printer.failure().map_or(Ok(()), Err)
    }
}

/// Formats an event as a watch prints it.
pub(crate) fn event_line(event: &PodEvent, format: Format) -> String {
    match format {
        Format::Text => lines::line(&Item::Event(event)),
        Format::Json => json::line(&Item::Event(event)),
    }
}
