//! When to look for pods that are no longer wanted: often just after something has happened, and rarely while nothing
//! does. An idle agent must cost next to nothing.

/// How many ticks after the last event count as restless: consequences may come a moment later.
const AFTERMATH: u32 = 5;
/// At rest, one tick out of this many is used: other things may have appeared on disk.
const AT_REST: u32 = 15;

/// Whether something has happened recently.
#[derive(Debug)]
pub(super) struct Unrest {
    ticks_left: u32,
    ticks_skipped: u32,
}

impl Unrest {
    /// Starts restless, since everything is new.
    pub(super) fn new() -> Self {
        Self { ticks_left: AFTERMATH, ticks_skipped: 0 }
    }

    /// Notes that something has happened.
    pub(super) fn stir(&mut self) {
        self.ticks_left = AFTERMATH;
    }

    /// Counts another tick; returns whether to look now.
    pub(super) fn tick(&mut self) -> bool {
        let is_due = self.ticks_left > 0 || self.ticks_skipped + 1 >= AT_REST;
        self.ticks_left = self.ticks_left.saturating_sub(1);
        self.ticks_skipped = if is_due { 0 } else { self.ticks_skipped + 1 };
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_rare_at_rest_and_frequent_after_whatever_happens() {
        let mut unrest = Unrest::new();
        let looks = |unrest: &mut Unrest, ticks: u32| (0..ticks).filter(|_| unrest.tick()).count();
        assert_eq!(looks(&mut unrest, AFTERMATH), 5);
        assert_eq!(looks(&mut unrest, 3 * AT_REST), 3);
        unrest.stir();
        unrest.stir();
        assert_eq!(looks(&mut unrest, AFTERMATH), 5, "at once, and for a while");
        assert_eq!(looks(&mut unrest, AT_REST - 1), 0);
        assert!(unrest.tick());
    }
}
