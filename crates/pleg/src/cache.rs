//! The newest status of every pod, and the means to wait for one that is new enough.
//!
//! There is one writer, the PLEG's driver; readers get shared, immutable values. Times are the moments just
//! before the runtime was asked, so "newer than t" means "asked after t": it can never return something read
//! before `t`. The global time vouches for every pod that is not held, also for those the runtime does not know.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rubelet_model::{PodStatus, PodUid};
use tokio::sync::oneshot;

use crate::clock::Stamp;
use crate::observe::ObserveError;
use crate::requests::Requests;

/// How many pods are remembered that were found absent. Lists that prove the same of all make them needless, but there are
/// none of those while a runtime has something that cannot be read.
const MOST_ABSENT: usize = 10_000;

/// What the cache has to say of a pod: its status, or why the newest inspection failed.
pub type CachedStatus = Result<Arc<PodStatus>, ObserveError>;

/// The PLEG has ended, so nothing newer will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pleg has ended: no newer status will come")]
pub struct Closed;

#[derive(Debug)]
struct Entry {
    status: CachedStatus,
    /// When the list behind the newest inspection was asked for.
    modified: Stamp,
    /// When the newest list that showed nothing else was asked for.
    observed: Stamp,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    newer_than: Stamp,
    wake: oneshot::Sender<CachedStatus>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<PodUid, Entry>,
    /// Pods without an entry that were found absent after the global time.
    absent: HashMap<PodUid, Stamp>,
    /// Pods that the global time does not vouch for.
    held: HashSet<PodUid>,
    global: Option<Stamp>,
    /// As of when pods without an entry are not known to the runtime.
    nothing_else: Option<Stamp>,
    waiters: HashMap<PodUid, Vec<Waiter>>,
    next_waiter: u64,
    closed: bool,
}

impl State {
    fn get(&self, pod: &PodUid) -> CachedStatus {
        match self.entries.get(pod) {
            Some(entry) => entry.status.clone(),
            None => Ok(Arc::new(PodStatus::unknown_to_runtime(pod.clone()))),
        }
    }

    fn get_if_newer(&self, pod: &PodUid, than: Stamp) -> Option<CachedStatus> {
        let (itself, global) = match self.entries.get(pod) {
            Some(entry) => (Some(entry.modified.max(entry.observed)), self.global),
            None => (self.absent.get(pod).copied(), self.nothing_else),
        };
        let vouched_for = if self.held.contains(pod) { None } else { global };
        itself.max(vouched_for).is_some_and(|asked| asked > than).then(|| self.get(pod))
    }

    /// Remembers that a pod was absent as of `asked`, and forgets the one of which that was found out first, if there are too
    /// many.
    fn note_absent(&mut self, pod: PodUid, asked: Stamp) {
        self.absent.insert(pod, asked);
        if self.absent.len() > MOST_ABSENT {
            let oldest = self.absent.iter().min_by_key(|(_, asked)| **asked).map(|(pod, _)| pod.clone());
            oldest.and_then(|pod| self.absent.remove(&pod));
        }
    }

    /// Wakes whoever waits for something about `pod` as of `asked` or earlier.
    fn notify(&mut self, pod: &PodUid, asked: Stamp) {
        let Some(waiters) = self.waiters.get_mut(pod) else { return };
        let (ready, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(waiters).into_iter().partition(|waiter| waiter.newer_than <= asked);
        if waiting.is_empty() {
            self.waiters.remove(pod);
        } else {
            *waiters = waiting;
        }
        if ready.is_empty() {
            return;
        }
        let status = self.get(pod);
        for waiter in ready {
            // A waiter that has given up is none of our business.
            drop(waiter.wake.send(status.clone()));
        }
    }
}

/// The writing end. There is only one.
#[derive(Debug)]
pub(crate) struct CacheWriter {
    state: Arc<Mutex<State>>,
    requests: Arc<Requests>,
}

impl CacheWriter {
    /// A cache that is empty; whoever waits for something newer says so with a request.
    pub(crate) fn new(requests: Arc<Requests>) -> Self {
        Self { state: Arc::default(), requests }
    }

    pub(crate) fn reader(&self) -> CacheReader {
        CacheReader { state: self.state.clone(), requests: self.requests.clone() }
    }

    /// Stores what an inspection found.
    pub(crate) fn store(&self, pod: &PodUid, status: CachedStatus, asked: Stamp) {
        let mut state = self.state.lock();
        state.absent.remove(pod);
        state.entries.insert(pod.clone(), Entry { status, modified: asked, observed: asked });
        state.notify(pod, asked);
    }

    /// Forgets a pod. Whoever waits for it is woken by the time that proves its absence.
    pub(crate) fn forget(&self, pod: &PodUid) {
        self.state.lock().entries.remove(pod);
    }

    /// The global time no longer vouches for this pod.
    pub(crate) fn hold(&self, pod: PodUid) {
        self.state.lock().held.insert(pod);
    }

    /// What is stored of this pod holds as of `asked`.
    pub(crate) fn settle(&self, pod: &PodUid, asked: Stamp) {
        let mut state = self.state.lock();
        state.held.remove(pod);
        match state.entries.get_mut(pod) {
            Some(entry) => entry.observed = asked,
            None => state.note_absent(pod.clone(), asked),
        }
        state.notify(pod, asked);
    }

    /// What is stored holds as of `asked` for every pod that is not held; if `proves_absence`, what is not stored is
    /// not known to the runtime either.
    pub(crate) fn advance(&self, asked: Stamp, proves_absence: bool) {
        let mut state = self.state.lock();
        state.global = Some(asked);
        if proves_absence {
            state.nothing_else = Some(asked);
            state.absent.retain(|_, absent| *absent > asked);
        }
        let is_told = |pod: &&PodUid| {
            !state.held.contains(*pod) && (proves_absence || state.entries.contains_key(*pod))
        };
        let waited_for: Vec<PodUid> = state.waiters.keys().filter(is_told).cloned().collect();
        for pod in waited_for {
            state.notify(&pod, asked);
        }
    }

    /// Nothing newer will come: whoever waits is told so.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiters.clear();
    }
}

/// The reading end: cheap to clone, never in the writer's way.
#[derive(Clone, Debug)]
pub struct CacheReader {
    state: Arc<Mutex<State>>,
    requests: Arc<Requests>,
}

impl CacheReader {
    /// What is stored of a pod, at once. A pod that is not stored has the status of one that the runtime does
    /// not know.
    pub fn get(&self, pod: &PodUid) -> CachedStatus {
        self.state.lock().get(pod)
    }

    /// What [`newer_than`](Self::newer_than) would return without waiting.
    #[must_use]
    pub fn newer_than_now(&self, pod: &PodUid, than: Stamp) -> Option<CachedStatus> {
        self.state.lock().get_if_newer(pod, than)
    }

    /// Whether anything is stored of a pod.
    #[must_use]
    pub fn contains(&self, pod: &PodUid) -> bool {
        self.state.lock().entries.contains_key(pod)
    }

    /// Every pod that is stored.
    #[must_use]
    pub fn all(&self) -> Vec<(PodUid, CachedStatus)> {
        let state = self.state.lock();
        state.entries.iter().map(|(pod, entry)| (pod.clone(), entry.status.clone())).collect()
    }

    /// Every pod that the runtime knows, for those who must not miss one: nothing before the first list, while a pod
    /// is being inspected or cannot be, or while a list has entries that cannot be read.
    #[must_use]
    pub fn whole(&self) -> Option<Vec<Arc<PodStatus>>> {
        let state = self.state.lock();
        let is_settled =
            state.global.is_some() && state.nothing_else == state.global && state.held.is_empty();
        let statuses = || state.entries.values().map(|entry| entry.status.clone().ok()).collect();
        is_settled.then(statuses).flatten()
    }

    /// As of when every pod that is settled is known; nothing before the first list.
    #[must_use]
    pub fn as_of(&self) -> Option<Stamp> {
        self.state.lock().global
    }

    /// What the runtime said of a pod when it was asked after `than`.
    ///
    /// Waits until there is such an answer. It may be dropped at any moment without losing anything for others.
    ///
    /// # Errors
    ///
    /// [`Closed`] when the PLEG ends first.
    pub async fn newer_than(&self, pod: &PodUid, than: Stamp) -> Result<CachedStatus, Closed> {
        let (number, woken) = {
            let mut state = self.state.lock();
            if let Some(status) = state.get_if_newer(pod, than) {
                return Ok(status);
            }
            if state.closed {
                return Err(Closed);
            }
            let (wake, woken) = oneshot::channel();
            let number = state.next_waiter;
            state.next_waiter += 1;
            state.waiters.entry(pod.clone()).or_default().push(Waiter { number, newer_than: than, wake });
            (number, woken)
        };
        self.requests.awaited();
        let _leave_if_dropped = Leave { cache: self, pod, number };
        woken.await.map_err(|_| Closed)
    }
}

/// Takes a waiter off the list when its future ends, however it ends.
struct Leave<'a> {
    cache: &'a CacheReader,
    pod: &'a PodUid,
    number: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.lock();
        if let Some(waiters) = state.waiters.get_mut(self.pod) {
            waiters.retain(|waiter| waiter.number != self.number);
            if waiters.is_empty() {
                state.waiters.remove(self.pod);
            }
        }
    }
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
