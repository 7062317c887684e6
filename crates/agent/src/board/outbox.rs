//! The statuses that a sink has not received yet: one slot per pod, in which the newest wins. It is never a queue that
//! grows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::Stamp;
use rubelet_model::PodUid;
use tokio::sync::Notify;

use super::PodView;

/// How long to wait after a sink has failed; doubled each time, up to a minute.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// How quickly a sink wants its statuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// How long a change waits for a further one that may follow at once.
    pub settle: Duration,
    /// The minimum time between two deliveries for the same pod.
    pub between: Duration,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// The newest status that has not been delivered, and since when there has been something to deliver.
    waiting: Option<(Arc<PodView>, Stamp)>,
    /// What was last handed to the sink.
    given: Option<Given>,
    is_under_way: bool,
    /// The pod is gone; the slot is kept until the delivery in progress has completed. A pod that comes back with the
    /// same UID waits for that.
    is_gone: bool,
    failures: u32,
    /// After a failure, the earliest time of the next attempt.
    not_before: Option<Stamp>,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    version: u64,
    is_finished: bool,
    at: Stamp,
}

impl Slot {
    /// Returns when the waiting status may be delivered. The end of a pod is delivered at once, as it happens only
    /// once.
    fn due(&self, pace: Pace) -> Option<Stamp> {
        let (view, since) = self.waiting.as_ref().filter(|_| !self.is_under_way)?;
        let is_new_end = view.is_finished() && !self.given.is_some_and(|given| given.is_finished);
        let by_pace = if is_new_end {
            *since
        } else {
            let after_last = self.given.map_or(Stamp::ZERO, |given| given.at.plus(pace.between));
            since.plus(pace.settle).max(after_last)
        };
        Some(self.not_before.map_or(by_pace, |until| by_pace.max(until)))
    }
}

/// The slots of one sink, as a plain value.
#[derive(Debug, Default)]
pub(super) struct Slots(BTreeMap<PodUid, Slot>);

impl Slots {
    /// Puts in the current state of a pod. Returns whether that is news.
    pub(super) fn put(&mut self, uid: &PodUid, view: &Arc<PodView>, now: Stamp) -> bool {
        let slot = self.0.entry(uid.clone()).or_default();
        slot.is_gone = false;
        let newest = slot.waiting.as_ref().map(|(waiting, _)| waiting.version);
        if newest.or(slot.given.map(|given| given.version)) == Some(view.version) {
            return false;
        }
        let since = slot.waiting.as_ref().map_or(now, |(_, since)| *since);
        slot.waiting = Some((view.clone(), since));
        true
    }

    /// Removes a pod: nothing more will be delivered for it.
    pub(super) fn remove(&mut self, uid: &PodUid) {
        match self.0.get_mut(uid) {
            Some(slot) if slot.is_under_way => {
                *slot = Slot { is_under_way: true, is_gone: true, ..Slot::default() };
            }
            _ => {
                self.0.remove(uid);
            }
        }
    }

    /// Ends the delivery in progress for a pod, whether it succeeded or not. Returns `None` if there is no such pod any
    /// more.
    fn arrived(&mut self, uid: &PodUid) -> Option<&mut Slot> {
        let slot = self.0.get_mut(uid)?;
        slot.is_under_way = false;
        if slot.is_gone {
            self.0.remove(uid);
            return None;
        }
        self.0.get_mut(uid)
    }

    /// Takes out the next status to deliver, if one is due.
    pub(super) fn take(&mut self, pace: Pace, now: Stamp) -> Option<(PodUid, Arc<PodView>)> {
        // The one that has waited longest: no pod is passed over because others change more often.
        let due =
            |(uid, slot): (&PodUid, &Slot)| Some((slot.due(pace).filter(|due| *due <= now)?, uid.clone()));
        let (_, uid) = self.0.iter().filter_map(due).min()?;
        let slot = self.0.get_mut(&uid)?;
        let (view, _) = slot.waiting.take()?;
        slot.is_under_way = true;
        slot.given = Some(Given { version: view.version, is_finished: view.is_finished(), at: now });
        Some((uid, view))
    }

    /// Returns when the next one is due.
    pub(super) fn next_due(&self, pace: Pace) -> Option<Stamp> {
        self.0.values().filter_map(|slot| slot.due(pace)).min()
    }

    /// Records that a delivery succeeded.
    pub(super) fn delivered(&mut self, uid: &PodUid) {
        let Some(slot) = self.arrived(uid) else { return };
        (slot.failures, slot.not_before) = (0, None);
    }

    /// Records that a delivery failed: its status waits again, unless a newer one does. Returns how often it has failed
    /// so far; `None` for a pod that is gone.
    pub(super) fn failed(&mut self, uid: &PodUid, view: &Arc<PodView>, now: Stamp) -> Option<u32> {
        let slot = self.arrived(uid)?;
        slot.given = None;
        slot.waiting.get_or_insert_with(|| (view.clone(), now));
        slot.failures += 1;
        let wait = RETRY.saturating_mul(2_u32.saturating_pow(slot.failures - 1)).min(LONGEST_RETRY);
        slot.not_before = Some(now.plus(wait));
        Some(slot.failures)
    }

    /// The number of pods, for estimating the cost of keeping them.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The slots of one sink, with a notifier. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox(Arc<(Mutex<Slots>, Notify)>);

impl Outbox {
    pub(super) fn put(&self, uid: &PodUid, view: &Arc<PodView>, now: Stamp) {
        if self.0.0.lock().put(uid, view, now) {
            self.0.1.notify_one();
        }
    }

    pub(super) fn remove(&self, uid: &PodUid) {
        self.0.0.lock().remove(uid);
    }

    /// Reads or changes the slots.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Slots) -> T) -> T {
        work(&mut self.0.0.lock())
    }

    /// Waits until there is something new. Cancel safe: it is notified again for what is still there.
    pub(super) async fn rung(&self) {
        self.0.1.notified().await;
    }
}
