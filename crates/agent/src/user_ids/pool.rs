//! The pool of IDs that pods get their ranges from.

use super::IdRange;

/// The length of a range must be a multiple of this.
const UNIT: u32 = 65_536;
/// How many IDs exist.
const ALL: u64 = 1 << 32;

/// The pool of IDs that pods get theirs from, in ranges of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPool {
    first: u32,
    per_pod: u32,
    ranges: u32,
}

/// Why the pool cannot be used. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdPoolError {
    /// The length of a range must be a multiple of 65536.
    #[error("kubelet user namespace length {0} is not a multiple of {UNIT}")]
    Length(u32),
    /// Ranges start at multiples of their length.
    #[error("kubelet user assigned ID {first} is not a multiple of {per_pod}")]
    First {
        /// The first ID.
        first: u32,
        /// The number of IDs per pod.
        per_pod: u32,
    },
    /// The IDs near that of the host's root are not available to pods.
    #[error("kubelet user assigned ID {first} must be greater or equal to {per_pod}")]
    Root {
        /// The first ID.
        first: u32,
        /// The number of IDs per pod.
        per_pod: u32,
    },
    /// The number of IDs must be a multiple of the length of a range.
    #[error("kubelet user assigned IDs length {length} is not a multiple of {per_pod}")]
    Remainder {
        /// The number of IDs.
        length: u64,
        /// The number of IDs per pod.
        per_pod: u32,
    },
    /// There are not enough ranges: every pod that the node admits may want one.
    #[error("kubelet user assigned IDs are not enough to support {0} pods")]
    TooFew(usize),
    /// The output of `getsubids` is not a single range.
    #[error("error parsing line {0:?}: it must be one line `0: kubelet FIRST COUNT`")]
    Subids(String),
    /// Users and groups have different ranges.
    #[error("mismatched subuids and subgids for user \"kubelet\"")]
    Mismatch,
    /// `getsubids` failed.
    #[error("error retrieving additional ids for user \"kubelet\": {0}")]
    Unasked(String),
}

impl IdPool {
    /// Returns all IDs but the lowest, in ranges of 65536, as a kubelet uses them.
    #[must_use]
    pub fn usual() -> Self {
        Self { first: UNIT, per_pod: UNIT, ranges: UNIT - 1 }
    }

    /// Returns all IDs but the lowest, in ranges of another length.
    ///
    /// # Errors
    ///
    /// If the length is not a multiple of 65536, or if there would not be enough ranges for all pods.
    pub fn with_ids_per_pod(per_pod: u32, most_pods: usize) -> Result<Self, IdPoolError> {
        let length = ALL - u64::from(per_pod);
        // If the length does not divide the number of all IDs, the last IDs are left over.
        let whole = length.checked_rem(u64::from(per_pod)).map_or(length, |rest| length - rest);
        Self::of(per_pod, whole, per_pod, most_pods)
    }

    /// Creates a pool of these IDs.
    fn of(first: u32, length: u64, per_pod: u32, most_pods: usize) -> Result<Self, IdPoolError> {
        if per_pod == 0 || !per_pod.is_multiple_of(UNIT) {
            return Err(IdPoolError::Length(per_pod));
        }
        if !first.is_multiple_of(per_pod) {
            return Err(IdPoolError::First { first, per_pod });
        }
        if first < per_pod {
            return Err(IdPoolError::Root { first, per_pod });
        }
        if !length.is_multiple_of(u64::from(per_pod)) || u64::from(first) + length > ALL {
            return Err(IdPoolError::Remainder { length, per_pod });
        }
        let ranges = u32::try_from(length / u64::from(per_pod)).unwrap_or(u32::MAX);
        if usize::try_from(ranges).is_ok_and(|ranges| ranges < most_pods) {
            return Err(IdPoolError::TooFew(most_pods));
        }
        Ok(Self { first, per_pod, ranges })
    }

    /// Returns the IDs that are set aside for the user `kubelet`, as printed by `getsubids` and `getsubids -g`.
    ///
    /// # Errors
    ///
    /// If they are not one range for both, or cannot be divided among the pods.
    pub fn of_subids(users: &str, groups: &str, per_pod: u32, most_pods: usize) -> Result<Self, IdPoolError> {
        if users != groups {
            return Err(IdPoolError::Mismatch);
        }
        let (first, length) = subids(users).ok_or_else(|| IdPoolError::Subids(users.trim().to_owned()))?;
        Self::of(first, u64::from(length), per_pod, most_pods)
    }

    /// Returns the number of ranges.
    pub(super) fn ranges(self) -> u32 {
        self.ranges
    }

    pub(super) fn range(self, index: u32) -> IdRange {
        // Checked on creation: the last range ends within all IDs.
        IdRange { first: self.first + index * self.per_pod, length: self.per_pod }
    }

    /// Returns the ranges that overlap this one.
    pub(super) fn touched_by(self, range: IdRange) -> std::ops::Range<u32> {
        let index = |ids: u64| u32::try_from(ids).unwrap_or(u32::MAX).min(self.ranges);
        let (first, per_pod) = (u64::from(self.first), u64::from(self.per_pod));
        let from = u64::from(range.first).saturating_sub(first) / per_pod;
        let to = range.end().saturating_sub(first).div_ceil(per_pod);
        index(from)..index(to)
    }
}

/// Parses `0: kubelet 65536 2147483648` into the first ID and the number of IDs.
fn subids(text: &str) -> Option<(u32, u32)> {
    let mut lines = text.trim_matches('\n').lines();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, _, first, length] => Some((first.parse().ok()?, length.parse().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_pool_is_everything_but_the_lowest_ids() {
        assert_eq!(IdPool::with_ids_per_pod(UNIT, 110), Ok(IdPool::usual()));
        let pool = IdPool::usual();
        assert_eq!(pool.range(0), IdRange { first: 65_536, length: 65_536 });
        assert_eq!(pool.range(pool.ranges() - 1).end(), ALL);
    }

    #[test]
    fn pools_that_cannot_be_divided_say_why() {
        let subids = |first: u32, length: u32| format!("0: kubelet {first} {length}\n");
        let table = [
            (subids(65_536, 65_536 * 110), UNIT, Ok(110)),
            (subids(131_072, 131_072 * 110), 2 * UNIT, Ok(110)),
            (subids(65_536, 65_536 * 109), UNIT, Err("are not enough to support 110 pods")),
            (subids(1000, 65_536 * 110), UNIT, Err("assigned ID 1000 is not a multiple of 65536")),
            (subids(0, 65_536 * 110), UNIT, Err("assigned ID 0 must be greater or equal to 65536")),
            (subids(65_536, 1000), UNIT, Err("length 1000 is not a multiple of 65536")),
            (subids(4_294_901_760, 131_072), UNIT, Err("length 131072 is not a multiple")),
            (subids(65_536, 65_536), 1000, Err("length 1000 is not a multiple of 65536")),
            (subids(65_536, 65_536), 0, Err("length 0 is not a multiple of 65536")),
            (subids(1, 2) + &subids(3, 4), UNIT, Err("it must be one line")),
            (String::new(), UNIT, Err("it must be one line")),
            ("0: kubelet many more\n".to_owned(), UNIT, Err("it must be one line")),
        ];
        for (text, per_pod, wanted) in table {
            match (IdPool::of_subids(&text, &text, per_pod, 110), wanted) {
                (Ok(pool), Ok(ranges)) => assert_eq!(pool.ranges(), ranges, "{text}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{text}: {error}"),
                (got, wanted) => panic!("{text}: {got:?}, and not {wanted:?}"),
            }
        }
        let mismatched = IdPool::of_subids(&subids(65_536, 65_536), &subids(65_536, 131_072), UNIT, 1);
        assert_eq!(mismatched, Err(IdPoolError::Mismatch));
        assert_eq!(IdPool::with_ids_per_pod(UNIT << 15, 1).map(IdPool::ranges), Ok(1));
        assert_eq!(IdPool::with_ids_per_pod(UNIT << 15, 2), Err(IdPoolError::TooFew(2)));
        assert_eq!(IdPool::with_ids_per_pod(0, 1), Err(IdPoolError::Length(0)));
        assert_eq!(IdPool::with_ids_per_pod(3 * UNIT, 110).map(IdPool::ranges), Ok(21_844));
    }

    #[test]
    fn a_range_of_another_pool_touches_what_it_shares_ids_with() {
        let pool = IdPool::usual();
        let touched = |first, length| pool.touched_by(IdRange { first, length });
        assert_eq!(touched(65_536, 65_536), 0..1);
        assert_eq!(touched(65_535, 1), 0..0);
        assert_eq!(touched(65_535, 2), 0..1);
        assert_eq!(touched(131_071, 2), 0..2);
        assert_eq!(touched(4_294_967_295, 1), 65_534..65_535);
    }
}
