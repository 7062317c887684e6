//! Delivers events to any number of subscribers, and loses none.
//!
//! Each subscriber has a queue of its own, so a slow one does not slow down the others. The memory of a queue is
//! bounded by the number of pods, not of events: when more than [`PER_POD`] events of one pod are waiting, they become
//! one `PodSync` that says how many events it stands for. So the counts of everything that a subscriber reads add up to
//! the number of events. Since pods come and go as well, there is a final bound: if events of very many pods are
//! waiting, those of the oldest pods are still counted, but the pods are no longer named.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rubelet_model::PodUid;
use tokio::sync::Notify;

use crate::event::{EventKind, PodEvent};

/// How many events of one pod may wait for a subscriber before they are merged.
pub const PER_POD: usize = 8;
/// Once events of this many pods are waiting, most of which must be long gone, the events of a pod are merged at once.
const MANY_PODS: usize = 4_096;
/// The largest number of pods that a queue names. If there are more, the events of the oldest are added to the count of
/// the next event that is read.
const MOST_PODS: usize = 65_536;

#[derive(Debug, Default)]
struct Pending {
    /// The waiting events by number, which is the order in which they happened and are read.
    events: BTreeMap<u64, Arc<PodEvent>>,
    /// The numbers of the waiting events of each pod.
    by_pod: HashMap<PodUid, Vec<u64>>,
    /// How many events of pods that are no longer named are waiting.
    nameless: u64,
    closed: bool,
}

impl Pending {
    fn push(&mut self, event: Arc<PodEvent>) {
        let limit = if self.by_pod.len() < MANY_PODS { PER_POD } else { 1 };
        let of_pod = self.by_pod.entry(event.pod.uid.clone()).or_default();
        let was_merged = self.events.get(&last(of_pod)).is_some_and(|newest| newest.merged > 1);
        let event = if of_pod.len() < limit && !was_merged {
            event
        } else {
            let waiting: u64 = of_pod
                .drain(..)
                .filter_map(|seq| self.events.remove(&seq))
                .map(|waiting| waiting.merged)
                .sum();
            Arc::new(PodEvent {
                kind: EventKind::PodSync,
                subject: None,
                exit: None,
                happened_at: None,
                merged: waiting + event.merged,
                ..PodEvent::clone(&event)
            })
        };
        of_pod.push(event.seq);
        self.events.insert(event.seq, event);
        while self.by_pod.len() > MOST_PODS
            && let Some(oldest) = self.take_oldest()
        {
            self.nameless += oldest.merged;
        }
    }

    fn pop(&mut self) -> Option<Arc<PodEvent>> {
        let mut event = self.take_oldest()?;
        if self.nameless > 0 {
            Arc::make_mut(&mut event).merged += std::mem::take(&mut self.nameless);
        }
        Some(event)
    }

    fn take_oldest(&mut self) -> Option<Arc<PodEvent>> {
        let (seq, event) = self.events.pop_first()?;
        if let Some(of_pod) = self.by_pod.get_mut(&event.pod.uid) {
            of_pod.retain(|waiting| *waiting != seq);
            if of_pod.is_empty() {
                self.by_pod.remove(&event.pod.uid);
            }
        }
        Some(event)
    }
}

/// The number of the newest waiting event of a pod, or zero, which no event has.
fn last(of_pod: &[u64]) -> u64 {
    of_pod.last().copied().unwrap_or(0)
}

#[derive(Debug, Default)]
struct Mailbox {
    pending: Mutex<Pending>,
    arrived: Notify,
}

/// The sending end.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    subscribers: Mutex<Subscribers>,
}

#[derive(Debug, Default)]
struct Subscribers {
    mailboxes: Vec<Weak<Mailbox>>,
    closed: bool,
}

impl Feed {
    /// Creates a subscriber to all events from now on.
    pub(crate) fn subscribe(&self) -> Subscription {
        let mailbox = Arc::new(Mailbox::default());
        let mut subscribers = self.subscribers.lock();
        mailbox.pending.lock().closed = subscribers.closed;
        subscribers.mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        subscribers.mailboxes.push(Arc::downgrade(&mailbox));
        Subscription(mailbox)
    }

    /// Sends an event to all subscribers. Never waits.
    pub(crate) fn tell(&self, event: PodEvent) {
        let event = Arc::new(event);
        self.subscribers.lock().mailboxes.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else { return false };
            mailbox.pending.lock().push(event.clone());
            mailbox.arrived.notify_one();
            true
        });
    }

    /// Ends the feed: subscribers read what is waiting for them, and then the end.
    pub(crate) fn close(&self) {
        let mut subscribers = self.subscribers.lock();
        subscribers.closed = true;
        for mailbox in subscribers.mailboxes.drain(..).filter_map(|mailbox| mailbox.upgrade()) {
            mailbox.pending.lock().closed = true;
            mailbox.arrived.notify_one();
        }
    }
}

/// The receiving end of one subscriber.
#[derive(Debug)]
pub struct Subscription(Arc<Mailbox>);

impl Subscription {
    /// Returns the next event, or `None` once the PLEG has ended and everything has been read.
    ///
    /// The future may be dropped at any moment: an event leaves the queue only when it is returned.
    pub async fn next(&mut self) -> Option<Arc<PodEvent>> {
        loop {
            {
                let mut pending = self.0.pending.lock();
                if let Some(event) = pending.pop() {
                    return Some(event);
                }
                if pending.closed {
                    return None;
                }
            }
            self.0.arrived.notified().await;
        }
    }

    /// Returns the next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<PodEvent>> {
        self.0.pending.lock().pop()
    }

    /// The number of waiting events; a merged event counts as one.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.pending.lock().events.len()
    }
}

#[cfg(test)]
#[path = "feed/tests.rs"]
mod tests;
