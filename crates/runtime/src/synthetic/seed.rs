//! Randomness from one seed: each decision depends on the seed and on the decision's own name.
//!
//! A decision ("is the third status call of this container delayed?") does not consume numbers from a shared stream, so
//! it does not depend on the order in which concurrent calls happen to arrive.

/// The number with which a run can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    /// Returns the random numbers for one decision: what is decided, about whom, and for the `nth` time.
    pub(crate) fn rng(self, what: &str, whom: &str, nth: u64) -> fastrand::Rng {
        let mut hash = Fnv::new(self.0);
        hash.write(what.as_bytes());
        hash.write(&[0]);
        hash.write(whom.as_bytes());
        hash.write(&nth.to_le_bytes());
        fastrand::Rng::with_seed(hash.finish())
    }

    /// Decides whether something of this probability happens.
    pub(crate) fn happens(self, probability: f64, what: &str, whom: &str, nth: u64) -> bool {
        // The extremes are exact: 0 is never and 1 is always.
        probability >= 1.0 || (probability > 0.0 && self.rng(what, whom, nth).f64() < probability)
    }
}

/// FNV-1a with a final mix. The hasher of std may change between compilers; the results of a seed must not.
struct Fnv(u64);

impl Fnv {
    fn new(seed: u64) -> Self {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        hash.write(&seed.to_le_bytes());
        hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_depends_on_its_name_and_on_the_seed_only() {
        let draw = |seed, what, whom, nth| Seed(seed).rng(what, whom, nth).u64(..);
        assert_eq!(draw(1, "a", "b", 0), draw(1, "a", "b", 0));
        assert_ne!(draw(1, "a", "b", 0), draw(2, "a", "b", 0));
        assert_ne!(draw(1, "a", "b", 0), draw(1, "a", "b", 1));
        assert_ne!(draw(1, "ab", "", 0), draw(1, "a", "b", 0));
    }

    #[test]
    fn probabilities_hold() {
        let hits = (0..10_000).filter(|&n| Seed(7).happens(0.3, "p", "", n)).count();
        assert!((2_800..3_200).contains(&hits), "{hits}");
        assert!((0..100).all(|n| Seed(7).happens(1.0, "p", "", n)));
        assert!(!(0..100).any(|n| Seed(7).happens(0.0, "p", "", n)));
    }
}
