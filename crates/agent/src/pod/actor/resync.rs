//! When a pod without any news is looked at again. Pure.

use std::time::Duration;

use pleg::Stamp;

/// Into how many parts the time between two looks is divided. All pods that are due within one part are looked at
/// together at its end: on an idle node, waking up costs more than looking.
const PARTS: u32 = 16;

/// Returns when to look next: after `resync`, plus up to half of that again as `chance` (0 to 1) says, so that pods
/// that were created together are not looked at together for ever.
pub(super) fn next(now: Stamp, resync: Duration, chance: f64) -> Stamp {
    let due = now.plus(resync + resync.mul_f64(0.5 * chance)).as_nanos();
    let part = u64::try_from((resync / PARTS).as_nanos()).unwrap_or(u64::MAX).max(1);
    Stamp::from_nanos(due.checked_next_multiple_of(part).unwrap_or(due))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn looks_are_spread_and_come_together(now in 0..u64::MAX / 4, secs in 0..1_000_000_u64, chance in 0.0..1.0) {
            let (now, resync) = (Stamp::from_nanos(now), Duration::from_secs(secs));
            let wait = now.until(next(now, resync, chance));
            prop_assert!(wait >= resync && wait <= resync.mul_f64(1.5) + resync / PARTS);
        }
    }

    #[test]
    fn sixty_pods_wake_a_node_ten_times() {
        let minute = Duration::from_secs(60);
        let begun = |pod: u32| Stamp::from_nanos(u64::from(pod) * 1_000_003);
        let looks = (0..60).map(|pod| next(begun(pod), minute, f64::from(pod) / 60.0));
        let mut looks: Vec<Stamp> = looks.collect();
        looks.dedup();
        assert!((7..=10).contains(&looks.len()), "{looks:?}");
    }
}
