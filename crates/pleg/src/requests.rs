//! What others ask of the PLEG: a look at a pod, or a fresh inspection of it.
//!
//! A set, not a queue: asking twice is asking once, so it is bounded by pods and never drops anything.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rubelet_model::PodUid;
use tokio::sync::Notify;

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
}

impl Requests {
    /// Asks for a look at a pod.
    pub(crate) fn nudge(&self, pod: PodUid, at: Stamp) {
        keep_newest(&mut self.waiting.lock().nudges, pod, at);
        self.arrived.notify_one();
    }

    /// Asks for an inspection of a pod at its next look.
    pub(crate) fn reinspect(&self, pod: PodUid, at: Stamp) {
        keep_newest(&mut self.waiting.lock().reinspects, pod, at);
        self.arrived.notify_one();
    }

    /// Waits until something is asked for.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Everything that is asked for. Reinspections come first, so that a look asked for together with one
    /// already serves it.
    pub(crate) fn take(&self) -> impl Iterator<Item = Input> + use<> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let reinspects = waiting.reinspects.into_iter().map(|(pod, at)| Input::Reinspect { pod, at });
        let nudges = waiting.nudges.into_iter().map(|(pod, at)| Input::Nudge { pod, at });
        reinspects.chain(nudges)
    }
}

/// Moments are taken before the lock, so they may come in the wrong order.
fn keep_newest(wishes: &mut BTreeMap<PodUid, Stamp>, pod: PodUid, at: Stamp) {
    let newest = wishes.entry(pod).or_insert(at);
    *newest = at.max(*newest);
}
