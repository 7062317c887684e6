//! Delivery of every event to every reader: as in containerd 2.x, where a full buffer blocks publishers, and in CRI-O,
//! where the queue in front of the slowest reader fills up and events are dropped.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::{Loss, Parcel, ReaderId};

/// How long containerd keeps events while nobody reads.
const HOLD: Duration = Duration::from_secs(5 * 60);

/// What happens to events that cannot be delivered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Publishers wait. Events that nobody reads are kept for the next reader, for five minutes.
    Block,
    /// Up to this many events are queued, further ones dropped. Events that nobody reads are lost, except those before
    /// the first reader ever; even that one may miss them, if so configured.
    Drop { capacity: usize, first_reader_misses: bool },
}

/// A queue, and a buffer for each reader.
#[derive(Debug)]
pub(super) struct FanOut {
    policy: Policy,
    buffer: usize,
    /// Events that have been published but are not in the readers' buffers yet.
    pending: VecDeque<Parcel>,
    /// The number of events that have left `pending`.
    accepted: u64,
    published: u64,
    readers: BTreeMap<ReaderId, Reader>,
    /// If publishers block: what nobody has read, and when it was published.
    held: VecDeque<(Instant, Parcel)>,
    /// Whether there has ever been a reader.
    ever_read: bool,
}

#[derive(Debug, Default)]
struct Reader {
    buffer: VecDeque<Parcel>,
    /// The client is gone, but the handler waits for an event and has not noticed: it takes one more.
    stale: bool,
}

impl FanOut {
    pub(super) fn new(policy: Policy, buffer: usize) -> Self {
        Self {
            policy,
            buffer,
            pending: VecDeque::new(),
            accepted: 0,
            published: 0,
            readers: BTreeMap::new(),
            held: VecDeque::new(),
            ever_read: false,
        }
    }

    /// Adds a reader. It gets what was held if it is the only one.
    pub(super) fn open(&mut self, now: Instant, reader: ReaderId, lost: &mut Vec<(Parcel, Loss)>) {
        self.expire(now, lost);
        let mut buffer = VecDeque::new();
        if self.readers.is_empty() {
            // May exceed the buffer's size: the runtime is busy replaying until the reader has taken everything.
            buffer.extend(self.held.drain(..).map(|(_, parcel)| parcel));
        }
        if let Policy::Drop { first_reader_misses: true, .. } = self.policy
            && !self.ever_read
        {
            lost.extend(self.pending.drain(..).map(|parcel| (parcel, Loss::NobodyRead)));
        }
        self.ever_read = true;
        self.readers.insert(reader, Reader { buffer, stale: false });
        self.pump(now, lost);
    }

    /// Removes a reader, whose handler may or may not have noticed.
    pub(super) fn close(
        &mut self,
        now: Instant,
        reader: ReaderId,
        knows: bool,
        lost: &mut Vec<(Parcel, Loss)>,
    ) {
        match self.readers.get_mut(&reader) {
            // The handler was about to send: it notices, and its buffer is lost.
            Some(Reader { buffer, .. }) if knows || !buffer.is_empty() => {
                let buffer = std::mem::take(buffer);
                self.readers.remove(&reader);
                if self.readers.is_empty() {
                    lost.extend(buffer.into_iter().map(|parcel| (parcel, Loss::Swallowed)));
                }
            }
            Some(reader) => reader.stale = true,
            None => {}
        }
        self.pump(now, lost);
    }

    pub(super) fn readers(&self) -> usize {
        self.readers.values().filter(|reader| !reader.stale).count()
    }

    /// Accepts an event. Returns its number in the queue of publishers.
    pub(super) fn publish(&mut self, now: Instant, parcel: Parcel, lost: &mut Vec<(Parcel, Loss)>) -> u64 {
        match self.policy {
            Policy::Drop { capacity, .. } if self.pending.len() >= capacity => {
                lost.push((parcel, Loss::Overflow));
            }
            Policy::Drop { .. } | Policy::Block => {
                self.published += 1;
                self.pending.push_back(parcel);
            }
        }
        let ticket = self.published;
        self.pump(now, lost);
        ticket
    }

    /// Returns whether the publisher with this number may continue. The runtime holds one event in its hand while it
    /// waits for room.
    pub(super) fn is_accepted(&self, ticket: u64) -> bool {
        matches!(self.policy, Policy::Drop { .. }) || self.accepted + 1 >= ticket
    }

    /// Takes the next event for a reader.
    pub(super) fn take(
        &mut self,
        now: Instant,
        reader: ReaderId,
        lost: &mut Vec<(Parcel, Loss)>,
    ) -> Option<Parcel> {
        let parcel = self.readers.get_mut(&reader)?.buffer.pop_front();
        self.pump(now, lost);
        parcel
    }

    /// Returns what no reader can have received: what is in no buffer yet, and what is in the buffers of all.
    pub(super) fn into_undelivered(self) -> Vec<Parcel> {
        let mut buffers = self.readers.into_values().map(|reader| reader.buffer);
        let in_all = buffers.next().unwrap_or_default();
        let in_all = buffers.fold(in_all, |mut in_all, other| {
            in_all.retain(|parcel| other.contains(parcel));
            in_all
        });
        let held = self.held.into_iter().map(|(_, parcel)| parcel);
        held.chain(in_all).chain(self.pending).collect()
    }

    /// Moves events to the buffers, as long as every reader has room.
    fn pump(&mut self, now: Instant, lost: &mut Vec<(Parcel, Loss)>) {
        while !self.pending.is_empty()
            && self.readers.values().all(|reader| reader.buffer.len() < self.buffer)
        {
            if self.readers.is_empty() && !self.ever_read && self.policy != Policy::Block {
                return;
            }
            let Some(parcel) = self.pending.pop_front() else { return };
            self.accepted += 1;
            if self.readers.is_empty() {
                match self.policy {
                    Policy::Block => self.held.push_back((now, parcel)),
                    Policy::Drop { .. } => lost.push((parcel, Loss::NobodyRead)),
                }
                continue;
            }
            let live = self.readers();
            for reader in self.readers.values_mut().filter(|reader| !reader.stale) {
                reader.buffer.push_back(parcel.clone());
            }
            // Handlers whose clients are gone took the event as well, failed to send it, and have noticed now.
            self.readers.retain(|_, reader| !reader.stale);
            if live == 0 {
                lost.push((parcel, Loss::Swallowed));
            }
        }
        self.expire(now, lost);
    }

    fn expire(&mut self, now: Instant, lost: &mut Vec<(Parcel, Loss)>) {
        while self.held.front().is_some_and(|(since, _)| now.duration_since(*since) > HOLD) {
            lost.extend(self.held.pop_front().map(|(_, parcel)| (parcel, Loss::NobodyRead)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parcel;
    use super::*;

    const BROADCAST: Policy = Policy::Drop { capacity: 3, first_reader_misses: false };

    fn numbers(fan: &mut FanOut, now: Instant, reader: ReaderId) -> Vec<u64> {
        std::iter::from_fn(|| fan.take(now, reader, &mut Vec::new())).map(|parcel| parcel.number()).collect()
    }

    fn publish(fan: &mut FanOut, now: Instant, numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, Loss)> {
        let mut lost = Vec::new();
        for number in numbers {
            fan.publish(now, parcel(number), &mut lost);
        }
        lost.into_iter().map(|(parcel, loss)| (parcel.number(), loss)).collect()
    }

    #[tokio::test]
    async fn every_reader_gets_every_event() {
        let now = Instant::now();
        let mut fan = FanOut::new(Policy::Block, 100);
        fan.open(now, 1, &mut Vec::new());
        fan.open(now, 2, &mut Vec::new());
        publish(&mut fan, now, 1..=3);
        assert_eq!(numbers(&mut fan, now, 1), [1, 2, 3]);
        assert_eq!(numbers(&mut fan, now, 2), [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_reader_that_stalls_blocks_whoever_publishes() {
        let now = Instant::now();
        let mut fan = FanOut::new(Policy::Block, 2);
        fan.open(now, 1, &mut Vec::new());
        fan.open(now, 2, &mut Vec::new());
        publish(&mut fan, now, 1..=2);
        assert_eq!(numbers(&mut fan, now, 2), [1, 2]);
        let in_hand = fan.publish(now, parcel(3), &mut Vec::new());
        let blocked = fan.publish(now, parcel(4), &mut Vec::new());
        assert!(fan.is_accepted(in_hand) && !fan.is_accepted(blocked));
        assert_eq!(numbers(&mut fan, now, 2), [0_u64; 0], "others wait too");
        fan.take(now, 1, &mut Vec::new());
        assert!(fan.is_accepted(blocked));
        fan.close(now, 1, false, &mut Vec::new());
        assert_eq!(numbers(&mut fan, now, 2), [3, 4], "its end frees everyone");
    }

    #[tokio::test]
    async fn containerd_2_replays_five_minutes_to_the_first_reader_only() {
        let now = Instant::now();
        let mut fan = FanOut::new(Policy::Block, 2);
        assert_eq!(publish(&mut fan, now, [1]), []);
        let later = now + Duration::from_secs(301);
        assert_eq!(publish(&mut fan, later, 2..=5), [(1, Loss::NobodyRead)]);
        fan.open(later, 1, &mut Vec::new());
        fan.open(later, 2, &mut Vec::new());
        assert_eq!(numbers(&mut fan, later, 1), [2, 3, 4, 5]);
        assert_eq!(numbers(&mut fan, later, 2), [0_u64; 0]);
    }

    #[tokio::test]
    async fn a_dead_stream_eats_what_comes_before_anyone_opens_again() {
        let now = Instant::now();
        let mut fan = FanOut::new(Policy::Block, 100);
        fan.open(now, 1, &mut Vec::new());
        fan.close(now, 1, false, &mut Vec::new());
        assert_eq!(publish(&mut fan, now, [1]), [(1, Loss::Swallowed)]);
        assert_eq!(publish(&mut fan, now, [2]), []);
        fan.open(now, 2, &mut Vec::new());
        assert_eq!(numbers(&mut fan, now, 2), [2]);
    }

    #[tokio::test]
    async fn crio_drops_when_a_reader_stalls_and_keeps_nothing_for_later() {
        let now = Instant::now();
        let mut fan = FanOut::new(BROADCAST, 1);
        assert_eq!(publish(&mut fan, now, 1..=2), []);
        fan.open(now, 1, &mut Vec::new());
        assert_eq!(numbers(&mut fan, now, 1), [1, 2], "before the first reader ever, they queue");
        assert_eq!(publish(&mut fan, now, 3..=7), [(7, Loss::Overflow)]);
        assert_eq!(numbers(&mut fan, now, 1), [3, 4, 5, 6]);
        fan.close(now, 1, false, &mut Vec::new());
        assert_eq!(publish(&mut fan, now, 8..=9), [(8, Loss::Swallowed), (9, Loss::NobodyRead)]);
    }
}
