//! Which images to remove when their disk is full. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pleg::Stamp;

/// When images are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePolicy {
    /// The disk usage, in percent, at which removal starts; 100 means never.
    pub high: u64,
    /// The disk usage down to which images are removed.
    pub low: u64,
    /// Images first seen more recently than this are kept.
    pub min_age: Duration,
}

impl Default for ImagePolicy {
    fn default() -> Self {
        Self { high: 85, low: 80, min_age: Duration::from_secs(120) }
    }
}

/// The space on a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) capacity: u64,
    pub(super) available: u64,
}

/// The properties of an image that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) size: u64,
    pub(super) is_pinned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    first: Stamp,
    last_used: Option<Stamp>,
}

/// What is known about images over time.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageHistory(BTreeMap<String, Seen>);

impl ImageHistory {
    /// Records which images exist, and which are in use.
    pub(super) fn observe(&mut self, images: &[Candidate], used: &BTreeSet<String>, now: Stamp) {
        let mut seen = BTreeMap::new();
        for image in images {
            let mut one = self.0.get(&image.id).copied().unwrap_or(Seen { first: now, last_used: None });
            if used.contains(&image.id) {
                one.last_used = Some(now);
            }
            seen.insert(image.id.clone(), one);
        }
        self.0 = seen;
    }

    /// Returns the images to remove, longest unused first, until there is enough space; and how many bytes are then
    /// still missing.
    pub(super) fn to_remove(
        &self,
        images: &[Candidate],
        used: &BTreeSet<String>,
        room: Room,
        policy: ImagePolicy,
        now: Stamp,
    ) -> (Vec<String>, u64) {
        let mut wanted = missing(room, policy);
        let mut unused: Vec<(&Candidate, Seen)> = images
            .iter()
            .filter(|image| !image.is_pinned && !used.contains(&image.id))
            .filter_map(|image| Some((image, *self.0.get(&image.id)?)))
            .filter(|(_, seen)| seen.first.until(now) >= policy.min_age)
            .collect();
        unused.sort_by_key(|(image, seen)| (seen.last_used, seen.first, image.id.clone()));
        let mut remove = Vec::new();
        for (image, _) in unused {
            if wanted == 0 {
                break;
            }
            wanted = wanted.saturating_sub(image.size);
            remove.push(image.id.clone());
        }
        (remove, wanted)
    }
}

/// Returns how many bytes must be freed.
fn missing(room: Room, policy: ImagePolicy) -> u64 {
    let Room { capacity, available } = room;
    let used = 100_u64.saturating_sub(available.saturating_mul(100).checked_div(capacity).unwrap_or(100));
    if policy.high >= 100 || used < policy.high {
        return 0;
    }
    (capacity / 100 * 100_u64.saturating_sub(policy.low)).saturating_sub(available)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp::from_nanos(seconds * 1_000_000_000)
    }

    fn image(id: &str, size: u64) -> Candidate {
        Candidate { id: id.to_owned(), size, is_pinned: id == "pinned" }
    }

    fn used(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn room_is_made_between_the_thresholds() {
        let policy = ImagePolicy::default();
        // available of 1000 → bytes to free
        let table = [(1000, 0), (160, 0), (150, 50), (100, 100), (0, 200)];
        for (available, wanted) in table {
            assert_eq!(missing(Room { capacity: 1000, available }, policy), wanted, "{available}");
        }
        assert_eq!(missing(Room { capacity: 1000, available: 0 }, ImagePolicy { high: 100, ..policy }), 0);
        assert_eq!(missing(Room { capacity: 0, available: 0 }, policy), 0, "a disk that tells nothing");
    }

    #[test]
    fn the_longest_unused_go_first_and_what_is_used_pinned_or_young_stays() {
        let images = [
            image("used", 100),
            image("pinned", 100),
            image("old", 60),
            image("older", 60),
            image("never", 60),
        ];
        let mut history = ImageHistory::default();
        history.observe(&images, &used(&["used", "old", "older"]), at(0));
        history.observe(&images, &used(&["used", "old"]), at(100));
        history.observe(&images, &used(&["used"]), at(200));
        let plan = |available, now| {
            let room = Room { capacity: 1000, available };
            history.to_remove(&images, &used(&["used"]), room, ImagePolicy::default(), at(now))
        };
        assert_eq!(plan(500, 300), (vec![], 0), "there is room");
        assert_eq!(plan(150, 300), (vec!["never".to_owned()], 0));
        assert_eq!(plan(100, 300), (vec!["never".to_owned(), "older".to_owned()], 0));
        assert_eq!(plan(0, 300).1, 20, "and still not enough");
        assert_eq!(plan(0, 60), (vec![], 200), "all are too young");
    }
}
