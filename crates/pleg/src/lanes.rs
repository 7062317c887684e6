//! Which pods may be inspected now.
//!
//! Inspections run in parallel, up to a limit. One that takes long gives back its place in the fast lane and continues
//! in the slow lane; a pod whose inspection has failed before starts in the slow lane. So neither one stuck pod nor
//! twenty can make the others wait, and a runtime is never flooded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;

/// How many inspections may run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LaneLimits {
    pub(crate) fast: usize,
    pub(crate) slow: usize,
    /// How long an inspection may take before it is slow.
    pub(crate) slow_after: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Lanes {
    limits: LaneLimits,
    fast: BTreeMap<PodUid, Stamp>,
    slow: BTreeSet<PodUid>,
    waiting: VecDeque<PodUid>,
    waiting_to_retry: VecDeque<PodUid>,
}

impl Lanes {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        Self {
            limits,
            fast: BTreeMap::new(),
            slow: BTreeSet::new(),
            waiting: VecDeque::new(),
            waiting_to_retry: VecDeque::new(),
        }
    }

    /// Adds a pod to the queue. `failed_before` sends it to the slow lane.
    pub(crate) fn enqueue(&mut self, pod: PodUid, failed_before: bool) {
        if failed_before {
            self.waiting_to_retry.push_back(pod);
        } else {
            self.waiting.push_back(pod);
        }
    }

    /// Removes a pod from the queue.
    pub(crate) fn withdraw(&mut self, pod: &PodUid) {
        self.waiting.retain(|waiting| waiting != pod);
        self.waiting_to_retry.retain(|waiting| waiting != pod);
    }

    /// Takes the next pod to inspect, which then holds a place until [`finish`](Self::finish).
    pub(crate) fn start_next(&mut self, now: Stamp) -> Option<PodUid> {
        if self.fast.len() < self.limits.fast
            && let Some(pod) = self.waiting.pop_front()
        {
            self.fast.insert(pod.clone(), now);
            return Some(pod);
        }
        if self.slow.len() < self.limits.slow
            && let Some(pod) = self.waiting_to_retry.pop_front()
        {
            self.slow.insert(pod.clone());
            return Some(pod);
        }
        None
    }

    /// Gives back the place of a pod, however its inspection ended.
    pub(crate) fn finish(&mut self, pod: &PodUid) {
        if self.fast.remove(pod).is_none() {
            self.slow.remove(pod);
        }
    }

    /// Moves inspections that have become slow to the slow lane, and returns their pods.
    pub(crate) fn demote_slow(&mut self, now: Stamp) -> Vec<PodUid> {
        let free = self.limits.slow.saturating_sub(self.slow.len());
        let overdue: Vec<PodUid> = self
            .fast
            .iter()
            .filter(|(_, started)| started.plus(self.limits.slow_after) <= now)
            .map(|(pod, _)| pod.clone())
            .take(free)
            .collect();
        for pod in &overdue {
            self.fast.remove(pod);
            self.slow.insert(pod.clone());
        }
        overdue
    }

    /// When the next inspection becomes slow, if that would free a place in the fast lane.
    pub(crate) fn next_demotion(&self) -> Option<Stamp> {
        if self.slow.len() >= self.limits.slow {
            return None;
        }
        self.fast.values().min().map(|started| started.plus(self.limits.slow_after))
    }

    /// The number of inspections in progress.
    pub(crate) fn in_flight(&self) -> usize {
        self.fast.len() + self.slow.len()
    }

    /// Forgets everything in progress and everything that is waiting.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.limits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes() -> Lanes {
        Lanes::new(LaneLimits { fast: 2, slow: 2, slow_after: Duration::from_secs(1) })
    }

    fn at(seconds: u64) -> Stamp {
        Stamp::ZERO.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn no_more_than_the_bound_start_and_the_rest_wait_in_order() {
        let mut lanes = lanes();
        for pod in ["a", "b", "c"] {
            lanes.enqueue(pod.into(), false);
        }
        assert_eq!(lanes.start_next(at(0)), Some("a".into()));
        assert_eq!(lanes.start_next(at(0)), Some("b".into()));
        assert_eq!(lanes.start_next(at(0)), None);
        lanes.finish(&"a".into());
        assert_eq!(lanes.start_next(at(0)), Some("c".into()));
    }

    #[test]
    fn a_slow_inspection_gives_its_place_back() {
        let mut lanes = lanes();
        for pod in ["hung-1", "hung-2", "healthy"] {
            lanes.enqueue(pod.into(), false);
        }
        while lanes.start_next(at(0)).is_some() {}
        assert_eq!(lanes.next_demotion(), Some(at(1)));
        assert_eq!(lanes.demote_slow(at(1)).len(), 2);
        assert_eq!(lanes.start_next(at(1)), Some("healthy".into()));
        assert_eq!(lanes.in_flight(), 3);
    }

    #[test]
    fn a_full_slow_lane_takes_nobody_in() {
        let mut lanes = lanes();
        for pod in ["1", "2", "3", "4", "5"] {
            lanes.enqueue(pod.into(), false);
        }
        while lanes.start_next(at(0)).is_some() {}
        lanes.demote_slow(at(1));
        while lanes.start_next(at(1)).is_some() {}
        assert_eq!(lanes.in_flight(), 4);
        assert!(lanes.demote_slow(at(9)).is_empty());
        assert_eq!(lanes.next_demotion(), None, "waking up for it would change nothing");
        assert_eq!(lanes.start_next(at(9)), None);
    }

    #[test]
    fn a_pod_that_failed_before_never_takes_a_fast_place() {
        let mut lanes = lanes();
        for pod in ["r1", "r2", "r3"] {
            lanes.enqueue(pod.into(), true);
        }
        assert!(lanes.start_next(at(0)).is_some());
        assert!(lanes.start_next(at(0)).is_some());
        assert_eq!(lanes.start_next(at(0)), None, "the slow lane is full");
        lanes.enqueue("fresh".into(), false);
        assert_eq!(lanes.start_next(at(0)), Some("fresh".into()));
    }

    #[test]
    fn withdrawing_takes_a_pod_out_of_the_queue() {
        let mut lanes = lanes();
        lanes.enqueue("a".into(), false);
        lanes.enqueue("b".into(), true);
        lanes.withdraw(&"a".into());
        lanes.withdraw(&"b".into());
        assert_eq!(lanes.start_next(at(0)), None);
    }
}
