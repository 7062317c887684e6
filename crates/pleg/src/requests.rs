//! What others ask of the PLEG, and what the runtime announces to it.
//!
//! These are sets, not queues: several requests for one pod are one request, and an announcement of one step is kept
//! once. So everything is bounded by what is on the node, and nothing is ever dropped.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use rubelet_model::PodUid;
use tokio::sync::Notify;

use crate::announce::{Announcement, LifeStep, StreamError};
use crate::clock::Stamp;
use crate::core::Input;

#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    nudges: BTreeMap<PodUid, Stamp>,
    reinspects: BTreeMap<PodUid, Stamp>,
    awaited: bool,
    /// What happened to the stream, and what was announced on it, in order.
    streams: Vec<Input>,
    announced: BTreeMap<(Arc<str>, LifeStep), Announcement>,
    heard: Option<Stamp>,
}

impl Waiting {
    /// Ends a batch of announcements, to keep their order with the events of the stream itself.
    fn close_announcements(&mut self) {
        if let Some(at) = self.heard.take() {
            let announcements = std::mem::take(&mut self.announced).into_values().collect();
            self.streams.push(Input::Announced { announcements, at });
        }
    }
}

impl Requests {
    /// Asks for a look at a pod.
    pub(crate) fn nudge(&self, pod: PodUid, at: Stamp) {
        keep_newest(&mut self.waiting.lock().nudges, pod, at);
        self.arrived.notify_one();
    }

    /// Asks for an inspection of a pod after its next list or look.
    pub(crate) fn reinspect(&self, pod: PodUid, at: Stamp) {
        keep_newest(&mut self.waiting.lock().reinspects, pod, at);
        self.arrived.notify_one();
    }

    /// Reports that somebody is waiting for something newer than what is known.
    pub(crate) fn awaited(&self) {
        self.waiting.lock().awaited = true;
        self.arrived.notify_one();
    }

    /// Reports that the event stream was opened.
    pub(crate) fn stream_opened(&self) {
        self.stream(Input::StreamOpened);
    }

    /// Reports that the event stream ended.
    pub(crate) fn stream_ended(&self, error: StreamError) {
        self.stream(Input::StreamEnded(error));
    }

    fn stream(&self, input: Input) {
        let mut waiting = self.waiting.lock();
        waiting.close_announcements();
        waiting.streams.push(input);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Passes on an announcement of the runtime.
    pub(crate) fn announce(&self, announcement: Announcement, at: Stamp) {
        let mut waiting = self.waiting.lock();
        waiting.heard = waiting.heard.max(Some(at));
        match waiting.announced.entry((announcement.id.clone(), announcement.step)) {
            Entry::Vacant(place) => {
                place.insert(announcement);
            }
            Entry::Occupied(mut known) => known.get_mut().add(announcement),
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Drops what was received of a stream that is no longer followed.
    pub(crate) fn forget_stream(&self) {
        let mut waiting = self.waiting.lock();
        waiting.streams.clear();
        waiting.announced.clear();
        waiting.heard = None;
    }

    /// Waits until there is a request or an announcement.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes everything that has arrived. Reinspections come first, so that a look that was asked for together with one
    /// already serves it.
    pub(crate) fn take(&self) -> impl Iterator<Item = Input> + use<> {
        let mut waiting = self.waiting.lock();
        waiting.close_announcements();
        let waiting = std::mem::take(&mut *waiting);
        let reinspects = waiting.reinspects.into_iter().map(|(pod, at)| Input::Reinspect { pod, at });
        let nudges = waiting.nudges.into_iter().map(|(pod, at)| Input::Nudge { pod, at });
        let awaited = waiting.awaited.then_some(Input::Awaited);
        reinspects.chain(waiting.streams).chain(nudges).chain(awaited)
    }
}

/// Keeps the newest moment of a wish. Moments are taken before the lock, so they may arrive out of order.
fn keep_newest(wishes: &mut BTreeMap<PodUid, Stamp>, pod: PodUid, at: Stamp) {
    let newest = wishes.entry(pod).or_insert(at);
    *newest = at.max(*newest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Exit;

    /// Runtimes announce an end twice, but say how it happened only once.
    #[test]
    fn what_is_announced_twice_keeps_what_either_said() {
        let announcement = |exit: Option<i32>, exited_at: Option<i64>| Announcement {
            id: "c".into(),
            step: LifeStep::Stopped,
            pod: None,
            subject: None,
            exit: exit.map(|code| Exit { code, reason: "Error".into(), oom_killed: false }),
            exited_at: exited_at.map(rubelet_model::UnixNanos),
            announced_at: None,
        };
        for [first, second] in [[(Some(3), None), (None, Some(7))], [(None, Some(7)), (Some(3), None)]] {
            let requests = Requests::default();
            requests.announce(announcement(first.0, first.1), Stamp::from_nanos(1));
            requests.announce(announcement(second.0, second.1), Stamp::from_nanos(2));
            let taken: Vec<Input> = requests.take().collect();
            let [Input::Announced { announcements, .. }] = &taken[..] else { panic!("{taken:?}") };
            assert_eq!(announcements[..], [announcement(Some(3), Some(7))]);
        }
    }
}
