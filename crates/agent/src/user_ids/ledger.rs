//! Keeps track of which pod has which range. Pure: what is on disk is an argument.

use std::collections::{BTreeMap, BTreeSet};

use rubelet_model::PodUid;

use super::{IdPool, IdPoolError, IdRange};

/// What the folder of a pod says about its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Range(IdRange),
    /// The pod has a range, but it cannot be read.
    Damaged(String),
}

impl Found {
    pub(super) fn of(read: Result<IdRange, &'static str>) -> Self {
        read.map_or_else(|why| Self::Damaged(why.to_owned()), Self::Range)
    }
}

/// Why no range is available for a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRange {
    #[error("create user namespace: {0}")]
    NoPool(#[from] IdPoolError),
    #[error("create user namespace: could not find an empty slot to allocate a user namespace")]
    AllGiven,
    #[error(
        "create user namespace: the file userns in the folder of pod {pod} is damaged, so its ids are unknown and \
         could be assigned twice: stop that pod ({why})"
    )]
    Unknown { pod: PodUid, why: String },
}

/// The ranges of all pods.
#[derive(Debug)]
pub(super) struct Ledger {
    pool: Result<IdPool, IdPoolError>,
    held: BTreeMap<PodUid, IdRange>,
    /// Pods whose range is unknown.
    unknown: BTreeMap<PodUid, String>,
    /// Where to start looking for the next free range: after the last one, so that a released range is reused as late
    /// as possible.
    next: u32,
}

impl Ledger {
    /// Creates a ledger. The ranges of existing pods count even if they are from another pool.
    pub(super) fn new(
        pool: Result<IdPool, IdPoolError>,
        found: impl IntoIterator<Item = (PodUid, Found)>,
    ) -> Self {
        let mut ledger = Self { pool, held: BTreeMap::new(), unknown: BTreeMap::new(), next: 0 };
        for (uid, found) in found {
            match found {
                Found::Range(range) => drop(ledger.held.insert(uid, range)),
                Found::Damaged(why) => drop(ledger.unknown.insert(uid, why)),
            }
        }
        ledger
    }

    /// Returns the range that a pod has.
    pub(super) fn held(&self, uid: &PodUid) -> Option<IdRange> {
        self.held.get(uid).copied()
    }

    /// Assigns a range to a pod that has none.
    pub(super) fn take(&mut self, uid: &PodUid) -> Result<IdRange, NoRange> {
        if let Some((pod, why)) = self.unknown.first_key_value() {
            return Err(NoRange::Unknown { pod: pod.clone(), why: why.clone() });
        }
        let pool = self.pool.clone()?;
        let taken: BTreeSet<u32> = self.held.values().flat_map(|range| pool.touched_by(*range)).collect();
        let from_next = (self.next..pool.ranges()).chain(0..self.next.min(pool.ranges()));
        let index = from_next.into_iter().find(|index| !taken.contains(index)).ok_or(NoRange::AllGiven)?;
        self.next = index + 1;
        let range = pool.range(index);
        self.held.insert(uid.clone(), range);
        Ok(range)
    }

    /// Releases the range of a pod.
    pub(super) fn give_back(&mut self, uid: &PodUid) {
        self.held.remove(uid);
        self.unknown.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT: u32 = 65_536;

    fn pool(ranges: u32) -> IdPool {
        let text = format!("0: kubelet {UNIT} {}\n", ranges * UNIT);
        IdPool::of_subids(&text, &text, UNIT, 1).unwrap()
    }

    fn uid(number: u8) -> PodUid {
        PodUid::from(format!("pod-{number}"))
    }

    fn share_ids(a: IdRange, b: IdRange) -> bool {
        u64::from(a.first) < b.end() && u64::from(b.first) < a.end()
    }

    #[test]
    fn what_was_given_back_rests_while_there_are_others() {
        let mut ledger = Ledger::new(Ok(pool(3)), []);
        let first = ledger.take(&uid(0)).unwrap();
        ledger.give_back(&uid(0));
        let others = [ledger.take(&uid(1)).unwrap(), ledger.take(&uid(2)).unwrap()];
        assert!(!others.contains(&first));
        assert_eq!(ledger.take(&uid(3)), Ok(first));
        assert_eq!(ledger.take(&uid(4)), Err(NoRange::AllGiven));
        ledger.give_back(&uid(2));
        assert_eq!(ledger.take(&uid(4)), Ok(others[1]));
    }

    #[test]
    fn without_a_pool_those_who_have_a_range_keep_it() {
        let range = IdRange { first: UNIT, length: UNIT };
        let mut ledger = Ledger::new(Err(IdPoolError::Mismatch), [(uid(0), Found::Range(range))]);
        assert_eq!(ledger.held(&uid(0)), Some(range));
        assert_eq!(ledger.take(&uid(1)), Err(NoRange::NoPool(IdPoolError::Mismatch)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u8),
        GiveBack(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![(0..12u8).prop_map(Step::Take), (0..12u8).prop_map(Step::GiveBack)];
        prop::collection::vec(step, 0..60)
    }

    /// Generates pods that are found at start; their ranges may be from any pool.
    fn found() -> impl Strategy<Value = BTreeMap<u8, IdRange>> {
        let range = (1..10 * UNIT, 1..3 * UNIT).prop_map(|(first, length)| IdRange { first, length });
        prop::collection::btree_map(0..12u8, range, 0..4)
    }

    proptest! {
        #[test]
        fn no_id_is_given_to_two_pods(found in found(), ranges in 1..8u32, steps in steps()) {
            let pool = pool(ranges);
            let mut ledger =
                Ledger::new(Ok(pool), found.iter().map(|(pod, range)| (uid(*pod), Found::Range(*range))));
            let mut known: BTreeMap<u8, IdRange> = found;
            for step in steps {
                match step {
                    Step::GiveBack(pod) => {
                        ledger.give_back(&uid(pod));
                        known.remove(&pod);
                    }
                    Step::Take(pod) if known.contains_key(&pod) => {
                        prop_assert_eq!(ledger.held(&uid(pod)), Some(known[&pod]), "it keeps what it has");
                    }
                    Step::Take(pod) => {
                        let is_free = |index| known.values().all(|held| !share_ids(pool.range(index), *held));
                        match ledger.take(&uid(pod)) {
                            Ok(range) => {
                                prop_assert!(known.values().all(|held| !share_ids(range, *held)));
                                prop_assert!((0..ranges).any(|index| pool.range(index) == range));
                                known.insert(pod, range);
                            }
                            Err(NoRange::AllGiven) => prop_assert!(!(0..ranges).any(is_free)),
                            Err(error) => prop_assert!(false, "{}", error),
                        }
                    }
                }
            }
        }
    }
}
