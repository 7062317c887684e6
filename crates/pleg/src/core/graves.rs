//! Containers and sandboxes whose removal has been reported, so that late announcements about them are ignored.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Stamp;

/// How late an announcement may be.
const KEPT: Duration = Duration::from_secs(600);
/// How many ids are remembered at most.
const MOST: usize = 10_000;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Graves {
    since: BTreeMap<Arc<str>, Stamp>,
    in_order: VecDeque<(Arc<str>, Stamp)>,
}

impl Graves {
    pub(super) fn add(&mut self, id: Arc<str>, now: Stamp) {
        self.since.insert(id.clone(), now);
        self.in_order.push_back((id, now));
        while let Some((id, since)) = self.in_order.front()
            && (since.plus(KEPT) < now || self.in_order.len() > MOST)
        {
            // The id may have been added again since.
            if self.since.get(id) == Some(since) {
                self.since.remove(id);
            }
            self.in_order.pop_front();
        }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.since.contains_key(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first_and_there_are_never_too_many() {
        let mut graves = Graves::default();
        let at = |seconds| Stamp::ZERO.plus(Duration::from_secs(seconds));
        graves.add("old".into(), at(0));
        graves.add("again".into(), at(0));
        graves.add("again".into(), at(500));
        graves.add("new".into(), at(601));
        assert_eq!(["old", "again", "new"].map(|id| graves.has(id)), [false, true, true]);
        for number in 0..2 * MOST {
            graves.add(number.to_string().into(), at(700));
        }
        assert!(!graves.has("new") && graves.has("19999"));
        assert!(graves.since.len() <= MOST && graves.in_order.len() <= MOST);
    }
}
