//! What a running watch waits for, and what it prints about that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pleg::{CallReport, Handle, PeriodReason, PodEvent, Reach, StuckPod, Subscription};
use rubelet_model::{PodStatus, PodUid};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::screen::Screen;
use super::{Item, Note};
use crate::printer::{self, Printer, Room, Stopped};

/// A list without an answer for this long is reported.
const LIST_HANGS_AFTER: Duration = Duration::from_secs(3);

/// The state of a running watch.
pub(super) struct Following<'a> {
    handle: &'a Handle,
    events: Subscription,
    reach: Receiver<Reach>,
    relists: Receiver<Option<pleg::Stamp>>,
    periods: Receiver<Option<(Duration, PeriodReason)>>,
    /// How long the process was last stopped, if it ever was.
    stood_still: Receiver<Option<Duration>>,
    epoch: Option<u64>,
    lost_since: Option<Instant>,
    stuck: BTreeMap<PodUid, StuckPod>,
    /// The call that a hung list waits for, once that has been reported.
    hung_list: Option<CallReport>,
    /// The pods whose hung looks have been reported.
    hung_looks: BTreeSet<PodUid>,
    /// Pods that existed at the start and have not been shown yet.
    there: VecDeque<Arc<PodStatus>>,
}

impl<'a> Following<'a> {
    pub(super) fn new(
        handle: &'a Handle,
        events: Subscription,
        stood_still: Receiver<Option<Duration>>,
    ) -> Self {
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
            hung_looks: BTreeSet::new(),
            there: VecDeque::new(),
        }
    }

    /// Runs until the output stops; it never ends by itself.
    pub(super) async fn run(mut self, screen: &Screen) -> Result<std::convert::Infallible, Stopped> {
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
                // Rare things come first, since events may come without end; and before all others, what explains them.
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

    /// Waits for the first successful relist and takes the pods that it found, instead of the events that led there.
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

    /// Checks what no channel reports: whether the reader is gone, and which calls hang.
    async fn look_around(&mut self, screen: &Screen) -> Result<(), Stopped> {
        if !printer::has_reader() {
            return Err(Stopped);
        }
        self.note_calls(screen).await
    }

    async fn note_standstill(&mut self, screen: &Screen) -> Result<(), Stopped> {
        // The next connection is new because this process closed the previous one.
        self.epoch = None;
        let stood_still = *self.stood_still.borrow_and_update();
        match stood_still {
            Some(after) => screen.note(&Note::StoodStill(after)).await,
            None => Ok(()),
        }
    }

    /// Reports that lists have become frequent. That they become rare again is normal and not reported; nor is a change
    /// because this process was stopped.
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
            // It is reported when the next list is answered.
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

    /// Reports the calls that have begun to hang or fail, and those that no longer do.
    async fn note_calls(&mut self, screen: &Screen) -> Result<(), Stopped> {
        let health = self.handle.health();
        let hung_list = health.list_call.filter(|call| call.age >= LIST_HANGS_AFTER);
        let stuck = health.stuck_pods.into_iter().map(|stuck| (stuck.pod.uid.clone(), stuck)).collect();

        match (std::mem::replace(&mut self.hung_list, hung_list), &self.hung_list) {
            (None, Some(call)) => screen.note(&Note::ListHangs(call.clone())).await?,
            (Some(call), None) => screen.note(&Note::ListAnswers { after: call.age }).await?,
            (Some(_), Some(_)) | (None, None) => {}
        }
        let hung_looks = health.hung_looks.iter().map(|look| look.pod.uid.clone()).collect();
        let before = std::mem::replace(&mut self.hung_looks, hung_looks);
        for look in health.hung_looks {
            if !before.contains(&look.pod.uid) {
                screen.note(&Note::LookHangs(look)).await?;
            }
        }
        let before: BTreeMap<PodUid, StuckPod> = std::mem::replace(&mut self.stuck, stuck);
        for (uid, stuck) in &self.stuck {
            if !before.contains_key(uid) {
                screen.note(&Note::PodStuck(stuck.clone())).await?;
            }
        }
        for (uid, stuck) in before {
            // The events of a removed pod have already reported its removal.
            if !self.stuck.contains_key(&uid) && self.handle.cache().contains(&uid) {
                let note = Note::PodUnstuck { pod: stuck.pod, after: stuck.age };
                screen.note(&note).await?;
            }
        }
        Ok(())
    }
}

/// Returns the next event, which is taken only when there is room for it.
async fn next_event<'a>(
    events: &mut Subscription,
    printer: &'a Printer,
) -> Result<(Room<'a>, Arc<PodEvent>), Stopped> {
    let room = printer.room().await?;
    match events.next().await {
        Some(event) => Ok((room, event)),
        // The PLEG is gone, so nothing happens any more.
        None => std::future::pending().await,
    }
}

/// The times to check. Those missed while the process was stopped are skipped.
fn looks() -> Interval {
    let mut interval = tokio::time::interval(LIST_HANGS_AFTER);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
