//! The state of the bus, under its lock: the queue of events, and what happened to them.

use tokio::time::Instant;
use tonic::Status;

use super::fan_out::{FanOut, Policy};
use super::report::{EventCounts, Loss, Lost};
use super::shared_queue::{Sent, SharedQueue};
use super::tamper::{Fate, Tamper};
use super::{Parcel, Ticket};
use crate::synthetic::profile::{Delivery, EventSupport};
use crate::synthetic::seed::Seed;
use crate::synthetic::world::CriEvent;

pub(super) struct State {
    seed: Seed,
    support: EventSupport,
    pub(super) delivery: Line,
    pub(super) tamper: Tamper,
    pub(super) silent: bool,
    /// Streams opened under an earlier number have ended.
    pub(super) generation: u64,
    pub(super) end: Option<Status>,
    pub(super) counts: EventCounts,
    pub(super) lost: Vec<Lost>,
}

pub(super) enum Line {
    /// A runtime without events.
    None,
    Shared(SharedQueue),
    FanOut(FanOut),
}

impl Line {
    fn new(support: EventSupport, seed: Seed, nth: u64) -> Self {
        match support {
            EventSupport::Unimplemented | EventSupport::EndsAtOnce => Self::None,
            EventSupport::Stream(Delivery::Shared { capacity }) => Self::Shared(SharedQueue::new(capacity)),
            EventSupport::Stream(Delivery::Blocking { buffer }) => {
                Self::FanOut(FanOut::new(Policy::Block, buffer))
            }
            EventSupport::Stream(Delivery::Broadcast { capacity }) => {
                // The broadcaster starts before it knows the client, so it is a race who comes first.
                let first_reader_misses = seed.rng("replay race", "", nth).bool();
                Self::FanOut(FanOut::new(Policy::Drop { capacity, first_reader_misses }, 1))
            }
        }
    }

    /// Returns what has not reached any reader.
    fn into_undelivered(self) -> Vec<Parcel> {
        match self {
            Self::None => Vec::new(),
            Self::Shared(queue) => queue.into_undelivered(),
            Self::FanOut(fan) => fan.into_undelivered(),
        }
    }
}

impl State {
    pub(super) fn new(support: EventSupport, seed: Seed) -> Self {
        Self {
            seed,
            support,
            delivery: Line::new(support, seed, 0),
            tamper: Tamper::new(seed),
            silent: false,
            generation: 0,
            end: None,
            counts: EventCounts::default(),
            lost: Vec::new(),
        }
    }

    /// Starts over with empty queues: undelivered events are lost, and streams end.
    pub(super) fn restart(&mut self) {
        self.generation += 1;
        self.end = Some(Status::unavailable("the runtime restarts"));
        let fresh = Line::new(self.support, self.seed, self.generation);
        let mut under_way = self.tamper.take_held();
        under_way.extend(std::mem::replace(&mut self.delivery, fresh).into_undelivered());
        for parcel in &under_way {
            self.lose(parcel, Loss::Restarted);
        }
    }

    pub(super) fn counts(&self) -> EventCounts {
        let readers = match &self.delivery {
            Line::None => 0,
            Line::Shared(queue) => queue.readers(),
            Line::FanOut(fan) => fan.readers(),
        };
        EventCounts { readers, lost: self.lost.len() as u64, ..self.counts }
    }

    pub(super) fn send(&mut self, parcel: Parcel) -> u64 {
        let mut lost = Vec::new();
        let ticket = match &mut self.delivery {
            Line::None => 0,
            Line::Shared(queue) => {
                match queue.publish(parcel) {
                    Sent::Kept => {}
                    Sent::Overflow(parcel) => lost.push((parcel, Loss::Overflow)),
                    Sent::Swallowed(parcel) => lost.push((parcel, Loss::Swallowed)),
                }
                0
            }
            Line::FanOut(fan) => fan.publish(Instant::now(), parcel, &mut lost),
        };
        self.lose_all(lost);
        ticket
    }

    pub(super) fn is_accepted(&self, ticket: Ticket) -> bool {
        match &self.delivery {
            Line::FanOut(fan) => fan.is_accepted(ticket.0),
            Line::None | Line::Shared(_) => true,
        }
    }

    pub(super) fn count_fate(&mut self, fate: &Fate) {
        self.counts.doubled += u64::from(fate.doubled);
        self.counts.reordered += u64::from(fate.reordered);
        self.counts.delayed += u64::from(fate.delayed.is_some());
    }

    pub(super) fn lose_all(&mut self, lost: Vec<(Parcel, Loss)>) {
        for (parcel, loss) in lost {
            self.lose(&parcel, loss);
        }
    }

    pub(super) fn lose(&mut self, parcel: &Parcel, loss: Loss) {
        let CriEvent { number, kind, pod, sandbox, container, .. } = &*parcel.event;
        self.lost.push(Lost {
            number: *number,
            kind: *kind,
            pod: pod.clone(),
            sandbox: sandbox.clone(),
            container: container.clone(),
            loss,
        });
    }
}
