//! Decides which events are worth publishing, following client-go: equal events are counted, many events that differ
//! only in their message become one, and a pod that keeps emitting events is throttled.
//!
//! Pure: one value per pod, bounded however much happens.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use pleg::{Now, Stamp};

use super::bucket::Bucket;
use super::{PodEvent, Severity};

/// The number of different messages from which otherwise equal events are combined.
const MOST_SIMILAR: usize = 10;
/// The maximum interval at which events still count as similar.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// How many different events are remembered per pod.
const MOST: usize = 64;
/// How many kinds of events are remembered per pod.
const MOST_KINDS: usize = 64;
/// The maximum length of a message.
const MOST_BYTES: usize = 2048;

/// Something that just happened.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) severity: Severity,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) container: Option<String>,
}

type Kind = (Severity, Cow<'static, str>);

/// The identity of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Same { kind: Kind, container: Option<String>, message: String },
    Combined(Kind),
}

/// Events that differ only in their message.
#[derive(Clone, Debug)]
struct Similar {
    kind: Kind,
    messages: BTreeSet<String>,
    last: Stamp,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Key,
    /// Its current state.
    event: PodEvent,
    /// Its state when it was last published; `None` if it never was.
    told: Option<PodEvent>,
}

/// The events of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Correlator {
    similar: VecDeque<Similar>,
    /// Ordered by when they last happened, oldest first.
    entries: VecDeque<Entry>,
    bucket: Bucket,
}

impl Correlator {
    /// Records that something happened; returns whether that is worth publishing.
    pub(crate) fn note(&mut self, mut note: Note, now: Now) -> bool {
        cut(&mut note.message);
        let key = self.key(&mut note, now.stamp);
        let known = self.entries.iter().position(|entry| entry.key == key);
        let known = known.and_then(|place| self.entries.remove(place));
        let (count, first_seen, before) = match known {
            Some(Entry { event, told, .. }) => (event.count.saturating_add(1), event.first_seen, told),
            None => (1, now.wall, None),
        };
        let Note { severity, reason, message, container } = note;
        let event = PodEvent { severity, reason, message, container, count, first_seen, last_seen: now.wall };
        let is_told = self.bucket.take(now.stamp);
        let told = if is_told { Some(event.clone()) } else { before };
        if self.entries.len() >= MOST {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { key, event, told });
        is_told
    }

    /// Returns the key under which an event is remembered. If there are too many similar ones, it is combined with
    /// them.
    fn key(&mut self, note: &mut Note, now: Stamp) -> Key {
        let kind: Kind = (note.severity, note.reason.clone());
        let known = self.similar.iter().position(|similar| similar.kind == kind);
        let mut similar = known
            .and_then(|place| self.similar.remove(place))
            .filter(|similar| similar.last.until(now) <= SIMILAR_WITHIN)
            .unwrap_or_else(|| Similar { kind: kind.clone(), messages: BTreeSet::new(), last: now });
        similar.messages.insert(note.message.clone());
        similar.last = now;
        let are_many = similar.messages.len() >= MOST_SIMILAR;
        if are_many {
            similar.messages.pop_first();
        }
        if self.similar.len() >= MOST_KINDS {
            self.similar.pop_front();
        }
        self.similar.push_back(similar);
        if are_many {
            note.message.insert_str(0, "(combined from similar events): ");
            Key::Combined(kind)
        } else {
            Key::Same { kind, container: note.container.clone(), message: note.message.clone() }
        }
    }

    /// Returns all remembered events that were published, ordered by when they last were, oldest first.
    pub(crate) fn told(&self) -> Vec<PodEvent> {
        let mut told: Vec<PodEvent> = self.entries.iter().filter_map(|entry| entry.told.clone()).collect();
        // The sort is stable: events published at the same time stay in the order in which they happened.
        told.sort_by_key(|event| event.last_seen);
        told
    }
}

fn cut(message: &mut String) {
    if message.len() <= MOST_BYTES {
        return;
    }
    let mut end = MOST_BYTES;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    message.push('…');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rubelet_model::UnixNanos;

    use super::*;

    fn at(seconds: u64) -> Now {
        let wall = UnixNanos(i64::try_from(1_000_000_000 * (1_000 + seconds)).unwrap());
        Now { stamp: Stamp::from_nanos(1_000_000_000 * seconds), wall }
    }

    fn note(reason: &'static str, message: &str) -> Note {
        Note {
            severity: Severity::Warning,
            reason: reason.into(),
            message: message.to_owned(),
            container: None,
        }
    }

    fn words(correlator: &Correlator) -> Vec<String> {
        let word = |event: &PodEvent| format!("{} x{} {}", event.reason, event.count, event.message);
        correlator.told().iter().map(word).collect()
    }

    #[test]
    fn equal_ones_are_counted() {
        let mut correlator = Correlator::default();
        correlator.note(note("BackOff", "again"), at(1));
        correlator.note(note("Pulled", "here"), at(2));
        correlator.note(note("BackOff", "again"), at(9));
        assert_eq!(words(&correlator), ["Pulled x1 here", "BackOff x2 again"]);
        let last = correlator.told().pop().unwrap();
        assert_eq!((last.first_seen, last.last_seen), (at(1).wall, at(9).wall));
    }

    #[test]
    fn the_same_of_another_container_is_another() {
        let mut correlator = Correlator::default();
        for container in ["a", "b", "a"] {
            let note = Note { container: Some(container.to_owned()), ..note("Started", "Container started") };
            correlator.note(note, at(1));
        }
        let told: Vec<_> =
            correlator.told().into_iter().map(|one| (one.container.unwrap(), one.count)).collect();
        assert_eq!(told, [("b".to_owned(), 1), ("a".to_owned(), 2)]);
    }

    #[test]
    fn from_the_tenth_on_those_that_are_alike_are_combined() {
        let mut correlator = Correlator::default();
        for number in 0..9 {
            correlator.note(note("FailedSync", &number.to_string()), at(number));
        }
        assert!(words(&correlator).iter().all(|one| one.contains(" x1 ")));
        for number in 9..12 {
            correlator.note(note("FailedSync", &number.to_string()), at(number));
        }
        let told = words(&correlator);
        assert_eq!((told.len(), told[9].as_str()), (10, "FailedSync x3 (combined from similar events): 11"));
        // A different reason is a different event, and so is the same one after a while.
        correlator.note(note("Failed", "12"), at(12));
        correlator.note(note("FailedSync", "13"), at(11 + 600));
        assert_eq!(words(&correlator).last().unwrap(), "FailedSync x4 (combined from similar events): 13");
        correlator.note(note("FailedSync", "14"), at(11 + 600 + 601));
        assert_eq!(words(&correlator).last().unwrap(), "FailedSync x1 14");
    }

    #[test]
    fn a_pod_that_never_stops_is_heard_less_but_nothing_is_miscounted() {
        let mut correlator = Correlator::default();
        let told = (0..100).filter(|_| correlator.note(note("BackOff", "again"), at(1))).count();
        assert_eq!((told, words(&correlator)), (25, vec!["BackOff x25 again".to_owned()]));
        assert!(!correlator.note(note("BackOff", "again"), at(200)));
        assert!(correlator.note(note("BackOff", "again"), at(301)));
        assert_eq!(words(&correlator), ["BackOff x102 again"]);
        // An event that was never published does not show.
        assert!(!correlator.note(note("Killing", "c"), at(302)));
        assert_eq!(words(&correlator), ["BackOff x102 again"]);
    }

    #[test]
    fn good_and_bad_news_of_a_pod_share_one_limit() {
        let mut correlator = Correlator::default();
        let good = Note { severity: Severity::Normal, ..note("Started", "a") };
        assert_eq!((0..24).filter(|_| correlator.note(good.clone(), at(1))).count(), 24);
        assert!(correlator.note(note("BackOff", "again"), at(1)));
        assert!(!correlator.note(note("BackOff", "again"), at(1)));
        assert!(!correlator.note(good, at(1)));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut correlator = Correlator::default();
        correlator.note(note("Failed", &"ü".repeat(5000)), at(1));
        let message = correlator.told().pop().unwrap().message;
        assert!(message.len() <= MOST_BYTES + '…'.len_utf8() && message.ends_with("ü…"));
    }

    proptest! {
        #[test]
        fn whatever_happens_it_stays_small_and_counts_only_grow(
            notes in prop::collection::vec((0_u8..80, 0_u8..30, 0_u64..900), 1..300)
        ) {
            let mut correlator = Correlator::default();
            let mut now = 0;
            for (reason, message, pause) in notes {
                now += pause;
                let before = correlator.told();
                let note = Note { reason: format!("R{reason}").into(), ..note("", &message.to_string()) };
                correlator.note(note, at(now));
                prop_assert!(correlator.entries.len() <= MOST && correlator.similar.len() <= MOST_KINDS);
                prop_assert!(correlator.similar.iter().all(|one| one.messages.len() < MOST_SIMILAR));
                for event in correlator.told() {
                    prop_assert!(event.first_seen <= event.last_seen);
                    let same = |old: &&PodEvent| {
                        (&old.reason, &old.message, old.first_seen) == (&event.reason, &event.message, event.first_seen)
                    };
                    if let Some(old) = before.iter().find(same) {
                        prop_assert!(old.count <= event.count);
                    }
                }
            }
        }
    }
}
