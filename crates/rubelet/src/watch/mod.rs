//! Follows a runtime and prints what happens to its pods. It only reads.
//!
//! Printing happens on threads of their own, one for the output and one for remarks. When nobody takes the output, events
//! are left where they are until the printer has room, and the PLEG goes on: those of one pod that pile up are merged into
//! one, and none is lost. Remarks are made all the same. Above all the runtime's event stream is read on: a reader that
//! stands still can make a runtime stand still.

mod filter;
mod follow;
mod json;
mod lines;
pub(crate) mod standstill;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{
    CallReport, Config, Handle, Metrics, PeriodReason, Pleg, PodEvent, Reach, StuckPod, Subscription,
};
use rubelet_model::{PodStatus, PodUid, UnixNanos};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch::{self, Receiver};
use tokio::time::{Instant, Interval, MissedTickBehavior};

pub(crate) use filter::{Filter, KindFilter};
pub(crate) use follow::Events;

use crate::endpoint::{Found, Runtime};
use crate::log::Log;
use crate::printer::{self, Printer, Room, Stopped};

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
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
    /// A pod that was there at the start.
    Pod(&'a PodStatus),
    Event(&'a PodEvent),
    Note {
        note: &'a Note,
        at: UnixNanos,
    },
}

/// What an operator should know besides the events.
#[derive(Debug)]
enum Note {
    /// Somebody else may need the events of this runtime.
    EventsLeftAlone {
        runtime: Runtime,
    },
    /// This process was stopped for so long, and goes on.
    StoodStill(Duration),
    RuntimeLost {
        reason: String,
    },
    RuntimeBack {
        after: Duration,
    },
    /// The connection was made anew, and nobody noticed that it was gone.
    Reconnected,
    PodStuck(StuckPod),
    PodUnstuck {
        pod: rubelet_model::PodRef,
        after: Duration,
    },
    /// The list of all pods waits for an answer: nothing can be seen until it comes.
    ListHangs(CallReport),
    ListAnswers {
        after: Duration,
    },
    /// All pods are listed as often as if nothing else told of changes, and why.
    ListsOften {
        period: Duration,
        reason: PeriodReason,
    },
}

/// A list that has not answered for so long is worth a remark.
const LIST_HANGS_AFTER: Duration = Duration::from_secs(3);

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

    /// Watches until told to end, or until nobody reads what is printed.
    ///
    /// # Errors
    ///
    /// If what is to be printed cannot be, for another reason.
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
        remarks.start();
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

/// An event, as a watch prints it.
pub(crate) fn event_line(event: &PodEvent, format: Format) -> String {
    match format {
        Format::Text => lines::line(&Item::Event(event)),
        Format::Json => json::line(&Item::Event(event)),
    }
}

/// Ctrl-C, or a polite kill. One for the whole of a command: what comes between two of them is lost.
pub(crate) async fn told_to_end() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers these signals end the process by themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Where things are shown, in which form, and which of them.
struct Screen {
    printer: Printer,
    remarks: Log,
    format: Format,
    filter: Filter,
}

impl Screen {
    async fn show(&self, item: &Item<'_>) -> Result<(), Stopped> {
        if !self.is_shown(item) {
            return Ok(());
        }
        match self.format {
            Format::Json => self.printer.print(json::line(item)).await,
            Format::Text => match item {
                Item::Pod(_) | Item::Event(_) => self.printer.print(lines::line(item)).await,
                Item::Watching { .. } | Item::Note { .. } => {
                    // On a terminal it comes after what happened before it, unless that cannot be printed.
                    self.printer.flush_what_it_can().await;
                    self.remarks.print(&lines::line(item));
                    Ok(())
                }
            },
        }
    }

    /// Shows something for which there is room.
    fn show_in(&self, room: Room<'_>, item: &Item<'_>) {
        if self.is_shown(item) {
            room.print(match self.format {
                Format::Json => json::line(item),
                Format::Text => lines::line(item),
            });
        }
    }

    fn is_shown(&self, item: &Item<'_>) -> bool {
        match item {
            Item::Pod(status) => self.filter.shows_pod(&status.pod),
            Item::Event(event) => self.filter.shows(event),
            Item::Note { note: Note::PodStuck(stuck), .. } => self.filter.shows_pod(&stuck.pod),
            Item::Note { note: Note::PodUnstuck { pod, .. }, .. } => self.filter.shows_pod(pod),
            Item::Note {
                note:
                    Note::EventsLeftAlone { .. }
                    | Note::StoodStill(_)
                    | Note::RuntimeLost { .. }
                    | Note::RuntimeBack { .. }
                    | Note::Reconnected
                    | Note::ListHangs(_)
                    | Note::ListAnswers { .. }
                    | Note::ListsOften { .. },
                ..
            }
            | Item::Watching { .. } => true,
        }
    }

    async fn note(&self, note: &Note) -> Result<(), Stopped> {
        self.show(&Item::Note { note, at: pleg::clock::wall_clock() }).await
    }
}

/// When to look around. Nothing is made up for after a standstill.
fn looks() -> Interval {
    let mut interval = tokio::time::interval(LIST_HANGS_AFTER);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The state of a watch under way.
struct Following<'a> {
    handle: &'a Handle,
    events: Subscription,
    reach: Receiver<Reach>,
    relists: Receiver<Option<pleg::Stamp>>,
    periods: Receiver<Option<(Duration, PeriodReason)>>,
    /// For how long the process stood still last, if it ever did.
    stood_still: Receiver<Option<Duration>>,
    epoch: Option<u64>,
    lost_since: Option<Instant>,
    stuck: BTreeMap<PodUid, StuckPod>,
    /// The call that a hung list waits for, once that has been said.
    hung_list: Option<CallReport>,
    /// Pods that were there at the start, and have not been shown yet.
    there: VecDeque<Arc<PodStatus>>,
}

impl<'a> Following<'a> {
    fn new(handle: &'a Handle, events: Subscription, stood_still: Receiver<Option<Duration>>) -> Self {
        Self {
            handle,
            events,
            reach: handle.reach(),
            relists: handle.relists(),
            periods: handle.periods(),
            stood_still,
            epoch: None,
            lost_since: None,
            stuck: BTreeMap::new(),
            hung_list: None,
            there: VecDeque::new(),
        }
    }

    /// Never ends by itself.
    async fn run(mut self, screen: &Screen) -> Result<std::convert::Infallible, Stopped> {
        self.wait_for_what_is_there(screen).await?;
        let mut looks = looks();
        loop {
            tokio::select! {
                biased;
                room = screen.printer.room(), if !self.there.is_empty() => {
                    let room = room?;
                    if let Some(status) = self.there.pop_front() {
                        screen.show_in(room, &Item::Pod(&status));
                    }
                }
                // Rare things first: events may come without end. And first of all what explains the others.
                Ok(()) = self.stood_still.changed() => self.note_standstill(screen).await?,
                Ok(()) = self.reach.changed() => self.note_reach(screen).await?,
                Ok(()) = self.relists.changed() => self.note_calls(screen).await?,
                Ok(()) = self.periods.changed() => self.note_period(screen).await?,
                _ = looks.tick() => self.look_around(screen).await?,
                next = next_event(&mut self.events, &screen.printer), if self.there.is_empty() => {
                    let (room, event) = next?;
                    screen.show_in(room, &Item::Event(&event));
                }
            }
        }
    }

    /// Waits for the first good relist and takes the pods that it found, in place of the events that led there.
    async fn wait_for_what_is_there(&mut self, screen: &Screen) -> Result<(), Stopped> {
        let cache = self.handle.cache();
        let mut looks = looks();
        while self.relists.borrow_and_update().is_none() {
            tokio::select! {
                Ok(()) = self.reach.changed() => self.note_reach(screen).await?,
                Ok(()) = self.relists.changed() => {}
                _ = looks.tick() => self.look_around(screen).await?,
            }
        }
        while self.events.try_next().is_some() {}
        self.there = cache.all().into_iter().filter_map(|(_, status)| status.ok()).collect();
        self.there
            .make_contiguous()
            .sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
        self.note_reach(screen).await
    }

    /// What nobody tells: that the reader is gone, and which calls hang.
    async fn look_around(&mut self, screen: &Screen) -> Result<(), Stopped> {
        if !printer::has_reader() {
            return Err(Stopped);
        }
        self.note_calls(screen).await
    }

    async fn note_standstill(&mut self, screen: &Screen) -> Result<(), Stopped> {
        // The connection that comes next is new because we hung up.
        self.epoch = None;
        let stood_still = *self.stood_still.borrow_and_update();
        match stood_still {
            Some(after) => screen.note(&Note::StoodStill(after)).await,
            None => Ok(()),
        }
    }

    /// That lists become rare again is how it should be, and no news; nor is that we stood still.
    async fn note_period(&mut self, screen: &Screen) -> Result<(), Stopped> {
        let news = *self.periods.borrow_and_update();
        match news {
            Some((_, PeriodReason::AllAnnounced | PeriodReason::Restarted)) | None => Ok(()),
            Some((period, reason)) => screen.note(&Note::ListsOften { period, reason }).await,
        }
    }

    async fn note_reach(&mut self, screen: &Screen) -> Result<(), Stopped> {
        let reach = self.reach.borrow_and_update().clone();
        let note = match reach {
            Reach::Unasked => None,
            // Noted when the next list is answered.
            Reach::Lost { error } if error.failure == pleg::Failure::Reconnected => None,
            Reach::Lost { error } => match self.lost_since {
                Some(_) => None,
                None => {
                    self.lost_since = Some(Instant::now());
                    Some(Note::RuntimeLost { reason: error.message.to_string() })
                }
            },
            Reach::Reached { epoch } => {
                let was = self.epoch.replace(epoch);
                match self.lost_since.take() {
                    Some(since) => Some(Note::RuntimeBack { after: since.elapsed() }),
                    None => was.is_some_and(|was| was != epoch).then_some(Note::Reconnected),
                }
            }
        };
        match note {
            Some(note) => screen.note(&note).await,
            None => Ok(()),
        }
    }

    /// Names the calls that have begun to hang or fail, and those that no longer do.
    async fn note_calls(&mut self, screen: &Screen) -> Result<(), Stopped> {
        let health = self.handle.health();
        let hung_list = health.list_call.filter(|call| call.age >= LIST_HANGS_AFTER);
        let stuck = health.stuck_pods.into_iter().map(|stuck| (stuck.pod.uid.clone(), stuck)).collect();

        match (std::mem::replace(&mut self.hung_list, hung_list), &self.hung_list) {
            (None, Some(call)) => screen.note(&Note::ListHangs(call.clone())).await?,
            (Some(call), None) => screen.note(&Note::ListAnswers { after: call.age }).await?,
            (Some(_), Some(_)) | (None, None) => {}
        }
        let before: BTreeMap<PodUid, StuckPod> = std::mem::replace(&mut self.stuck, stuck);
        for (uid, stuck) in &self.stuck {
            if !before.contains_key(uid) {
                screen.note(&Note::PodStuck(stuck.clone())).await?;
            }
        }
        for (uid, stuck) in before {
            // One that was removed has said so with its events.
            if !self.stuck.contains_key(&uid) && self.handle.cache().contains(&uid) {
                let note = Note::PodUnstuck { pod: stuck.pod, after: stuck.age };
                screen.note(&note).await?;
            }
        }
        Ok(())
    }
}

/// The next event, taken when there is room for it.
async fn next_event<'a>(
    events: &mut Subscription,
    printer: &'a Printer,
) -> Result<(Room<'a>, Arc<PodEvent>), Stopped> {
    let room = printer.room().await?;
    match events.next().await {
        Some(event) => Ok((room, event)),
        // The PLEG is gone, and nothing happens any more.
        None => std::future::pending().await,
    }
}
