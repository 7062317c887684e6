//! The newest status of every pod, and the means to wait for one that is new enough.
//!
//! There is one writer, the PLEG's driver; readers get shared, immutable values. Times are taken just before the
//! runtime is asked, so "newer than `t`" means "asked after `t`": it never returns anything that was read before `t`.
//! The global time vouches for every pod that is not held, including pods that the runtime does not know.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rubelet_model::{PodStatus, PodUid};
use tokio::sync::oneshot;

use crate::clock::Stamp;
use crate::observe::ObserveError;
use crate::requests::Requests;

/// How many absent pods to remember individually. A list that proves absence makes these entries superfluous, but there
/// is none while a runtime has an entry that cannot be read.
const MOST_ABSENT: usize = 10_000;

/// What the cache stores of a pod: its status, or why its newest inspection failed.
pub type CachedStatus = Result<Arc<PodStatus>, ObserveError>;

/// The error of a wait that cannot succeed any more, because the PLEG has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pleg has ended: no newer status will come")]
pub struct Closed;

#[derive(Debug)]
struct Entry {
    status: CachedStatus,
    /// When the list that led to the newest inspection was requested.
    modified: Stamp,
    /// When the newest list that confirmed this entry was requested.
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
    /// Pods without an entry that were found absent later than `nothing_else`, and when.
    absent: HashMap<PodUid, Stamp>,
    /// Pods that the global time does not vouch for.
    held: HashSet<PodUid>,
    global: Option<Stamp>,
    /// As of when the runtime is known to have no pods other than those in `entries`.
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

    /// Remembers that a pod was absent as of `asked`. If there are too many such pods, forgets the one whose absence is
    /// the oldest.
    fn note_absent(&mut self, pod: PodUid, asked: Stamp) {
        self.absent.insert(pod, asked);
        if self.absent.len() > MOST_ABSENT {
            let oldest = self.absent.iter().min_by_key(|(_, asked)| **asked).map(|(pod, _)| pod.clone());
            oldest.and_then(|pod| self.absent.remove(&pod));
        }
    }

    /// Wakes the waiters that need a status of `pod` as of `asked` or earlier.
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
            // The waiter may have given up, which is fine.
            drop(waiter.wake.send(status.clone()));
        }
    }
}

/// The writing end of the cache. There is only one.
#[derive(Debug)]
pub(crate) struct CacheWriter {
    state: Arc<Mutex<State>>,
    requests: Arc<Requests>,
}

impl CacheWriter {
    /// Creates an empty cache. Waiters are reported to `requests`.
    pub(crate) fn new(requests: Arc<Requests>) -> Self {
        Self { state: Arc::default(), requests }
    }

    pub(crate) fn reader(&self) -> CacheReader {
        CacheReader { state: self.state.clone(), requests: self.requests.clone() }
    }

    /// Stores the result of an inspection.
    pub(crate) fn store(&self, pod: &PodUid, status: CachedStatus, asked: Stamp) {
        let mut state = self.state.lock();
        state.absent.remove(pod);
        state.entries.insert(pod.clone(), Entry { status, modified: asked, observed: asked });
        state.notify(pod, asked);
    }

    /// Removes the entry of a pod. Its waiters are woken later, by the time that proves its absence.
    pub(crate) fn forget(&self, pod: &PodUid) {
        self.state.lock().entries.remove(pod);
    }

    /// Excludes a pod from the global time.
    pub(crate) fn hold(&self, pod: PodUid) {
        self.state.lock().held.insert(pod);
    }

    /// Notes that the entry of a pod, or its absence, holds as of `asked`, and includes the pod in the global time
    /// again.
    pub(crate) fn settle(&self, pod: &PodUid, asked: Stamp) {
        let mut state = self.state.lock();
        state.held.remove(pod);
        match state.entries.get_mut(pod) {
            Some(entry) => entry.observed = asked,
            None => state.note_absent(pod.clone(), asked),
        }
        state.notify(pod, asked);
    }

    /// Advances the global time: the entry of every pod that is not held holds as of `asked`. If `proves_absence`, the
    /// runtime does not know any other pods.
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

    /// Ends all waits: nothing newer will come.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiters.clear();
    }
}

/// The reading end of the cache: cheap to clone, and never in the writer's way.
#[derive(Clone, Debug)]
pub struct CacheReader {
    state: Arc<Mutex<State>>,
    requests: Arc<Requests>,
}

impl CacheReader {
    /// Returns what is stored of a pod, at once. For a pod without an entry, that is the status of a pod that the
    /// runtime does not know.
    pub fn get(&self, pod: &PodUid) -> CachedStatus {
        self.state.lock().get(pod)
    }

    /// Returns what [`newer_than`](Self::newer_than) would return without waiting, if anything.
    #[must_use]
    pub fn newer_than_now(&self, pod: &PodUid, than: Stamp) -> Option<CachedStatus> {
        self.state.lock().get_if_newer(pod, than)
    }

    /// Whether there is an entry for a pod.
    #[must_use]
    pub fn contains(&self, pod: &PodUid) -> bool {
        self.state.lock().entries.contains_key(pod)
    }

    /// Returns all entries.
    #[must_use]
    pub fn all(&self) -> Vec<(PodUid, CachedStatus)> {
        let state = self.state.lock();
        state.entries.iter().map(|(pod, entry)| (pod.clone(), entry.status.clone())).collect()
    }

    /// Returns every pod that the runtime knows, for callers that must not miss one. `None` before the first list,
    /// while a pod is held or cannot be inspected, and while a list has entries that cannot be read.
    #[must_use]
    pub fn whole(&self) -> Option<Vec<Arc<PodStatus>>> {
        let state = self.state.lock();
        let is_settled =
            state.global.is_some() && state.nothing_else == state.global && state.held.is_empty();
        let statuses = || state.entries.values().map(|entry| entry.status.clone().ok()).collect();
        is_settled.then(statuses).flatten()
    }

    /// Returns the global time: as of when the cache is right about every settled pod. `None` before the first list.
    #[must_use]
    pub fn as_of(&self) -> Option<Stamp> {
        self.state.lock().global
    }

    /// Returns what the runtime reported about a pod when it was asked after `than`.
    ///
    /// Waits until there is such an answer, and brings the next full list forward so that it comes within
    /// [`Config::relist_period`](crate::Config::relist_period). The future may be dropped at any moment without
    /// affecting other waiters.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the PLEG ends first.
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

/// Removes a waiter when its future ends, however it ends.
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
