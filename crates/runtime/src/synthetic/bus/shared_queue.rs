//! One queue for all readers, as in containerd 1.7: each event reaches only one of them.

use std::collections::{BTreeMap, VecDeque};

use super::{Parcel, ReaderId};

/// Somebody who waits for the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    Reader(ReaderId),
    /// A stream whose client is gone. Its handler notices only after it has taken an event that it cannot send.
    Stale,
}

/// The queue, and those who wait at its end.
#[derive(Debug)]
pub(super) struct SharedQueue {
    capacity: usize,
    queue: VecDeque<Parcel>,
    /// In order of arrival: each event goes to the first.
    waiting: VecDeque<Waiter>,
    /// What each reader has been handed and has not taken yet.
    hands: BTreeMap<ReaderId, Option<Parcel>>,
}

/// What happened to a published event.
#[derive(Debug, PartialEq)]
pub(super) enum Sent {
    /// It is queued, or in a reader's hand.
    Kept,
    /// The queue was full.
    Overflow(Parcel),
    /// It was taken by a stream whose client is gone.
    Swallowed(Parcel),
}

impl SharedQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, queue: VecDeque::new(), waiting: VecDeque::new(), hands: BTreeMap::new() }
    }

    pub(super) fn open(&mut self, reader: ReaderId) {
        self.hands.insert(reader, None);
    }

    /// Removes a reader, whose handler may or may not have noticed. An event in its hand is lost with it.
    pub(super) fn close(&mut self, reader: ReaderId, knows: bool) -> Option<Parcel> {
        if knows {
            self.waiting.retain(|waiter| *waiter != Waiter::Reader(reader));
        }
        for waiter in &mut self.waiting {
            if *waiter == Waiter::Reader(reader) {
                *waiter = Waiter::Stale;
            }
        }
        self.hands.remove(&reader).flatten()
    }

    pub(super) fn readers(&self) -> usize {
        self.hands.len()
    }

    pub(super) fn publish(&mut self, parcel: Parcel) -> Sent {
        match self.waiting.pop_front() {
            Some(Waiter::Stale) => Sent::Swallowed(parcel),
            Some(Waiter::Reader(reader)) => {
                self.hands.insert(reader, Some(parcel));
                Sent::Kept
            }
            None if self.queue.len() < self.capacity => {
                self.queue.push_back(parcel);
                Sent::Kept
            }
            None => Sent::Overflow(parcel),
        }
    }

    /// Returns what has not reached any reader.
    pub(super) fn into_undelivered(self) -> Vec<Parcel> {
        self.hands.into_values().flatten().chain(self.queue).collect()
    }

    /// Takes the next event for a reader. If there is none, the reader waits in line from now on.
    pub(super) fn take(&mut self, reader: ReaderId) -> Option<Parcel> {
        let parcel = self.hands.get_mut(&reader)?.take().or_else(|| self.queue.pop_front());
        if parcel.is_none() && !self.waiting.contains(&Waiter::Reader(reader)) {
            self.waiting.push_back(Waiter::Reader(reader));
        }
        parcel
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parcel;
    use super::*;

    #[test]
    fn readers_take_events_from_each_other() {
        let mut queue = SharedQueue::new(10);
        queue.open(1);
        queue.open(2);
        assert_eq!((queue.take(1), queue.take(2)), (None, None));
        for n in 1..=4 {
            assert_eq!(queue.publish(parcel(n)), Sent::Kept);
        }
        assert_eq!(queue.take(1).unwrap().number(), 1);
        assert_eq!(queue.take(2).unwrap().number(), 2);
        assert_eq!(queue.take(2).unwrap().number(), 3);
        assert_eq!(queue.take(1).unwrap().number(), 4);
    }

    #[test]
    fn what_nobody_read_is_replayed_and_the_newest_is_dropped_when_full() {
        let mut queue = SharedQueue::new(2);
        assert_eq!(queue.publish(parcel(1)), Sent::Kept);
        assert_eq!(queue.publish(parcel(2)), Sent::Kept);
        assert!(matches!(queue.publish(parcel(3)), Sent::Overflow(_)));
        queue.open(1);
        assert_eq!(queue.take(1).unwrap().number(), 1);
        assert_eq!(queue.take(1).unwrap().number(), 2);
        assert_eq!(queue.take(1), None);
    }

    #[test]
    fn a_dead_stream_swallows_one_event() {
        let mut queue = SharedQueue::new(10);
        queue.open(1);
        assert_eq!(queue.take(1), None);
        assert_eq!(queue.close(1, false), None);
        assert!(matches!(queue.publish(parcel(1)), Sent::Swallowed(_)));
        assert_eq!(queue.publish(parcel(2)), Sent::Kept);
        queue.open(2);
        assert_eq!(queue.take(2).unwrap().number(), 2);
    }
}
