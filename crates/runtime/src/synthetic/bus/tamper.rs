//! What a test does to events before the runtime delivers them.

use std::time::Duration;

use super::Parcel;
use crate::synthetic::seed::Seed;

/// Faults of events, each with a probability. The seed and the event's number decide.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFaults {
    /// The probability that an event is never sent.
    pub drop: f64,
    /// The probability that it is sent twice.
    pub double: f64,
    /// The probability that it is sent after the next one instead of before it.
    pub reorder: f64,
    /// How long such an event waits for a next one.
    pub reorder_hold: Duration,
    /// The probability that it is delayed, while later ones are not.
    pub delay: f64,
    /// The delay: at least, and at most.
    pub delay_by: (Duration, Duration),
}

impl Default for EventFaults {
    /// No faults.
    fn default() -> Self {
        Self {
            drop: 0.0,
            double: 0.0,
            reorder: 0.0,
            reorder_hold: Duration::from_millis(50),
            delay: 0.0,
            delay_by: (Duration::from_millis(1), Duration::from_millis(100)),
        }
    }
}

/// What is to happen to an event.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// Events to send now, in this order.
    pub(super) now: Vec<Parcel>,
    /// Events never to be sent.
    pub(super) lost: Vec<Parcel>,
    /// An event to be sent later.
    pub(super) delayed: Option<(Duration, Parcel)>,
    /// When to send what is held back, if no other event comes.
    pub(super) flush_after: Option<Duration>,
    pub(super) doubled: bool,
    pub(super) reordered: bool,
}

/// The faults in effect, and the event they hold back.
#[derive(Debug)]
pub(super) struct Tamper {
    seed: Seed,
    faults: EventFaults,
    held: Vec<Parcel>,
}

impl Tamper {
    pub(super) fn new(seed: Seed) -> Self {
        Self { seed, faults: EventFaults::default(), held: Vec::new() }
    }

    /// Replaces the faults. Returns what was held back, which is to be sent.
    pub(super) fn set(&mut self, faults: EventFaults) -> Vec<Parcel> {
        self.faults = faults;
        self.take_held()
    }

    pub(super) fn take_held(&mut self) -> Vec<Parcel> {
        std::mem::take(&mut self.held)
    }

    pub(super) fn decide(&mut self, parcel: Parcel) -> Fate {
        let (seed, number) = (self.seed, parcel.number());
        let happens = |probability, what| seed.happens(probability, what, "event", number);
        let mut fate = Fate::default();
        if happens(self.faults.drop, "drop") {
            fate.lost.push(parcel);
            return fate;
        }
        fate.now.push(parcel.clone());
        if happens(self.faults.double, "double") {
            fate.doubled = true;
            fate.now.push(parcel);
        }
        if happens(self.faults.delay, "delay") {
            let (least, most) = self.faults.delay_by;
            let by = least + most.saturating_sub(least).mul_f64(seed.rng("delay by", "event", number).f64());
            fate.delayed = fate.now.pop().map(|parcel| (by, parcel));
        } else if self.held.is_empty() && happens(self.faults.reorder, "reorder") {
            fate.reordered = true;
            fate.flush_after = Some(self.faults.reorder_hold);
            self.held = std::mem::take(&mut fate.now);
            return fate;
        }
        if !fate.now.is_empty() {
            fate.now.append(&mut self.held);
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parcel;
    use super::*;

    fn numbers(fate: &Fate) -> Vec<u64> {
        fate.now.iter().map(Parcel::number).collect()
    }

    #[test]
    fn without_faults_events_pass() {
        let mut tamper = Tamper::new(Seed(1));
        for number in 1..100 {
            assert_eq!(numbers(&tamper.decide(parcel(number))), [number]);
        }
    }

    #[test]
    fn a_reordered_event_comes_after_the_next_one() {
        let mut tamper = Tamper::new(Seed(1));
        tamper.set(EventFaults { reorder: 1.0, ..EventFaults::default() });
        let first = tamper.decide(parcel(1));
        assert!(first.reordered && first.flush_after.is_some() && first.now.is_empty());
        assert_eq!(numbers(&tamper.decide(parcel(2))), [2, 1]);
        tamper.decide(parcel(3));
        assert_eq!(tamper.set(EventFaults::default())[0].number(), 3, "nothing stays held back");
    }

    #[test]
    fn faults_are_as_frequent_as_asked_and_repeatable() {
        let run = || {
            let mut tamper = Tamper::new(Seed(3));
            tamper.set(EventFaults { drop: 0.3, double: 0.2, ..EventFaults::default() });
            let fates: Vec<_> = (1..=1000).map(|number| tamper.decide(parcel(number))).collect();
            let dropped = fates.iter().filter(|fate| !fate.lost.is_empty()).count();
            (dropped, fates.iter().filter(|fate| fate.doubled).count())
        };
        let (dropped, doubled) = run();
        assert!((250..350).contains(&dropped), "{dropped}");
        assert!((100..190).contains(&doubled), "{doubled}");
        assert_eq!(run(), (dropped, doubled));
    }
}
